/* SPDX-License-Identifier: Apache-2.0
 *
 * The few *frozen* structs and the dtype codes.
 *
 * Rules: frozen structs may be embedded, put in arrays and passed by value; they never grow.
 * Everything else that crosses the ABI is versioned: it begins with struct_size and flags and grows
 * only at its end.
 */
#ifndef BACKPLANE_TYPES_H
#define BACKPLANE_TYPES_H

#include <stdint.h>

/* Text. Frozen. Lifetime: that of the struct that holds it; the member or argument states it: call,
 * object, plugin or process. Rules: UTF-8, not terminated. */
typedef struct bp_str {
  const char* ptr;
  uint64_t len; /* bytes */
} bp_str;

/* A place in memory. Frozen.
 * Rules: `handle` is whatever the device's mem_alloc answered and need not be an address; where the
 * device says BP_DEVICE_ADDRESS_BIT, the address is handle + offset_bytes. On the host end of a
 * copy the handle is a host address. handle 0 means "no memory". */
typedef struct bp_mem {
  uint64_t handle;
  uint64_t offset_bytes;
} bp_mem;

/* A list of integers. Frozen. Lifetime: that of the struct that holds it. */
typedef struct bp_i64_span {
  const int64_t* ptr;
  uint64_t count;
} bp_i64_span;

/* dtype codes, BP_DTYPE_*. Rules: beside each code. 0 marks an absent optional argument. All codes
 * are below 64, so that one uint64_t is a set of dtypes: bit (1 << code). A receiver answers
 * BP_UNSUPPORTED for a code it does not know. */
#define BP_DTYPE_NONE 0u
#define BP_DTYPE_BOOL 1u /* one byte, 0 or 1 */
#define BP_DTYPE_I8 2u
#define BP_DTYPE_I16 3u
#define BP_DTYPE_I32 4u
#define BP_DTYPE_I64 5u
#define BP_DTYPE_U8 6u
#define BP_DTYPE_U16 7u
#define BP_DTYPE_U32 8u
#define BP_DTYPE_U64 9u
#define BP_DTYPE_F16 10u
#define BP_DTYPE_BF16 11u
#define BP_DTYPE_F32 12u
#define BP_DTYPE_F64 13u
#define BP_DTYPE_C64 14u  /* two f32: real, imaginary */
#define BP_DTYPE_C128 15u /* two f64: real, imaginary */
#define BP_DTYPE_F8E4M3FN 16u
#define BP_DTYPE_F8E5M2 17u
#define BP_DTYPE_F8E4M3FNUZ 18u
#define BP_DTYPE_F8E5M2FNUZ 19u
#define BP_DTYPE_I4 20u /* two per byte, low bits first; contiguous only */
#define BP_DTYPE_U4 21u
#define BP_DTYPE_I2 22u     /* four per byte, low bits first; contiguous only */
#define BP_DTYPE_U2 23u     /* as BP_DTYPE_I2 */
#define BP_DTYPE_F4E2M1 24u /* two per byte, low bits first; contiguous only */
#define BP_DTYPE_F8E8M0 25u /* a power of two, no sign: the scale of a block */

#define BP_DTYPE_BIT(code) ((uint64_t)1 << (code))

#define BP_MAX_RANK 16u

/* bp_tensor.flags */
#define BP_TENSOR_HOST_BIT \
  1u /* Rules: handle is a host address: a host argument, read before launch returns */

/* A strided view of memory. Frozen. Rules: beside each member. The caller owns what the pointers
 * name; the callee reads it only during the call (lifetime: call). */
typedef struct bp_tensor {
  uint64_t handle;
  uint64_t offset_bytes;  /* of element [0, 0, ...] */
  uint64_t storage_bytes; /* size of the memory behind handle, from its start */
  uint32_t dtype;         /* BP_DTYPE_NONE: this optional argument is absent */
  uint32_t rank;          /* 0 to BP_MAX_RANK */
  const int64_t* sizes;   /* elements, one per dimension; 0 is legal */
  const int64_t* strides; /* elements, may be 0 or negative */
  uint64_t layout;        /* 0: strided */
  uint32_t flags;         /* BP_TENSOR_*_BIT */
  uint32_t reserved;      /* 0 */
} bp_tensor;

#endif
