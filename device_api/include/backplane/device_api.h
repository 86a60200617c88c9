/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole plugin ABI. Read in this order:
 *   types.h, status.h   values that cross
 *   root.h              the entry point and what it fills; version.h for the numbers
 *   device.h, memory.h  with root, the nine functions that every plugin has
 *   kernel.h            how operators are offered
 *   stream.h            optional: native streams and events
 *   collective.h        optional: exchange of data with other devices of the kind
 *   host.h              what the core lends
 *
 * Rules that hold everywhere: fixed-width C types only; a versioned struct begins with struct_size
 * and flags, grows only at its end, and zero in a member means what a side without that member
 * would do; the side that allocates a struct sizes and frees it; no size or version is compared for
 * equality; a plugin never throws across a slot, aborts, exits or installs signal handlers; there
 * is no current device; NULL where no comment allows it is answered BP_INVALID_ARGUMENT, an unknown
 * flag in an argument BP_UNSUPPORTED, neither with any effect.
 *
 * Rules: a control call has a deadline. Past it the core abandons the device (or the instance,
 * where the call takes one): it waits no longer, makes no further call into it, not even
 * device_close and shutdown, and frees nothing that it gave or got. The plugin must live with being
 * abandoned as a driver lives with a killed process: a call that returns late has no reader, its
 * threads end with the process and hold nothing that another device or instance needs. All other
 * calls stay on the caller's thread for as long as they take.
 *
 * Control calls: init, shutdown, device_count, device_open, device_close, device_props,
 * kernel_list, stream_sync, stream_destroy, event_sync, event_destroy, collective_caps, uid_create,
 * comm_init, comm_poll, comm_abort, comm_destroy.
 *
 * Rules: "Required: m." over a struct: m is the last member that is always within struct_size, so
 * that m and all before it may be read without a look at struct_size ("all": the struct's last
 * member; "none": no more than flags). A receiver may refuse a struct that ends earlier. What is
 * behind m may be missing, and then counts as zero.
 *
 * Rules: what both sides rely on stands behind "Rules:" and behind Threads, Blocks, Ownership,
 * Errors, Absent, Required, lifetime, length and stride; "Rules: beside each member." says that the
 * words beside the members are rules, too. Words before these explain. */
#ifndef BACKPLANE_DEVICE_API_H
#define BACKPLANE_DEVICE_API_H

#include "backplane/collective.h"
#include "backplane/device.h"
#include "backplane/host.h"
#include "backplane/kernel.h"
#include "backplane/memory.h"
#include "backplane/root.h"
#include "backplane/status.h"
#include "backplane/stream.h"
#include "backplane/types.h"
#include "backplane/version.h"

#endif
