/* SPDX-License-Identifier: Apache-2.0
 *
 * What the core lends to a plugin instance at init.
 *
 * Rules: a plugin reads it through struct_size: an older core lends a shorter table (the SDK's
 * bp::sdk::Host checks this and has a default for each slot). Table and context belong to the
 * instance they were given to and live until its shutdown returns.
 */
#ifndef BACKPLANE_HOST_H
#define BACKPLANE_HOST_H

#include "backplane/status.h"
#include "backplane/types.h"

typedef struct bp_instance bp_instance; /* made by the plugin's init */
typedef struct bp_device bp_device;     /* made by device_open */
typedef struct bp_stream bp_stream;     /* made by stream_create */
typedef struct bp_event bp_event;       /* made by event_create */

#define BP_LOG_ERROR 1u
#define BP_LOG_WARNING 2u
#define BP_LOG_INFO 3u
#define BP_LOG_DEBUG 4u

/* What went wrong, in words. Allocated by the plugin; the core copies what it keeps.
 * Required: message. Rules: beside each member. */
typedef struct bp_report_info {
  uint32_t struct_size;
  uint32_t flags;
  bp_status status;
  int32_t reserved;    /* 0 */
  int64_t vendor_code; /* the driver's own code, 0 if none */
  uint64_t op_seq;     /* of the launch that failed; 0: unknown or none */
  bp_stream* stream;   /* NULL: none */
  bp_str message;      /* lifetime: call. One sentence: what failed, with its values. */
} bp_report_info;

typedef struct bp_host_api {
  uint32_t struct_size;
  uint32_t flags;

  /* report: says why something failed.
   * Rules: it explains the status of a call: on the thread that makes the call, before it returns
   * and with the status that it returns, since the core looks for it by thread. Or it explains a
   * failure of work on a stream: on any thread, when the plugin learns of it, with `stream`, since
   * nothing else leads the core to it.
   * Ownership: the core copies.
   * Threads: any-thread, plugin threads too. Blocks: no. Absent: never (required since 0.1). */
  void (*report)(void* host_ctx, const bp_report_info* info);

  /* log: for the user's log. Rules: one line. level: BP_LOG_*.
   * Ownership: the core copies.
   * Threads: any-thread, plugin threads too. Blocks: no. Absent: never (required since 0.1). */
  void (*log)(void* host_ctx, uint32_t level, bp_str message);
} bp_host_api;

#endif
