// SPDX-License-Identifier: Apache-2.0
//
// What the sources share, compiled in front of each: buffers, elements of every dtype, places in
// tensors, the fault word.
#pragma OPENCL FP_CONTRACT OFF
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

// A buffer comes as its start and a byte offset, since a device may refuse sub-buffers that begin
// in the middle.
#define BP_INPUT(name) __global const uchar *name, ulong name##_offset
#define BP_OUTPUT(name) __global uchar *name, ulong name##_offset
#define BP_READ(type, name) ((__global const type*)(name + name##_offset))
#define BP_WRITE(type, name) ((__global type*)(name + name##_offset))
#define BP_FAULT __global uchar *fault, ulong fault_offset, ulong op_seq

// Elements by the name of their dtype, which is mostly a macro that a build option sets: their type
// in arithmetic, from a buffer, into a buffer. Half types are floats in arithmetic, and need no
// extension of the device.
#define BP_JOIN_NOW(a, b) a##b
#define BP_JOIN(a, b) BP_JOIN_NOW(a, b)
#define BP_VALUE(dtype) BP_JOIN(value_, dtype)
#define BP_LOAD(dtype, name, place) BP_JOIN(load_, dtype)(name + name##_offset, place)
#define BP_STORE(dtype, name, place, value) \
  BP_JOIN(store_, dtype)(name + name##_offset, place, value)

#define BP_PLAIN_DTYPE(dtype, type)                                             \
  typedef type value_##dtype;                                                   \
  static inline type load_##dtype(__global const uchar* x, long place) {        \
    return ((__global const type*)x)[place];                                    \
  }                                                                             \
  static inline void store_##dtype(__global uchar* y, long place, type value) { \
    ((__global type*)y)[place] = value;                                         \
  }

BP_PLAIN_DTYPE(f32, float)
#ifdef cl_khr_fp64
BP_PLAIN_DTYPE(f64, double)
#endif
BP_PLAIN_DTYPE(i8, char)
BP_PLAIN_DTYPE(i16, short)
BP_PLAIN_DTYPE(i32, int)
BP_PLAIN_DTYPE(i64, long)
BP_PLAIN_DTYPE(u8, uchar)
BP_PLAIN_DTYPE(u16, ushort)
BP_PLAIN_DTYPE(u32, uint)
BP_PLAIN_DTYPE(u64, ulong)
BP_PLAIN_DTYPE(bool, uchar)

typedef float value_f16;
static inline float load_f16(__global const uchar* x, long place) {
  return vload_half((size_t)place, (__global const half*)x);
}
static inline void store_f16(__global uchar* y, long place, float value) {
  vstore_half_rte(value, (size_t)place, (__global half*)y);
}

typedef float value_bf16;
static inline float load_bf16(__global const uchar* x, long place) {
  return as_float((uint)((__global const ushort*)x)[place] << 16);
}
// To nearest, ties to even; a NaN stays one.
static inline void store_bf16(__global uchar* y, long place, float value) {
  const uint bits = as_uint(value);
  const uint rounded = isnan(value) ? bits | 0x400000u : bits + 0x7FFFu + (bits >> 16 & 1u);
  ((__global ushort*)y)[place] = (ushort)(rounded >> 16);
}

// Where item `item` lies in tensor `tensor` of a nest, in elements.
static inline long place_in(ulong item, ulong rank, const ulong* sizes, const long* strides) {
  long place = 0;
  for (ulong d = rank; d > 0; --d) {
    place += (long)(item % sizes[d - 1]) * strides[d - 1];
    item /= sizes[d - 1];
  }
  return place;
}
#define BP_PLACE(nest, tensor, item) \
  place_in(item, (nest).rank, (nest).sizes, (nest).strides[tensor])

// bp_fault_word: the first work item that meets a bad index takes it; the others' are not told.
typedef struct FaultWord {
  uint code;
  uint input;
  ulong op_seq;
  long index;
  long extent;
} FaultWord;

static inline void report_index(__global uchar* fault, ulong fault_offset, ulong op_seq, long index,
                                long extent) {
  if (fault == 0) return;
  __global FaultWord* word = (__global FaultWord*)(fault + fault_offset);
  if (atomic_cmpxchg((volatile __global uint*)&word->code, 0u, BP_XPU_FAULT_INDEX) != 0u) return;
  word->input = 1;
  word->op_seq = op_seq;
  word->index = index;
  word->extent = extent;
}

// An index counted from the front, in range; one that was not is reported.
static inline long checked_index(long given, long extent, BP_FAULT) {
  const long index = given < 0 ? given + extent : given;
  if (index < 0 || index >= extent) {
    report_index(fault, fault_offset, op_seq, given, extent);
  }
  return clamp(index, 0L, max(extent, 1L) - 1);
}

// Sums of products in BP_ACC: multiply and add round once where the device does that fast, else
// twice; never as it happens.
#if defined(BP_ACC_FLOAT) && defined(FP_FAST_FMAF) || defined(BP_ACC_DOUBLE) && defined(FP_FAST_FMA)
#define BP_MULTIPLY_ADD(a, b, c) fma((a), (b), (c))
#else
#define BP_MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif

// How many of `count` terms are summed one behind the other before they join the rest. From a
// number on it is about the square root, so that the error grows with that.
static inline ulong block_of(ulong count) { return max(256UL, 1UL << (64 - clz(count)) / 2); }

// Matrix products by tiles in local memory: a group of BP_XPU_TILE_ITEMS work items makes a tile of
// BP_XPU_TILE x BP_XPU_TILE sums, each of them a square of BP_XPU_TILE_SHARE x BP_XPU_TILE_SHARE
// that lie BP_XPU_TILE_SIDE apart; a and b hold BP_XPU_TILE_DEPTH steps.
#define BP_ADD_TILE(sums, a, b)                                                               \
  for (uint step = 0; step < BP_XPU_TILE_DEPTH; ++step) {                                     \
    for (uint i = 0; i < BP_XPU_TILE_SHARE; ++i) {                                            \
      for (uint j = 0; j < BP_XPU_TILE_SHARE; ++j) {                                          \
        sums[i][j] = BP_MULTIPLY_ADD(a[step][own_row + i * BP_XPU_TILE_SIDE],                 \
                                     b[step][own_column + j * BP_XPU_TILE_SIDE], sums[i][j]); \
      }                                                                                       \
    }                                                                                         \
  }

// The positions of a window along one dimension that lie inside the input, for an output whose
// window begins at `start`.
static inline long first_inside(long start, long dilation) {
  return start < 0 ? (-start + dilation - 1) / dilation : 0;
}
static inline long end_inside(long start, long dilation, long extent, long in) {
  return start < in ? min(extent, (in - 1 - start) / dilation + 1) : 0;
}

#ifdef BP_ACC
// Eight neighbours of a row.
#define BP_ACC8 BP_JOIN(BP_ACC, 8)
#define BP_LOAD8(dtype, name, place) BP_JOIN(load8_, dtype)(name + name##_offset, place)
#define BP_PLAIN_LOAD8(dtype, type)                                                \
  static inline BP_ACC8 load8_##dtype(__global const uchar* x, long place) {       \
    return BP_JOIN(convert_, BP_ACC8)(vload8(0, (__global const type*)x + place)); \
  }
#if defined(BP_ACC_DOUBLE)
BP_PLAIN_LOAD8(f64, double)
#elif defined(BP_ACC_FLOAT)
BP_PLAIN_LOAD8(f32, float)
static inline float8 load8_f16(__global const uchar* x, long place) {
  return vload_half8(0, (__global const half*)x + place);
}
static inline float8 load8_bf16(__global const uchar* x, long place) {
  return as_float8(convert_uint8(vload8(0, (__global const ushort*)x + place)) << 16);
}
#else
BP_PLAIN_LOAD8(u8, uchar)
BP_PLAIN_LOAD8(u16, ushort)
BP_PLAIN_LOAD8(u32, uint)
BP_PLAIN_LOAD8(u64, ulong)
#endif
#endif

// Sums and maxima of a lane by one group: BP_XPU_PARTS partial results, whatever the size of the
// group, so that the result does not depend on it.
#ifdef BP_ACC
#define BP_FOR_EACH_PART(part, end) \
  for (ulong part = get_local_id(0); part < (end); part += get_local_size(0))

static inline BP_ACC group_sum(__local BP_ACC* parts) {
  for (uint half_count = BP_XPU_PARTS / 2; half_count > 0; half_count /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    BP_FOR_EACH_PART(part, half_count) { parts[part] += parts[part + half_count]; }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  const BP_ACC sum = parts[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  return sum;
}

static inline BP_ACC group_max(__local BP_ACC* parts) {
  for (uint half_count = BP_XPU_PARTS / 2; half_count > 0; half_count /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    BP_FOR_EACH_PART(part, half_count) { parts[part] = max(parts[part], parts[part + half_count]); }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  const BP_ACC largest = parts[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  return largest;
}
#endif
