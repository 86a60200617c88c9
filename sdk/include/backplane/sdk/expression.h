/* SPDX-License-Identifier: Apache-2.0
 *
 * Emitted kernels (bp_expression_kernels in CMake), in C and C++: what bp-exprgen writes about each
 * operator, and where a launch finds its operands. A plugin whose memory the host reaches needs
 * nothing of this: its kernels come whole. Others bring the launch, and call these.
 */
#ifndef BACKPLANE_SDK_EXPRESSION_H
#define BACKPLANE_SDK_EXPRESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "backplane/kernel.h"
#include "backplane/sdk/expression/layout.h"

/* By dtype code: BP_DTYPE_BOOL to BP_DTYPE_F64. */
#define BP_EXPRESSION_DTYPES (BP_DTYPE_F64 + 1)

/* bp_kernel.flags of emitted kernels. Who brings the launch may define it anew, in the header that
 * bp_expression_kernels names. */
#ifndef BP_EXPRESSION_KERNEL_FLAGS
#define BP_EXPRESSION_KERNEL_FLAGS BP_KERNEL_DETERMINISTIC_BIT
#endif

/* bp_expression_parameter.kind */
#define BP_PARAMETER_F64 0u
#define BP_PARAMETER_I64 1u
#define BP_PARAMETER_BOOL 2u

/* A numeric attribute: its place in bp_attrs_<op>, and what it is where the struct ends before. */
typedef struct bp_expression_parameter {
  uint32_t kind; /* BP_PARAMETER_* */
  uint32_t offset_bytes;
  double default_value;
} bp_expression_parameter;

/* Operands of a loop in C: contiguous, f32 in the place of f16 and bf16. */
typedef struct bp_expression_block {
  const void* inputs[BP_LAYOUT_MAX_INPUTS];
  void* y;
  int64_t count;
  const uint64_t* constants;
} bp_expression_block;

/* An elementwise operator. */
typedef struct bp_expression {
  const char* op;
  uint32_t input_count;
  uint32_t bool_inputs; /* bit i: input i is a bool, else it has the dtype of the last */
  uint32_t gives_bool;  /* 1: the output is a bool */
  uint32_t parameter_count;
  const bp_expression_parameter* parameters;
  /* By the dtype of the last input; NULL: not that one. In C: */
  void (*loops[BP_EXPRESSION_DTYPES])(const bp_expression_block* block);
  /* ... and in OpenCL C the middle of a program's three texts, and its kernels: */
  const char* prelude;
  const char* sources[BP_EXPRESSION_DTYPES];
  const char* skeleton;
  const char* dense;   /* all operands lie as the output does */
  const char* strided; /* ... any way */
} bp_expression;

/* A reduction in C, of one dtype; f32 in the place of f16 and bf16. */
typedef struct bp_reduction_loops {
  uint32_t accumulator_bytes; /* at most 8 */
  void (*start)(void* accumulators, int64_t count);
  /* Adds `count` elements to the first accumulator, or one to each. */
  void (*fold)(void* accumulator, const void* x, int64_t count);
  void (*fold_each)(void* accumulators, const void* x, int64_t count);
  void (*finish)(void* y, const void* accumulators, int64_t count, uint64_t reduced_count);
} bp_reduction_loops;

typedef struct bp_reduction {
  const char* op;
  const bp_reduction_loops* loops[BP_EXPRESSION_DTYPES];
  const char* prelude;
  const char* sources[BP_EXPRESSION_DTYPES];
  const char* skeleton;
  const char* one_by_one; /* a work item for each output */
  const char* by_groups;  /* ... a group, of at most the macro BP_GROUP_SIZE */
} bp_reduction;

/* 0: not a dtype of emitted kernels. */
static inline uint32_t bp_expression_dtype_bytes(uint32_t dtype) {
  static const uint8_t kBytes[BP_EXPRESSION_DTYPES] = {0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8};
  return dtype < BP_EXPRESSION_DTYPES ? kBytes[dtype] : 0;
}

static inline bool bp_expression_is_float(uint32_t dtype) {
  return dtype >= BP_DTYPE_F16 && dtype <= BP_DTYPE_F64;
}

/* A number as a constant of the dtype. Floats are rounded, half types to f32; integers truncated
 * and saturated, NaN to 0. */
static inline uint64_t bp_expression_constant_bits(uint32_t dtype, double value) {
  uint64_t bits = 0;
  if (dtype == BP_DTYPE_F64) {
    memcpy(&bits, &value, sizeof value);
  } else if (bp_expression_is_float(dtype)) {
    const float narrow = (float)value;
    memcpy(&bits, &narrow, sizeof narrow);
  } else if (dtype == BP_DTYPE_BOOL) {
    bits = value != 0 ? 1 : 0;
  } else {
    const bool is_signed = dtype <= BP_DTYPE_I64;
    const uint32_t width = 8 * bp_expression_dtype_bytes(dtype);
    const uint64_t ones = UINT64_MAX >> (64 - width);
    const uint64_t highest = is_signed ? ones >> 1 : ones;
    const double above = 2.0 * (double)((highest >> 1) + 1);
    if (value >= above) {
      bits = highest;
    } else if (value > 0) {
      bits = (uint64_t)value;
    } else if (is_signed && value <= -above) {
      bits = ~highest;
    } else if (is_signed && value < 0) {
      bits = (uint64_t)(int64_t)value;
    }
  }
  return bits;
}

/* The attribute `parameter` of a query or launch, as a constant of the dtype; of an i64 attribute
 * what a double holds of it. */
static inline uint64_t bp_expression_constant(const bp_expression_parameter* parameter,
                                              uint32_t dtype, const void* attributes) {
  double value = parameter->default_value;
  uint32_t struct_size = 0;
  if (attributes != NULL) memcpy(&struct_size, attributes, sizeof struct_size);
  if (struct_size >= parameter->offset_bytes + sizeof value) {
    const char* place = (const char*)attributes + parameter->offset_bytes;
    if (parameter->kind == BP_PARAMETER_F64) {
      memcpy(&value, place, sizeof value);
    } else {
      int64_t whole = 0;
      memcpy(&whole, place, sizeof whole);
      value = (double)whole;
    }
  }
  return bp_expression_constant_bits(parameter->kind == BP_PARAMETER_BOOL ? BP_DTYPE_BOOL : dtype,
                                     value);
}

/* Begins the layout of an output of `sizes`. dtype: of the last input. */
static inline void bp_expression_layout_begin(bp_expression_layout* layout,
                                              const bp_expression* expression, uint32_t dtype,
                                              const void* attributes, uint32_t rank,
                                              const int64_t* sizes) {
  memset(layout, 0, sizeof *layout);
  layout->rank = rank;
  layout->item_count = 1;
  for (uint32_t d = 0; d < rank; ++d) {
    layout->sizes[d] = (uint64_t)sizes[d];
    layout->item_count *= layout->sizes[d];
  }
  for (uint32_t i = 0; i < expression->parameter_count; ++i) {
    layout->constants[i] = bp_expression_constant(&expression->parameters[i], dtype, attributes);
  }
}

/* Adds an input: its dimensions are aligned at the right, and those of size 1 repeat. False: its
 * shape does not broadcast to the output's. */
static inline bool bp_expression_layout_add(bp_expression_layout* layout, uint32_t input,
                                            uint32_t rank, const int64_t* sizes,
                                            const int64_t* strides) {
  if (rank > layout->rank) return false;
  const uint64_t missing = layout->rank - rank;
  for (uint32_t d = 0; d < rank; ++d) {
    if (sizes[d] != 1 && (uint64_t)sizes[d] != layout->sizes[missing + d]) return false;
    layout->strides[input][missing + d] = sizes[d] == 1 ? 0 : strides[d];
  }
  return true;
}

/* Drops dimensions of size 1, and merges neighbours that all inputs step through as one. */
static inline void bp_expression_layout_end(bp_expression_layout* layout) {
  uint64_t kept = 0;
  for (uint64_t d = 0; d < layout->rank; ++d) {
    if (layout->sizes[d] == 1) continue;
    bool merges = kept > 0;
    for (uint32_t i = 0; merges && i < BP_LAYOUT_MAX_INPUTS; ++i) {
      int64_t step = 0;
      merges = !__builtin_mul_overflow(layout->strides[i][d], (int64_t)layout->sizes[d], &step) &&
               layout->strides[i][kept - 1] == step;
    }
    const uint64_t place = merges ? kept - 1 : kept;
    layout->sizes[place] = layout->sizes[d] * (merges ? layout->sizes[place] : 1);
    for (uint32_t i = 0; i < BP_LAYOUT_MAX_INPUTS; ++i) {
      layout->strides[i][place] = layout->strides[i][d];
    }
    kept = place + 1;
  }
  layout->rank = kept;
}

/* The layout of a reduction of x over `axes`, or over all dimensions if there are none. False: an
 * axis is not below the rank. */
static inline bool bp_reduction_layout_fill(bp_reduction_layout* layout, uint32_t rank,
                                            const int64_t* sizes, const int64_t* strides,
                                            bp_i64_span axes) {
  uint32_t reduced = axes.count == 0 ? (uint32_t)((1ull << rank) - 1) : 0;
  for (uint64_t i = 0; i < axes.count; ++i) {
    const int64_t axis = axes.ptr[i] < 0 ? axes.ptr[i] + (int64_t)rank : axes.ptr[i];
    if (axis < 0 || axis >= (int64_t)rank) return false;
    reduced |= 1u << axis;
  }
  memset(layout, 0, sizeof *layout);
  uint64_t counts[2] = {1, 1};
  uint64_t ranks[2] = {0, 0};
  uint64_t place = 0;
  for (uint32_t part = 0; part < 2; ++part) {
    const uint64_t first = place;
    for (uint32_t d = 0; d < rank; ++d) {
      if ((reduced >> d & 1u) != part) continue;
      counts[part] *= (uint64_t)sizes[d];
      if (sizes[d] == 1) continue;
      int64_t step = 0;
      const bool merges = place > first && !__builtin_mul_overflow(strides[d], sizes[d], &step) &&
                          layout->strides[place - 1] == step;
      if (merges) --place;
      layout->sizes[place] = (uint64_t)sizes[d] * (merges ? layout->sizes[place] : 1);
      layout->strides[place] = strides[d];
      ++place;
    }
    ranks[part] = place - first;
  }
  layout->output_count = counts[0];
  layout->reduced_count = counts[1];
  layout->kept_rank = ranks[0];
  layout->reduced_rank = ranks[1];
  return true;
}

#endif
