/* SPDX-License-Identifier: Apache-2.0
 *
 * The loops of emitted kernels in C and C++, where operands are memory of this process: any
 * strides, any number of elements, no allocation. A loop of an operator (bp-exprgen) sees
 * contiguous blocks only; what does not lie so, and half types, are brought to it in buffers on the
 * stack. Any thread; ranges of outputs may be computed by several at once.
 */
#ifndef BACKPLANE_SDK_EXPRESSION_LOOPS_H
#define BACKPLANE_SDK_EXPRESSION_LOOPS_H

#include "backplane/sdk/expression.h"

/* Elements that are worked on together. */
#define BP_BLOCK 256

static inline float bp_f32_of_f16(uint16_t half) {
  const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  uint32_t bits = (magnitude << 13) + 0x38000000u;
  if (magnitude >= 0x7c00u) bits = (magnitude << 13) | 0x7f800000u;
  float value = 0;
  if (magnitude < 0x0400u) { /* zero and the subnormals: a whole number of 2^-24 */
    value = (float)magnitude * 0x1p-24f;
    memcpy(&bits, &value, sizeof bits);
  }
  bits |= sign;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* To nearest even; a NaN stays one. */
static inline uint16_t bp_f16_of_f32(float value) {
  uint32_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
  bits &= 0x7fffffffu;
  if (bits > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
  if (bits >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and above */
  if (bits < 0x38800000u) { /* below 2^-14: adding 0.5 rounds to a whole number of 2^-24 */
    float magnitude = 0;
    memcpy(&magnitude, &bits, sizeof magnitude);
    magnitude += 0.5f;
    memcpy(&bits, &magnitude, sizeof bits);
    return (uint16_t)(sign | (bits - 0x3f000000u));
  }
  bits += 0xc8000fffu + (bits >> 13 & 1u);
  return (uint16_t)(sign | bits >> 13);
}

static inline float bp_f32_of_bf16(uint16_t half) {
  const uint32_t bits = (uint32_t)half << 16;
  float value = 0;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline uint16_t bp_bf16_of_f32(float value) {
  uint32_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  if (value != value) return (uint16_t)(bits >> 16 | 0x40u);
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static inline bool bp_is_half(uint32_t dtype) {
  return dtype == BP_DTYPE_F16 || dtype == BP_DTYPE_BF16;
}

/* Bits of elements of any type. */
typedef uint16_t __attribute__((may_alias)) bp_bits16;
typedef uint32_t __attribute__((may_alias)) bp_bits32;
typedef uint64_t __attribute__((may_alias)) bp_bits64;

#define BP_GATHER(T) \
  for (int64_t i = 0; i < count; ++i) ((T*)to)[i] = ((const T*)from)[i * stride]
#define BP_WIDEN(word) \
  for (int64_t i = 0; i < count; ++i) ((float*)to)[i] = word(((const uint16_t*)from)[i * stride])

/* Elements `stride` apart, into a buffer as loops want them. */
static inline void bp_gather(void* to, const void* from, uint32_t dtype, int64_t stride,
                             int64_t count) {
  if (dtype == BP_DTYPE_F16) {
    BP_WIDEN(bp_f32_of_f16);
  } else if (dtype == BP_DTYPE_BF16) {
    BP_WIDEN(bp_f32_of_bf16);
  } else if (bp_expression_dtype_bytes(dtype) == 1) {
    BP_GATHER(uint8_t);
  } else if (bp_expression_dtype_bytes(dtype) == 2) {
    BP_GATHER(bp_bits16);
  } else if (bp_expression_dtype_bytes(dtype) == 4) {
    BP_GATHER(bp_bits32);
  } else {
    BP_GATHER(bp_bits64);
  }
}

/* The other way, for half types. */
static inline void bp_narrow(void* to, const float* from, uint32_t dtype, int64_t count) {
  uint16_t* halves = (uint16_t*)to;
  if (dtype == BP_DTYPE_F16) {
    for (int64_t i = 0; i < count; ++i) halves[i] = bp_f16_of_f32(from[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) halves[i] = bp_bf16_of_f32(from[i]);
  }
}

/* The loops of one reduction and dtype around its emitted functions name_map and so on: ELEMENT
 * lies in memory, map takes COMPUTE, and what it gives is an ACCUMULATOR. */
#define BP_REDUCTION_LOOPS(name, ELEMENT, COMPUTE, ACCUMULATOR)                                    \
  static void name##_begin(void* accumulators, int64_t count) {                                    \
    for (int64_t i = 0; i < count; ++i) ((ACCUMULATOR*)accumulators)[i] = name##_start();          \
  }                                                                                                \
  static void name##_fold(void* accumulator, const void* x, int64_t count) {                       \
    const ELEMENT* from = (const ELEMENT*)x;                                                       \
    ACCUMULATOR a = *(ACCUMULATOR*)accumulator;                                                    \
    for (int64_t i = 0; i < count; ++i) a = name##_combine(a, name##_map((COMPUTE)from[i]));       \
    *(ACCUMULATOR*)accumulator = a;                                                                \
  }                                                                                                \
  static void name##_fold_each(void* accumulators, const void* x, int64_t count) {                 \
    const ELEMENT* from = (const ELEMENT*)x;                                                       \
    ACCUMULATOR* a = (ACCUMULATOR*)accumulators;                                                   \
    for (int64_t i = 0; i < count; ++i) a[i] = name##_combine(a[i], name##_map((COMPUTE)from[i])); \
  }                                                                                                \
  static void name##_end(void* y, const void* accumulators, int64_t count, uint64_t reduced) {     \
    const ACCUMULATOR* a = (const ACCUMULATOR*)accumulators;                                       \
    for (int64_t i = 0; i < count; ++i) {                                                          \
      ((ELEMENT*)y)[i] = (ELEMENT)name##_finish(a[i], (ACCUMULATOR)reduced);                       \
    }                                                                                              \
  }                                                                                                \
  static const bp_reduction_loops name##_loops = {sizeof(ACCUMULATOR), name##_begin, name##_fold,  \
                                                  name##_fold_each, name##_end};

/* A constant of a layout. */
static inline float bp_constant_f32(uint64_t bits) {
  const uint32_t low = (uint32_t)bits;
  float value = 0;
  memcpy(&value, &low, sizeof value);
  return value;
}
static inline double bp_constant_f64(uint64_t bits) {
  double value = 0;
  memcpy(&value, &bits, sizeof value);
  return value;
}
#define BP_CONSTANT_f32(bits) bp_constant_f32(bits)
#define BP_CONSTANT_f64(bits) bp_constant_f64(bits)
#define BP_CONSTANT_bool(bits) ((bits) != 0)
#define BP_CONSTANT_i8(bits) ((int8_t)(bits))
#define BP_CONSTANT_i16(bits) ((int16_t)(bits))
#define BP_CONSTANT_i32(bits) ((int32_t)(bits))
#define BP_CONSTANT_i64(bits) ((int64_t)(bits))
#define BP_CONSTANT_u8(bits) ((uint8_t)(bits))
#define BP_CONSTANT_u16(bits) ((uint16_t)(bits))
#define BP_CONSTANT_u32(bits) ((uint32_t)(bits))
#define BP_CONSTANT_u64(bits) (bits)

/* Outputs [begin, end) of an operator whose last input is of `dtype`. Pointers: to element [0, 0,
 * ...] of each operand. */
static inline void bp_expression_run(const bp_expression* expression, uint32_t dtype,
                                     const bp_expression_layout* layout, const void* const* inputs,
                                     void* y, uint64_t begin, uint64_t end) {
  uint64_t buffers[BP_LAYOUT_MAX_INPUTS + 1][BP_BLOCK];
  const uint64_t rank = layout->rank;
  const uint64_t inner = rank == 0 ? 1 : layout->sizes[rank - 1];
  const uint32_t y_dtype = expression->gives_bool ? BP_DTYPE_BOOL : dtype;
  const bool narrows = bp_is_half(y_dtype);
  bp_expression_block block;
  memset(&block, 0, sizeof block);
  block.constants = layout->constants;
  for (uint64_t item = begin; item < end;) {
    const uint64_t column = item % inner;
    const uint64_t left = inner - column < end - item ? inner - column : end - item;
    const int64_t count = (int64_t)(left < BP_BLOCK ? left : BP_BLOCK);
    for (uint32_t i = 0; i < expression->input_count; ++i) {
      const int64_t stride = rank == 0 ? 0 : layout->strides[i][rank - 1];
      int64_t place = (int64_t)column * stride;
      uint64_t row = item / inner;
      for (uint64_t d = rank; d > 1; --d) {
        place += (int64_t)(row % layout->sizes[d - 2]) * layout->strides[i][d - 2];
        row /= layout->sizes[d - 2];
      }
      const uint32_t input_dtype = (expression->bool_inputs >> i & 1u) ? BP_DTYPE_BOOL : dtype;
      const char* from = (const char*)inputs[i] + place * bp_expression_dtype_bytes(input_dtype);
      const bool is_there = (stride == 1 || count == 1) && !bp_is_half(input_dtype);
      if (!is_there) bp_gather(buffers[i], from, input_dtype, stride, count);
      block.inputs[i] = is_there ? (const void*)from : (const void*)buffers[i];
    }
    char* to = (char*)y + item * bp_expression_dtype_bytes(y_dtype);
    block.y = narrows ? (void*)buffers[BP_LAYOUT_MAX_INPUTS] : (void*)to;
    block.count = count;
    expression->loops[dtype](&block);
    if (narrows) bp_narrow(to, (const float*)block.y, y_dtype, count);
    item += (uint64_t)count;
  }
}

/* Where item `item` of the dimensions [first, first + rank) lies, in elements. */
static inline int64_t bp_reduction_place(const bp_reduction_layout* layout, uint64_t first,
                                         uint64_t rank, uint64_t item) {
  int64_t place = 0;
  for (uint64_t d = first + rank; d > first; --d) {
    place += (int64_t)(item % layout->sizes[d - 1]) * layout->strides[d - 1];
    item /= layout->sizes[d - 1];
  }
  return place;
}

/* Rows of elements `stride` apart go to `take` in blocks as loops want them. */
typedef void (*bp_take_block)(void* accumulators, const void* x, int64_t count);

static inline void bp_reduction_row(bp_take_block take, void* accumulators, uint32_t step_bytes,
                                    const char* x, uint32_t dtype, int64_t stride,
                                    uint64_t row_count) {
  uint64_t buffer[BP_BLOCK];
  const uint32_t bytes = bp_expression_dtype_bytes(dtype);
  for (uint64_t at = 0; at < row_count;) {
    const int64_t count = (int64_t)(row_count - at < BP_BLOCK ? row_count - at : BP_BLOCK);
    const char* from = x + (int64_t)at * stride * bytes;
    const bool is_there = stride == 1 && !bp_is_half(dtype);
    if (!is_there) bp_gather(buffer, from, dtype, stride, count);
    take((char*)accumulators + at * step_bytes, is_there ? (const void*)from : buffer, count);
    at += (uint64_t)count;
  }
}

/* Outputs that are folded together: neighbours in one row of what is kept. Each has one order of
 * its elements, whatever the range: reruns give the same bits. */
static inline void bp_reduction_block(const bp_reduction_loops* loops, uint32_t dtype,
                                      const bp_reduction_layout* layout, const char* x, char* y,
                                      int64_t kept_stride, int64_t count) {
  uint64_t accumulators[BP_BLOCK];
  float wide[BP_BLOCK];
  const uint32_t bytes = bp_expression_dtype_bytes(dtype);
  const uint64_t rank = layout->reduced_rank;
  const uint64_t last = layout->kept_rank + rank;
  const uint64_t inner = rank == 0 ? 1 : layout->sizes[last - 1];
  const int64_t stride = rank == 0 ? 0 : layout->strides[last - 1];
  loops->start(accumulators, count);
  for (uint64_t k = 0; k < layout->reduced_count; k += inner) {
    const int64_t place = bp_reduction_place(layout, layout->kept_rank, rank, k);
    if (count == 1) {
      bp_reduction_row((bp_take_block)loops->fold, accumulators, 0, x + place * bytes, dtype,
                       stride, inner);
      continue;
    }
    for (uint64_t i = 0; i < inner; ++i) {
      bp_reduction_row((bp_take_block)loops->fold_each, accumulators, loops->accumulator_bytes,
                       x + (place + (int64_t)i * stride) * bytes, dtype, kept_stride,
                       (uint64_t)count);
    }
  }
  const bool narrows = bp_is_half(dtype);
  loops->finish(narrows ? (void*)wide : (void*)y, accumulators, count, layout->reduced_count);
  if (narrows) bp_narrow(y, wide, dtype, count);
}

/* Outputs [begin, end). x: to its element [0, 0, ...]; y is contiguous. */
static inline void bp_reduction_run(const bp_reduction* reduction, uint32_t dtype,
                                    const bp_reduction_layout* layout, const void* x, void* y,
                                    uint64_t begin, uint64_t end) {
  const uint32_t bytes = bp_expression_dtype_bytes(dtype);
  const uint64_t rank = layout->kept_rank;
  const uint64_t row = rank == 0 ? 1 : layout->sizes[rank - 1];
  const int64_t kept_stride = rank == 0 ? 0 : layout->strides[rank - 1];
  const uint64_t last = rank + layout->reduced_rank;
  const int64_t stride = layout->reduced_rank == 0 ? 0 : layout->strides[last - 1];
  /* Neighbours in memory belong to different outputs: these are folded side by side. */
  const bool outer =
      (stride < 0 ? -stride : stride) > (kept_stride < 0 ? -kept_stride : kept_stride);
  const bool side_by_side = row > 1 && (outer || layout->reduced_rank == 0);
  for (uint64_t item = begin; item < end;) {
    uint64_t count = 1;
    if (side_by_side) {
      count = row - item % row;
      if (count > BP_BLOCK) count = BP_BLOCK;
      if (count > end - item) count = end - item;
    }
    /* An x without elements has no memory to step through. */
    const int64_t place =
        layout->reduced_count == 0 ? 0 : bp_reduction_place(layout, 0, rank, item);
    bp_reduction_block(reduction->loops[dtype], dtype, layout, (const char*)x + place * bytes,
                       (char*)y + item * bytes, kept_stride, (int64_t)count);
    item += count;
  }
}

#endif
