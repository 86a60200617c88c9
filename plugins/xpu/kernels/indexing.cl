// SPDX-License-Identifier: Apache-2.0
//
// gather and non_zero: what kernels do whose data can be wrong, or decides how much data there is.

#define BP_INPUT(name) __global const uchar *name, ulong name##_offset
#define BP_OUTPUT __global uchar *y, ulong y_offset

// bp_fault_word: the first work item that meets a bad index takes it; the others' are not told.
typedef struct FaultWord {
  uint code;
  uint input;
  ulong op_seq;
  long index;
  long extent;
} FaultWord;

static void report_index(__global uchar* fault, ulong fault_offset, ulong op_seq, long index,
                         long extent) {
  if (fault == 0) return;
  __global FaultWord* word = (__global FaultWord*)(fault + fault_offset);
  if (atomic_cmpxchg((volatile __global uint*)&word->code, 0u, BP_XPU_FAULT_INDEX) != 0u) return;
  word->input = 1;
  word->op_seq = op_seq;
  word->index = index;
  word->extent = extent;
}

// One work item copies one element of y. An index out of range is clamped and reported; with
// nothing to clamp to, y is 0.
#define BP_GATHER(name, type, index_type)                                                        \
  __kernel void name(BP_INPUT(x), BP_INPUT(indices), BP_OUTPUT, GatherGeometry geometry,         \
                     __global uchar* fault, ulong fault_offset, ulong op_seq) {                  \
    const ulong item = get_global_id(0);                                                         \
    if (item >= geometry.item_count) return;                                                     \
    long x_place = 0;                                                                            \
    long index_place = 0;                                                                        \
    ulong rest = item;                                                                           \
    for (ulong d = geometry.rank; d > 0; --d) {                                                  \
      const long at = (long)(rest % geometry.sizes[d - 1]);                                      \
      rest /= geometry.sizes[d - 1];                                                             \
      x_place += at * geometry.x_strides[d - 1];                                                 \
      index_place += at * geometry.index_strides[d - 1];                                         \
    }                                                                                            \
    const long given = ((__global const index_type*)(indices + indices_offset))[index_place];    \
    const long index = given < 0 ? given + geometry.extent : given;                              \
    if (index < 0 || index >= geometry.extent) {                                                 \
      report_index(fault, fault_offset, op_seq, given, geometry.extent);                         \
    }                                                                                            \
    __global type* const out = (__global type*)(y + y_offset) + item;                            \
    if (geometry.extent == 0) {                                                                  \
      *out = 0;                                                                                  \
      return;                                                                                    \
    }                                                                                            \
    x_place += clamp(index, 0L, geometry.extent - 1) * geometry.axis_stride;                     \
    *out = ((__global const type*)(x + x_offset))[x_place];                                      \
  }

BP_GATHER(gather_1_i32, uchar, int)
BP_GATHER(gather_2_i32, ushort, int)
BP_GATHER(gather_4_i32, uint, int)
BP_GATHER(gather_8_i32, ulong, int)
BP_GATHER(gather_1_i64, uchar, long)
BP_GATHER(gather_2_i64, ushort, long)
BP_GATHER(gather_4_i64, uint, long)
BP_GATHER(gather_8_i64, ulong, long)

static bool is_non_zero(__global const uchar* x, ulong x_offset, ulong element,
                        const NonZeroGeometry* geometry) {
  long place = 0;
  for (ulong d = geometry->rank; d > 0; --d) {
    place += (long)(element % geometry->sizes[d - 1]) * geometry->strides[d - 1];
    element /= geometry->sizes[d - 1];
  }
  ulong bits = 0;
  if (geometry->element_bytes == 1) {
    bits = (x + x_offset)[place];
  } else if (geometry->element_bytes == 2) {
    bits = ((__global const ushort*)(x + x_offset))[place];
  } else if (geometry->element_bytes == 4) {
    bits = ((__global const uint*)(x + x_offset))[place];
  } else {
    bits = ((__global const ulong*)(x + x_offset))[place];
  }
  return (bits & geometry->value_bits) != 0;
}

// One work group. Each work item counts a run of elements, then writes from where the runs before
// it end, so that the order is that of the elements.
__kernel void non_zero(BP_INPUT(x), BP_OUTPUT, NonZeroGeometry geometry,
                       __global uchar* out_extents, ulong out_extents_offset) {
  __local ulong first_of_run[BP_XPU_NON_ZERO_GROUP];
  const ulong item = get_local_id(0);
  const ulong run = (geometry.element_count + get_local_size(0) - 1) / get_local_size(0);
  const ulong begin = min(item * run, geometry.element_count);
  const ulong end = min(begin + run, geometry.element_count);
  ulong count = 0;
  for (ulong element = begin; element < end; ++element) {
    count += is_non_zero(x, x_offset, element, &geometry) ? 1 : 0;
  }
  first_of_run[item] = count;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (item == 0) {
    ulong total = 0;
    for (ulong i = 0; i < get_local_size(0); ++i) {
      const ulong of_run = first_of_run[i];
      first_of_run[i] = total;
      total += of_run;
    }
    __global long* const extents = (__global long*)(out_extents + out_extents_offset);
    extents[0] = (long)geometry.rank;
    extents[1] = (long)total;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  ulong column = first_of_run[item];
  for (ulong element = begin; element < end; ++element) {
    if (!is_non_zero(x, x_offset, element, &geometry)) continue;
    ulong rest = element;
    for (ulong d = geometry.rank; d > 0; --d) {
      const ulong at = rest % geometry.sizes[d - 1];
      rest /= geometry.sizes[d - 1];
      ((__global long*)(y + y_offset))[(d - 1) * geometry.row_stride + column] = (long)at;
    }
    ++column;
  }
}
