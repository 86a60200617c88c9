/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors and operators. Included by backplane.h, which has the rules.
 */
#ifndef BACKPLANE_API_TENSOR_H
#define BACKPLANE_API_TENSOR_H

#include "backplane/api/common.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Uninitialised, contiguous. sizes: rank values. */
BPA_API bpa_status bpa_tensor_create(bpa_device* device, uint32_t dtype, const int64_t* sizes,
                                     uint32_t rank, bpa_tensor** out_tensor);

/* Copies contiguous host values; `bytes` must be their exact size. device NULL: stays in host
 * memory, and moves where it is used. When this returns, nothing reads `data` any more. A bool is
 * one byte, 0 or 1. Errors: INVALID_ARGUMENT by index for another. */
BPA_API bpa_status bpa_tensor_from_host(bpa_device* device, uint32_t dtype, const int64_t* sizes,
                                        uint32_t rank, const void* data, uint64_t bytes,
                                        bpa_tensor** out_tensor);

/* Flags of bpa_wrap_args, bpa_tensor_info and bpa_tensor_view: nothing writes through the tensor or
 * a view of it. INVALID_ARGUMENT where it is assigned to, bound to an output, received into, or
 * acquired for writing. What its memory holds may change all the same, by others who share it. */
#define BPA_TENSOR_READ_ONLY_BIT 1u

/* Memory that is not the library's. Pointers: lifetime call. */
typedef struct bpa_wrap_args {
  uint32_t struct_size;
  uint32_t flags; /* BPA_TENSOR_READ_ONLY_BIT or 0 */
  bp_mem memory;  /* of element [0, 0, ...]; the handle as the device understands it, and an address
                     on devices with BP_DEVICE_ADDRESS_BIT and in host memory */
  uint64_t bytes; /* size of the memory behind memory.handle, from its start */
  uint32_t dtype;
  uint32_t rank;
  const int64_t* sizes;
  const int64_t* strides; /* elements; NULL: contiguous. Any number where no step is taken: of a
                             size of 0 or 1, and in an empty tensor; the tensor gets others there */
  bpa_deleter deleter;    /* NULL: none */
  void* user;             /* the deleter's argument */
} bpa_wrap_args;

/* A tensor in the caller's memory, without a copy. device NULL: host memory. On success the library
 * keeps the memory until the last use by tensors, views and runs is over, work in queues included
 * (the release that ends it waits, beyond BACKPLANE_TIMEOUT the next sync of the device or close
 * does), then calls the deleter, exactly once, on that thread; it may call the API. On an error it
 * is not called and the memory stays the caller's. A forked child calls no deleter. Bools in host
 * memory are checked when they are copied to a device, as bpa_tensor_from_host does; in a device's
 * own memory the caller sees to them.
 * Errors: INVALID_ARGUMENT for sizes and strides that leave the memory, a dtype that is none, an
 * element that is not aligned. */
BPA_API bpa_status bpa_tensor_wrap(bpa_device* device, const bpa_wrap_args* args,
                                   bpa_tensor** out_tensor);

/* Copies the values out, contiguous; `bytes` must be their exact size. Waits; an asynchronous error
 * of the work that made them surfaces here. */
BPA_API bpa_status bpa_tensor_to_host(bpa_tensor* tensor, void* out_data, uint64_t bytes);

/* The same values on another device; the tensor itself (retained) if it is there already. */
BPA_API bpa_status bpa_tensor_to_device(bpa_tensor* tensor, bpa_device* device,
                                        bpa_tensor** out_tensor);

/* Pointers: lifetime object (the tensor). */
typedef struct bpa_tensor_info {
  uint32_t struct_size;
  uint32_t flags; /* 0; out: BPA_TENSOR_READ_ONLY_BIT or 0 */
  uint32_t dtype;
  uint32_t rank;
  const int64_t* sizes;
  const int64_t* strides; /* elements */
  bpa_device* device;     /* NULL: host memory */
  uint64_t bytes;         /* of the values, contiguous */
  bp_mem memory;          /* of element [0, 0, ...], as in bpa_wrap_args */
} bpa_tensor_info;

BPA_API bpa_status bpa_tensor_get_info(bpa_tensor* tensor, bpa_tensor_info* out_info);
/* NULL is legal. */
BPA_API void bpa_tensor_retain(bpa_tensor* tensor);
/* NULL is legal. */
BPA_API void bpa_tensor_release(bpa_tensor* tensor);

/* --- Views --------------------------------------------------------------------------------- */

/* A tensor in the memory of another one: what is written through either, both show. sizes and
 * strides: rank values, in elements, as in bpa_wrap_args. offset: of element [0, ...], in elements
 * from that of `tensor`. flags: BPA_TENSOR_READ_ONLY_BIT or 0; a view of a read-only tensor is
 * read-only. Errors: INVALID_ARGUMENT for a view that leaves the memory between the first and the
 * last element of `tensor`, and for one of a dtype below one byte that is not contiguous and of
 * whole bytes (the last one of `tensor` may be shared by fewer elements). */
BPA_API bpa_status bpa_tensor_view(bpa_tensor* tensor, const int64_t* sizes, const int64_t* strides,
                                   uint32_t rank, int64_t offset, uint32_t flags,
                                   bpa_tensor** out_view);

/* The bytes of a tensor as elements of another dtype. Of the same size: with the sizes and strides
 * that it has. Of a smaller one: with a further, last axis over the parts of each element, as
 * complex numbers have two. Of a larger one: without the last axis, which must be the parts of one
 * element, each behind the other. A view of a read-only tensor is read-only. Errors:
 * INVALID_ARGUMENT for dtypes whose sizes are no multiple, bool (whose bytes are 0 or 1) and dtypes
 * below one byte, a last axis or strides that are not those of whole elements, an element that is
 * not aligned, more dimensions than BP_MAX_RANK. */
BPA_API bpa_status bpa_tensor_view_as(bpa_tensor* tensor, uint32_t dtype, bpa_tensor** out_view);

/* Writes the values of `source` into the memory of `target`, whatever its strides: all its views
 * show them. A source of fewer dimensions, or with sizes of 1, is repeated. stream: of the target's
 * device; NULL: its default stream. A source that shares memory with the target is read before that
 * is written. Queued: returns before the work is done, if the source is on the target's device or
 * in host memory. On a device without a kernel that writes into views the host device does it,
 * counted in fallback_count; then nothing else may write between the target's elements meanwhile.
 * Errors: INVALID_ARGUMENT for a read-only target, one whose strides may let elements share memory
 * (sorted by size, each steps over all that the smaller ones reach, or it counts as such), one of a
 * dtype below one byte that is not all of its memory, another dtype, sizes that cannot be repeated,
 * which no source of a dtype below one byte can; UNSUPPORTED for a target of no device, whose
 * memory the caller writes itself, and where no device writes into such a view; the device's. */
BPA_API bpa_status bpa_tensor_assign(bpa_stream* stream, bpa_tensor* target,
                                     const bpa_tensor* source);

/* --- Operators ----------------------------------------------------------------------------- */

/* bpa_op_call flags: kernels that may give other bits on a rerun are not used. */
#define BPA_OP_DETERMINISTIC_BIT ((uint64_t)1 << 0)

/* Runs one operator on the device of its inputs; <backplane/ops.h> has one function for each.
 * op_id: BP_OP_*. inputs: NULL for an absent optional one. attributes: the operator's bp_attrs_
 * struct, or NULL for defaults. runtime: NULL if an input is on a device. flags: BPA_OP_*_BIT.
 * output_count: as many as the operator has. Errors: INVALID_ARGUMENT naming operator and argument;
 * UNSUPPORTED with the reason of every kernel; OUT_OF_MEMORY. */
BPA_API bpa_status bpa_op_call(bpa_runtime* runtime, uint32_t op_id,
                               const bpa_tensor* const* inputs, uint32_t input_count,
                               const void* attributes, uint64_t flags, bpa_tensor** out_outputs,
                               uint32_t output_count);

#ifdef __cplusplus
}
#endif

#endif
