/* SPDX-License-Identifier: Apache-2.0
 *
 * SKETCH, not released: the capture table, and a block source in the order of streams. It travels
 * as the extension "bp.sketch.capture", version BP_SKETCH_CAPTURE.
 *
 * Between capture_begin and capture_end a stream records instead of running: launches,
 * mem_copy_async, mem_fill, event_record, event_wait, mem_alloc_async and mem_free_async. A stream
 * that waits for an event recorded by a captured stream is captured too, until the end. Whatever
 * else is asked of a captured stream (host waits, queries, host calls, a wait for unfinished work
 * outside) answers BP_UNSUPPORTED, has no effect, and the capture goes on.
 *
 * What captured work names stays valid until capture_free: memory, plans, states, attributes. Host
 * arguments are read when captured. A captured launch's op_seq and fault word are those of
 * capture_launch, not those that it was captured with.
 */
#ifndef BACKPLANE_SKETCH_CAPTURE_H
#define BACKPLANE_SKETCH_CAPTURE_H

#include "backplane/host.h"
#include "backplane/memory.h"
#include "backplane/status.h"
#include "backplane/types.h"

#define BP_SKETCH_CAPTURE 1u

#define BP_FEATURE_CAPTURE_BIT ((uint64_t)1 << 6)      /* capture table: the first six */
#define BP_FEATURE_STREAM_ALLOC_BIT ((uint64_t)1 << 7) /* capture table: the last two */

typedef struct bp_capture bp_capture; /* made by capture_end */

/* What was captured. Allocated and zeroed by the core. Required: stream_count. */
typedef struct bp_capture_info {
  uint32_t struct_size;
  uint32_t flags;
  uint64_t node_count;   /* of all kinds */
  uint64_t launch_count; /* sequence numbers that a launch of the capture takes */
  uint64_t block_bytes;  /* of mem_alloc_async, reuse counted */
  uint64_t stream_count; /* that took part */
} bp_capture_info;

/* One launch of a capture. Built by the core on its stack. Required: all. */
typedef struct bp_capture_launch_args {
  uint32_t struct_size;
  uint32_t flags;
  bp_capture* capture;
  bp_stream* stream; /* the whole capture is one piece of work in its order */
  uint64_t op_seq;   /* names the first captured launch in reports and in the fault word; launch i,
                        in the order of capture, is op_seq + i */
  bp_mem fault;      /* one bp_fault_word for all launches that were captured with one; handle 0:
                        faults are not told */
} bp_capture_launch_args;

/* Allocated by the core, read during the call. Required: all. */
typedef struct bp_async_alloc_args {
  uint32_t struct_size;
  uint32_t flags;
  bp_stream* stream;
  uint64_t bytes;           /* > 0 */
  uint64_t alignment_bytes; /* power of two; 0: the device's own */
} bp_async_alloc_args;

typedef struct bp_capture_api {
  uint32_t struct_size;
  uint32_t flags; /* bands: BP_FEATURE_CAPTURE_BIT, BP_FEATURE_STREAM_ALLOC_BIT */

  /* capture_begin (band CAPTURE): the stream records from now on.
   * Errors: BP_BUSY for a stream that records already; BP_POISONED. Threads: stream-ordered.
   * Blocks: no. Absent: the core's own list, which replays resolved launches. */
  bp_status (*capture_begin)(bp_stream* stream);

  /* capture_end (band CAPTURE): every stream of the capture runs again what is enqueued.
   * stream: the one that began. Errors: BP_INVALID_ARGUMENT for another stream, and for a stream
   *   whose captured work this one does not wait for: the capture is then dropped.
   * Ownership: capture_free. Threads: stream-ordered. Blocks: no. */
  bp_status (*capture_end)(bp_stream* stream, bp_capture_info* out_info, bp_capture** out_capture);

  /* capture_instantiate (band CAPTURE): makes a capture ready to be launched.
   * Errors: BP_OUT_OF_MEMORY; BP_BUSY the second time. Threads: object-exclusive. Blocks: it may.
   */
  bp_status (*capture_instantiate)(bp_capture* capture);

  /* capture_update (band CAPTURE): takes over addresses, sizes and attributes of a newer capture of
   * equal topology: the same kinds and kernels that wait for each other in the same way. No launch
   * of it is pending. newer stays the core's.
   * Errors: BP_UNSUPPORTED for another topology, with no effect: the core instantiates newer.
   * Threads: object-exclusive on both. Blocks: it may. */
  bp_status (*capture_update)(bp_capture* capture, const bp_capture* newer);

  /* capture_launch (band CAPTURE): runs an instantiated capture in the stream's order. Launches of
   * one capture, and of captures that were begun on one stream, follow each other: on one stream,
   * or ordered by events.
   * Errors: BP_INVALID_ARGUMENT for one that is not instantiated; BP_UNSUPPORTED on a captured
   *   stream; BP_POISONED. A failure later on breaks the stream and reports the op_seq of the
   *   launch. Threads: stream-ordered; object-exclusive on the capture. Blocks: no. */
  bp_status (*capture_launch)(const bp_capture_launch_args* args);

  /* capture_free (band CAPTURE): ends a capture of which no launch is pending.
   * Threads: object-exclusive. Blocks: no. */
  bp_status (*capture_free)(bp_capture* capture);

  /* mem_alloc_async (band STREAM_ALLOC): memory for the stream's later work, and for what waits for
   * it. While captured, the address is the same at each launch.
   * Errors: BP_OUT_OF_MEMORY; BP_INVALID_ARGUMENT for 0 bytes. Ownership: mem_free_async, same
   * handle; what was allocated while captured and not freed there goes with the capture.
   * Threads: stream-ordered. Blocks: it should not. Absent: mem_alloc, pooled. */
  bp_status (*mem_alloc_async)(bp_device* device, const bp_async_alloc_args* args,
                               uint64_t* out_handle);

  /* mem_free_async (band STREAM_ALLOC): the stream's work so far is the last to use the memory.
   * Errors: BP_INVALID_ARGUMENT for a handle that mem_alloc_async did not give. Threads:
   * stream-ordered. Blocks: no. */
  bp_status (*mem_free_async)(bp_stream* stream, uint64_t handle);
} bp_capture_api;

#endif
