/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams: ordered queues of one device. Included by backplane.h, which has the rules.
 *
 * Work of one stream is done in order; work of two streams is in no order, but for what tensors
 * impose: whoever uses a tensor on another stream comes after the work that wrote it.
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
 * bpa_stream_reset; a data fault that nobody has asked about; TIMEOUT. */
BPA_API bpa_status bpa_stream_sync(bpa_stream* stream);

/* OK if nothing is left to do, PENDING, or the stream's failure; never waits. PENDING leaves no
 * words in bpa_last_error. */
BPA_API bpa_status bpa_stream_query(bpa_stream* stream);

/* Ends a failure: waits for the rest, and begins anew. Tensors that work was to write which the
 * failure prevented answer it when read. Errors: TIMEOUT; the device's. */
BPA_API bpa_status bpa_stream_reset(bpa_stream* stream);

/* bpa_op_call on a stream: on its device, after its earlier work. */
BPA_API bpa_status bpa_op_call_on(bpa_stream* stream, uint32_t op_id,
                                  const bpa_tensor* const* inputs, uint32_t input_count,
                                  const void* attributes, uint64_t flags, bpa_tensor** out_outputs,
                                  uint32_t output_count);

#ifdef __cplusplus
}
#endif

#endif
