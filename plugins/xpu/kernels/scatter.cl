// SPDX-License-Identifier: Apache-2.0
//
// The scatters. The target is y, or for sums and products of half types workspace in f32, so that
// they are rounded once. Updates of one element are made by one work item, in row-major order: the
// last one wins, and sums do not depend on how the work is shared out. An index out of range is
// clamped and reported.
//
// Build options: BP_DTYPE of updates, BP_HELD of the target, BP_INDEX, BP_REDUCTION.

typedef BP_VALUE(BP_HELD) held_t;

static inline held_t combined(held_t held, BP_VALUE(BP_DTYPE) update) {
#if BP_REDUCTION == BP_XPU_SCATTER_ADD
  return (held_t)(held + update);
#elif BP_REDUCTION == BP_XPU_SCATTER_MUL
#ifdef BP_IS_INTEGER
  return (held_t)((ulong)held * (ulong)update);  // short operands would be multiplied as int
#else
  return held * update;
#endif
                                                 // A NaN wins over numbers.
#elif BP_REDUCTION == BP_XPU_SCATTER_MAX
  return held == held && (update != update || update > held) ? update : held;
#elif BP_REDUCTION == BP_XPU_SCATTER_MIN
  return held == held && (update != update || update < held) ? update : held;
#else
  return update;
#endif
}

static inline void meet(__global uchar* target, ulong target_offset, long place,
                        __global const uchar* updates, ulong updates_offset, long update) {
  const held_t held = BP_LOAD(BP_HELD, target, place);
  BP_STORE(BP_HELD, target, place, combined(held, BP_LOAD(BP_DTYPE, updates, update)));
}

__kernel void scatter_begin(BP_INPUT(x), BP_OUTPUT(target), Nest1 nest) {
  const ulong item = get_global_id(0);
  if (item >= nest.item_count) return;
  BP_STORE(BP_HELD, target, (long)item, BP_LOAD(BP_DTYPE, x, BP_PLACE(nest, 0, item)));
}

__kernel void scatter_elements(BP_INPUT(indices), BP_INPUT(updates), BP_OUTPUT(target),
                               ScatterElementsGeometry geometry, BP_FAULT) {
  const ulong item = get_global_id(0);
  if (item >= geometry.lanes.item_count * geometry.part_count) return;
  const ulong part = item % geometry.part_count;
  const ulong lane = item / geometry.part_count;
  long from = BP_PLACE(geometry.lanes, 0, lane);
  const long to = BP_PLACE(geometry.lanes, 1, lane);
  for (ulong k = 0; k < geometry.length; ++k, from += geometry.step) {
    const long index = checked_index(BP_LOAD(BP_INDEX, indices, from), geometry.extent, fault,
                                     fault_offset, op_seq);
    if (geometry.extent == 0 || (ulong)index % geometry.part_count != part) continue;
    meet(target, target_offset, to + index * geometry.target_step, updates, updates_offset, from);
  }
}

__kernel void scatter_nd(BP_INPUT(indices), BP_INPUT(updates), BP_OUTPUT(target),
                         ScatterNdGeometry geometry, BP_FAULT) {
  const ulong item = get_global_id(0);
  if (item >= geometry.slice_size * geometry.part_count) return;
  const ulong column = item % geometry.slice_size;
  const ulong part = item / geometry.slice_size;
  for (ulong row = 0; row < geometry.row_count; ++row) {
    long slice = 0;
    bool is_nowhere = false;
    for (ulong i = 0; i < geometry.point_size; ++i) {
      const long given = BP_LOAD(BP_INDEX, indices, (long)(row * geometry.point_size + i));
      const long extent = geometry.extents[i];
      is_nowhere = is_nowhere || extent == 0;
      slice += checked_index(given, extent, fault, fault_offset, op_seq) * geometry.strides[i];
    }
    if (is_nowhere || (ulong)slice % geometry.part_count != part) continue;
    meet(target, target_offset, slice * (long)geometry.slice_size + (long)column, updates,
         updates_offset, (long)(row * geometry.slice_size + column));
  }
}

__kernel void scatter_end(BP_INPUT(target), BP_OUTPUT(y), Nest1 nest) {
  const ulong item = get_global_id(0);
  if (item >= nest.item_count) return;
  BP_STORE(BP_DTYPE, y, (long)item, BP_LOAD(BP_HELD, target, (long)item));
}
