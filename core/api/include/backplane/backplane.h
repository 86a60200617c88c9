/* SPDX-License-Identifier: Apache-2.0
 *
 * The C application API of Backplane: devices, tensors, operators, sessions, collectives. Devices
 * come from plugins found at run time; nothing here names one. This is the header to include; its
 * parts are by topic: api/common.h (errors, log), api/runtime.h, api/tensor.h, api/stream.h,
 * api/session.h, api/ccl.h (collectives), api/ccl_job.h (ranks as processes), api/ccl_dist.h
 * (parallel training).
 *
 * Objects are opaque. What a call answers in an out_ argument is the caller's, to be released with
 * the object's own release function, unless it says otherwise; on an error out_ arguments are NULL
 * or 0. Structs are versioned: set struct_size to sizeof, the rest to 0 for defaults. Every
 * function may be called from any thread. A status is one of backplane/status.h's; bpa_last_error
 * has its words.
 *
 * Handles are checked: NULL, a released object, another type's object or a foreign pointer is
 * INVALID_ARGUMENT, and a release of one does nothing but log it. One thread may release what
 * another one uses: a call that has found its object keeps it until it returns. Texts are UTF-8 and
 * terminated. Arguments are checked before anything happens; the words name the argument. Members
 * that this library does not know yet must be 0: a longer struct is taken if they are, else
 * UNSUPPORTED.
 *
 * In a process forked after a Runtime was made, what answers a status answers FORKED, releases do
 * nothing, and no callback or deleter is called: fork before the first Runtime is made, or exec.
 */
#ifndef BACKPLANE_BACKPLANE_H
#define BACKPLANE_BACKPLANE_H

#include "backplane/api/ccl.h"
#include "backplane/api/ccl_dist.h"
#include "backplane/api/ccl_job.h"
#include "backplane/api/common.h"
#include "backplane/api/runtime.h"
#include "backplane/api/session.h"
#include "backplane/api/stream.h"
#include "backplane/api/tensor.h"

#endif
