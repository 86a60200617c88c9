// SPDX-License-Identifier: Apache-2.0
//
// The loops of emitted reductions in OpenCL C 1.2. A program is layout.h, words.h, memory.cl, what
// bp-exprgen wrote of one reduction and dtype, and this text. That defines BP_KERNEL(form), a
// kernel's name; BP_ACCUMULATOR, a type; bp_start(); BP_MAP(i), of element i of x; bp_combine(a, b);
// and BP_FINISH(i, a, count), which stores output i.

// Where the item `item` of the dimensions [first, first + rank) lies, in elements.
static long bp_place(const bp_reduction_layout* layout, ulong first, ulong rank, ulong item) {
  long place = 0;
  for (ulong d = first + rank; d > first; --d) {
    const ulong size = layout->sizes[d - 1];
    place += (long)(item % size) * layout->strides[d - 1];
    item /= size;
  }
  return place;
}

// How many of `count` elements are folded one behind the other before they join the rest. From a
// number on it is about the square root, so that the error of a sum grows with that.
static ulong bp_block(ulong count) { return max(256UL, 1UL << (64 - clz(count)) / 2); }

// Elements first, first + step, ... of the output that begins at `origin`. Along one dimension, as
// nearly all reductions are, there is no division.
#define BP_FOLD(accumulator, origin, first, step)                                          \
  const ulong block = (step)*bp_block(layout.reduced_count / (step));                      \
  for (ulong begin = (first); begin < layout.reduced_count; begin += block) {              \
    const ulong end = min(begin + block, (ulong)layout.reduced_count);                     \
    BP_ACCUMULATOR part = bp_start();                                                      \
    if (layout.reduced_rank <= 1) {                                                        \
      const long stride = layout.reduced_rank == 0 ? 0 : layout.strides[layout.kept_rank]; \
      for (ulong k = begin; k < end; k += (step)) {                                        \
        part = bp_combine(part, BP_MAP((origin) + (long)k * stride));                      \
      }                                                                                    \
    } else {                                                                               \
      for (ulong k = begin; k < end; k += (step)) {                                        \
        const long place = bp_place(&layout, layout.kept_rank, layout.reduced_rank, k);    \
        part = bp_combine(part, BP_MAP((origin) + place));                                 \
      }                                                                                    \
    }                                                                                      \
    accumulator = bp_combine(accumulator, part);                                           \
  }

// A work item for each output.
__kernel void BP_KERNEL(one_by_one)(BP_INPUT(0), BP_OUTPUT, bp_reduction_layout layout) {
  const ulong item = get_global_id(0);
  if (item >= layout.output_count) return;
  const long origin = bp_place(&layout, 0, layout.kept_rank, item);
  BP_ACCUMULATOR sum = bp_start();
  BP_FOLD(sum, origin, 0, 1)
  BP_FINISH(item, sum, layout.reduced_count);
}

// A group for each output: each work item folds its share, then the group combines these in a tree
// whose form the group's size alone decides. BP_GROUP_SIZE: at least the group's.
__kernel void BP_KERNEL(by_groups)(BP_INPUT(0), BP_OUTPUT, bp_reduction_layout layout) {
  __local BP_ACCUMULATOR sums[BP_GROUP_SIZE];
  const ulong item = get_group_id(0);
  const uint lane = (uint)get_local_id(0);
  const uint lanes = (uint)get_local_size(0);
  const bool is_used = item < layout.output_count;  // the same in the whole group
  BP_ACCUMULATOR sum = bp_start();
  if (is_used) {
    const long origin = bp_place(&layout, 0, layout.kept_rank, item);
    BP_FOLD(sum, origin, lane, lanes)
  }
  sums[lane] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint count = lanes; count > 1; count = (count + 1) / 2) {
    const uint half_count = (count + 1) / 2;
    if (lane + half_count < count) sums[lane] = bp_combine(sums[lane], sums[lane + half_count]);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (lane == 0 && is_used) BP_FINISH(item, sums[0], layout.reduced_count);
}
