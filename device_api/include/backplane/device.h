/* SPDX-License-Identifier: Apache-2.0
 *
 * The device table: what an instance sees on this machine, and what each device can do.
 *
 * Rules: band bits in bp_device_props.features tell which optional slots work for *this* device;
 * where a bit is off the core emulates, even if the slots are filled.
 */
#ifndef BACKPLANE_DEVICE_H
#define BACKPLANE_DEVICE_H

#include "backplane/host.h"
#include "backplane/status.h"
#include "backplane/types.h"

/* Bands: groups of optional slots.
 *
 * Rules: beside each bit. A band is given whole or not at all. A table announces a band in its
 * flags with the same bit that bp_device_props.features uses. Without ASYNC a device's TIMING and
 * NATIVE count as off (elapsed times are the host's then), and its mem_fill gets no stream. */
#define BP_FEATURE_ASYNC_BIT ((uint64_t)1 << 0)  /* stream table: streams, events */
#define BP_FEATURE_TIMING_BIT ((uint64_t)1 << 1) /* stream table: event_elapsed; needs ASYNC */
#define BP_FEATURE_FILL_BIT ((uint64_t)1 << 2)   /* memory table: mem_fill */
#define BP_FEATURE_PINNED_BIT ((uint64_t)1 << 3) /* memory table: host_alloc, host_free */
#define BP_FEATURE_MAP_BIT ((uint64_t)1 << 4)    /* memory table: mem_map, mem_unmap */
#define BP_FEATURE_NATIVE_BIT ((uint64_t)1 << 5) /* stream table: native streams; needs ASYNC */

/* bp_device_props.flags
 *
 * Rules: CONCURRENT: slots may be called from several threads at once, and may block; without it
 *   the core makes one call at a time per device, and only polls.
 * ADDRESS: handle + offset_bytes is an address in the device's space.
 * HOST_MEMORY: ... and the host may read and write there directly. */
#define BP_DEVICE_CONCURRENT_BIT 1u
#define BP_DEVICE_ADDRESS_BIT 2u
#define BP_DEVICE_HOST_MEMORY_BIT 4u

/* bp_device_props.execution. Rules: beside each value. */
#define BP_EXECUTION_QUEUED 0u /* launches return before the work is done */
#define BP_EXECUTION_INLINE 1u /* a launch with stream NULL runs on the calling thread */

/* Allocated and zeroed by the core; the plugin writes at most struct_size bytes. Texts: lifetime
 * object (the device); none is empty. Required: alignment_bytes.
 * Rules: a number that the plugin does not know stays 0. */
typedef struct bp_device_props {
  uint32_t struct_size;
  uint32_t flags;              /* BP_DEVICE_*_BIT */
  uint64_t features;           /* BP_FEATURE_*_BIT */
  uint32_t execution;          /* BP_EXECUTION_* */
  uint32_t compute_unit_count; /* cores, multiprocessors, tiles */
  uint64_t memory_bytes;       /* Rules: all memory of the device */
  uint64_t max_alloc_bytes;    /* Rules: largest single mem_alloc; 0: no limit but memory_bytes */
  uint64_t alignment_bytes;    /* Rules: what mem_alloc gives at least; 0: 1 */
  bp_str name;                 /* as the vendor calls it */
  bp_str vendor;
  bp_str driver; /* driver or library, with version */
  uint32_t dlpack_device_type; /* the DLDeviceType that DLPack (1.0 or later) has for such devices,
                                  so that others find its memory; 0: DLPack has none */
  int32_t dlpack_device_id;    /* the number by which consumers of DLPack know this device, from 0:
                                  the vendor's, not the plugin's where the two differ */
} bp_device_props;

/* How a device is to be opened. Allocated by the core, read during the call only.
 * Required: all. Rules: beside each member. */
typedef struct bp_open_args {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t index; /* 0 to device_count - 1 */
  uint32_t option_count;
  const bp_str* option_names;  /* device-scope options that the user set; lifetime: call */
  const bp_str* option_values; /* as in bp_config (root.h); lifetime: call */
} bp_open_args;

typedef struct bp_device_api {
  uint32_t struct_size;
  uint32_t flags;

  /* device_count: how many devices the instance has. Rules: 0 is legal.
   * Errors: BP_UNAVAILABLE. Threads: any-thread. Blocks: briefly. Absent: the plugin is refused. */
  bp_status (*device_count)(bp_instance* instance, uint32_t* out_count);

  /* device_open: makes a device ready for memory and work.
   * Errors: BP_INVALID_ARGUMENT for an index out of range or an option's value; BP_UNAVAILABLE,
   *   BP_OUT_OF_MEMORY. On an error *out_device stays NULL.
   * Ownership: the core ends it with device_close. Threads: any-thread. Blocks: it may.
   * Absent: the plugin is refused. */
  bp_status (*device_open)(bp_instance* instance, const bp_open_args* args, bp_device** out_device);

  /* device_close: ends a device.
   * Rules: its memory, streams, events, plans and states are freed before.
   * Threads: object-exclusive. Blocks: it may. Absent: the plugin is refused. */
  bp_status (*device_close)(bp_device* device);

  /* device_props: what the device is and can do. Rules: the answer never changes while it is open.
   * Threads: any-thread. Blocks: no. Absent: the plugin is refused. */
  bp_status (*device_props)(bp_device* device, bp_device_props* out_props);
} bp_device_api;

#endif
