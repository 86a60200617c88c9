/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams: ordered queues of one device. Included by backplane.h, which has the rules.
 *
 * Work of one stream is done in order; work of two streams is in no order, but for what tensors
 * impose: a use of a tensor on another stream comes after the work that wrote it.
 */
#ifndef BACKPLANE_API_STREAM_H
#define BACKPLANE_API_STREAM_H

#include "backplane/api/common.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A new queue. On devices that compute inline (BP_EXECUTION_INLINE) it is a thread, so that calls
 * on it return at once. Errors: OUT_OF_MEMORY; the device's. */
BPA_API bpa_status bpa_stream_create(bpa_device* device, bpa_stream** out_stream);

/* The stream of calls that name none. On inline devices it is no queue: work is done when the call
 * returns. */
BPA_API bpa_status bpa_stream_get_default(bpa_device* device, bpa_stream** out_stream);

/* Waits for the stream's work. NULL is legal. Releasing a default stream ends the handle alone. */
BPA_API void bpa_stream_release(bpa_stream* stream);

/* Waits for all work of the stream. Errors: the stream's first failure, again at each call, until
 * bpa_stream_reset; a data fault that no reader was told of, of its work or of tensors that were
 * acquired on it for reading; TIMEOUT. */
BPA_API bpa_status bpa_stream_sync(bpa_stream* stream);

/* OK if nothing is left to do, PENDING (also while another thread puts work in), or the stream's
 * failure; never waits. PENDING leaves no words in bpa_last_error. */
BPA_API bpa_status bpa_stream_query(bpa_stream* stream);

/* Ends a failure: waits for the rest, and begins anew. Tensors that work was to write which the
 * failure prevented answer it when read. Errors: TIMEOUT; the device's; UNSUPPORTED on a wrapped
 * stream, whose queue is the caller's to end. */
BPA_API bpa_status bpa_stream_reset(bpa_stream* stream);

/* bpa_op_call on a stream: on its device, after its earlier work. */
BPA_API bpa_status bpa_op_call_on(bpa_stream* stream, uint32_t op_id,
                                  const bpa_tensor* const* inputs, uint32_t input_count,
                                  const void* attributes, uint64_t flags, bpa_tensor** out_outputs,
                                  uint32_t output_count);

/* External streams: the vendor's own queues, where the caller enqueues work that this library does
 * not see. Two calls put such work in order with the library's:
 *
 *   bpa_stream_acquire_tensor(stream, x, BPA_ACCESS_WRITE_BIT);   what comes now waits for x
 *   ...the vendor's calls, on the queue behind the stream, which write x...
 *   bpa_stream_release_tensor(stream, x, BPA_ACCESS_WRITE_BIT);   who uses x now waits for them
 *
 * The host waits for nothing. Where x's memory is, bpa_tensor_get_info says. */

/* access of acquire and release: at least one */
#define BPA_ACCESS_READ_BIT 1u
#define BPA_ACCESS_WRITE_BIT 2u

/* A stream over a queue that the caller made. kind says what handle is, "interface.type", as the
 * device's plugin documents it: "acme.queue". The queue belongs to this device, runs in
 * order, and lives until the stream is released; it is left as it is. It may be wrapped twice, and
 * these are two streams then. A release that does not see the work end in time leaves the queue in
 * use until the Runtime closes. Errors: UNSUPPORTED for a device without feature native_streams and
 * for a kind that it does not know; INVALID_ARGUMENT for a queue of another device or out of order.
 */
BPA_API bpa_status bpa_stream_wrap(bpa_device* device, const char* kind, uint64_t handle,
                                   bpa_stream** out_stream);

/* The queue behind a stream, which stays the stream's. Good until the stream is reset, the text
 * until it is released. Errors: UNSUPPORTED for a device without feature native_streams, and for a
 * default stream that is no queue. */
BPA_API bpa_status bpa_stream_native_handle(bpa_stream* stream, const char** out_kind,
                                            uint64_t* out_handle);

/* Work that the caller enqueues from now on comes after what must be over before it reads or, with
 * BPA_ACCESS_WRITE_BIT, writes the tensor. Legal on every stream of the tensor's device; on one
 * that is no queue the host waits. Errors: those of the work that is waited for; INVALID_ARGUMENT
 * for a tensor of another device or of the host. */
BPA_API bpa_status bpa_stream_acquire_tensor(bpa_stream* stream, const bpa_tensor* tensor,
                                             uint32_t access);

/* What the caller has enqueued so far reads or, with BPA_ACCESS_WRITE_BIT, writes the tensor, so
 * that later users of it wait, and releasing it is safe. After an acquire with the same access;
 * views that share the tensor's memory are meant too. Errors: POISONED; INVALID_ARGUMENT as above.
 */
BPA_API bpa_status bpa_stream_release_tensor(bpa_stream* stream, const bpa_tensor* tensor,
                                             uint32_t access);

#ifdef __cplusplus
}
#endif

#endif
