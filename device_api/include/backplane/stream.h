/* SPDX-License-Identifier: Apache-2.0
 *
 * The stream and event table.
 *
 * Rules: a plugin without it still runs asynchronously: the core then gives each stream a worker
 * thread of its own. Work on one stream runs in order. Streams make progress independently: work on
 * one never waits for another but by event_wait, and a host function that blocks holds back its own
 * stream only. A failure on a stream is sticky: later work on it is not run, later enqueues answer
 * BP_POISONED, and stream_sync repeats the first error (never BP_TIMEOUT or BP_PENDING) until the
 * stream is destroyed.
 */
#ifndef BACKPLANE_STREAM_H
#define BACKPLANE_STREAM_H

#include "backplane/host.h"
#include "backplane/memory.h"
#include "backplane/status.h"
#include "backplane/types.h"

/* timeout_ns. Rules: how long to wait at most. 0 only asks. */
#define BP_TIMEOUT_FOREVER UINT64_MAX

/* Allocated by the core, read during the call. Required: none. */
typedef struct bp_stream_args {
  uint32_t struct_size;
  uint32_t flags;
} bp_stream_args;

/* Allocated by the core, read during the call. Required: none. */
typedef struct bp_event_args {
  uint32_t struct_size;
  uint32_t flags; /* BP_EVENT_*_BIT */
} bp_event_args;

#define BP_EVENT_TIMING_BIT 1u /* Rules: event_elapsed will be asked (band TIMING) */

/* A queue of the vendor's own interface. Allocated and zeroed by the core. Required: all.
 * Rules: beside each member. */
typedef struct bp_native_stream {
  uint32_t struct_size;
  uint32_t flags;
  uint64_t handle; /* the queue as that interface passes it: a pointer or a number */
  bp_str kind;     /* what handle is, "interface.type": "npu.queue"; lifetime: plugin */
} bp_native_stream;

/* A queue of the application's that is to become a stream. Allocated by the core, read during the
 * call. Required: all. Rules: beside each member. */
typedef struct bp_stream_wrap_args {
  uint32_t struct_size;
  uint32_t flags;
  uint64_t handle; /* as in bp_native_stream */
  bp_str kind;     /* as in bp_native_stream; lifetime: call */
} bp_stream_wrap_args;

/* A function on the host.
 *
 * Rules: a stream calls it in order. stream_status: BP_OK, or the failure of the stream. It may
 * block, for as long as the application likes, so it runs on no thread that other streams, reports
 * or the plugin's driver need. It makes no call into the device's plugin. */
typedef void (*bp_host_fn)(void* user, bp_status stream_status);

typedef struct bp_stream_api {
  uint32_t struct_size;
  uint32_t flags; /* bands: BP_FEATURE_ASYNC_BIT, BP_FEATURE_TIMING_BIT, BP_FEATURE_NATIVE_BIT */

  /* stream_create (band ASYNC): an in-order queue.
   * Errors: BP_OUT_OF_MEMORY, BP_UNAVAILABLE. Ownership: stream_destroy. Threads: any-thread.
   * Blocks: no. Absent: a worker thread per stream. */
  bp_status (*stream_create)(bp_device* device, const bp_stream_args* args, bp_stream** out_stream);

  /* stream_destroy (band ASYNC): ends a stream. Rules: after its work is done or abandoned.
   * Threads: object-exclusive. Blocks: until the running work ends. */
  bp_status (*stream_destroy)(bp_stream* stream);

  /* stream_sync (band ASYNC): waits for a stream.
   * Rules: until all work enqueued so far is done. When it answers a failure, too, nothing uses
   * memory any more: the rest is done, or never will be.
   * Errors: BP_TIMEOUT; the stream's first failure. Threads: any-thread. Blocks: to timeout_ns. */
  bp_status (*stream_sync)(bp_stream* stream, uint64_t timeout_ns);

  /* stream_query (band ASYNC): asks a stream.
   * Rules: BP_OK if all work is done, BP_PENDING if not yet (for a moment also after a wait for its
   * last event), or, once nothing uses memory any more, the stream's first failure.
   * Threads: any-thread. Blocks: no. */
  bp_status (*stream_query)(bp_stream* stream);

  /* event_create (band ASYNC): a mark that streams record and wait for.
   * Rules: a fresh event counts as done.
   * Ownership: event_destroy. Threads: any-thread. Blocks: no. */
  bp_status (*event_create)(bp_device* device, const bp_event_args* args, bp_event** out_event);

  /* event_destroy (band ASYNC): ends an event.
   * Rules: legal while work still waits for it; that work is not disturbed.
   * Threads: object-exclusive. Blocks: no. */
  bp_status (*event_destroy)(bp_event* event);

  /* event_record (band ASYNC): marks a place in a stream.
   * Rules: the event now means all work enqueued on the stream before this call.
   * Errors: BP_POISONED; BP_UNSUPPORTED for an event of another device.
   * Threads: stream-ordered; object-exclusive on the event. Blocks: no. */
  bp_status (*event_record)(bp_event* event, bp_stream* stream);

  /* event_wait (band ASYNC): a stream waits for an event.
   * Rules: later work on the stream waits for the event's latest record, and for nothing if there
   * is none. If the recorded work failed, this stream fails too.
   * Errors: BP_POISONED; BP_UNSUPPORTED as above. Threads: stream-ordered. Blocks: no. */
  bp_status (*event_wait)(bp_event* event, bp_stream* stream);

  /* event_sync (band ASYNC): the host waits for an event. Rules: for the event's latest record.
   * Errors: BP_TIMEOUT; the failure of the recorded work.
   * Threads: any-thread. Blocks: to timeout_ns. */
  bp_status (*event_sync)(bp_event* event, uint64_t timeout_ns);

  /* event_query (band ASYNC): asks an event.
   * Rules: BP_OK, BP_PENDING, or the failure of the recorded work.
   * Threads: any-thread. Blocks: no. */
  bp_status (*event_query)(bp_event* event);

  /* mem_copy_async (band ASYNC): mem_copy on a stream.
   * Rules: in the stream's order. Host memory stays valid and, as a source, unchanged until the
   * copy is done.
   * Errors: as mem_copy; BP_POISONED. Threads: stream-ordered. Blocks: it should not. */
  bp_status (*mem_copy_async)(bp_stream* stream, const bp_copy_args* args);

  /* stream_host_call (band ASYNC): calls a function on the host.
   * Rules: it calls fn(user, status) once, when the work before it is done or has failed; at the
   * latest when the stream is destroyed. If this function returns an error, fn is never called.
   * Errors: BP_OUT_OF_MEMORY. It works on a poisoned stream. Threads: stream-ordered.
   * Blocks: no. */
  bp_status (*stream_host_call)(bp_stream* stream, bp_host_fn fn, void* user);

  /* event_elapsed (band TIMING): the time between two events.
   * Rules: nanoseconds between two finished records made with BP_EVENT_TIMING_BIT.
   * Errors: BP_PENDING; BP_INVALID_ARGUMENT for other events, and for an end that was done before
   * the start.
   * Threads: any-thread. Blocks: no. Absent: host timestamps. */
  bp_status (*event_elapsed)(bp_event* start, bp_event* end, uint64_t* out_elapsed_ns);

  /* stream_native_handle (band NATIVE): the queue behind a stream, for an application that enqueues
   * work of its own there.
   * Rules: it stays the stream's.
   * Threads: any-thread. Blocks: no. Absent: BP_UNSUPPORTED. */
  bp_status (*stream_native_handle)(bp_stream* stream, bp_native_stream* out_native);

  /* stream_wrap (band NATIVE): a stream over a queue of the application's.
   * Rules: the application made the queue and keeps it until after stream_destroy, which leaves it
   * as it is. It must belong to this device and run in order.
   * Errors: BP_UNSUPPORTED for a kind that the plugin does not know; BP_INVALID_ARGUMENT for a
   * queue of another device or out of order.
   * Ownership: stream_destroy. Threads: any-thread. Blocks: no. Absent: BP_UNSUPPORTED. */
  bp_status (*stream_wrap)(bp_device* device, const bp_stream_wrap_args* args,
                           bp_stream** out_stream);
} bp_stream_api;

#endif
