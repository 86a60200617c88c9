// SPDX-License-Identifier: Apache-2.0
//
// The gathers: elements of BP_ELEMENT, an unsigned type of their size, at places that indices of
// BP_INDEX name. An index out of range is clamped and reported; with nothing to clamp to, y is 0.

// Also gather_elements, whose x does not move along the axis. One work item copies one element.
__kernel void gather(BP_INPUT(x), BP_INPUT(indices), BP_OUTPUT(y), GatherGeometry geometry,
                     BP_FAULT) {
  const ulong item = get_global_id(0);
  if (item >= geometry.item_count) return;
  long x_place = 0;
  long index_place = 0;
  ulong rest = item;
  for (ulong d = geometry.rank; d > 0; --d) {
    const long at = (long)(rest % geometry.sizes[d - 1]);
    rest /= geometry.sizes[d - 1];
    x_place += at * geometry.x_strides[d - 1];
    index_place += at * geometry.index_strides[d - 1];
  }
  const long index = checked_index(BP_LOAD(BP_INDEX, indices, index_place), geometry.extent, fault,
                                   fault_offset, op_seq);
  x_place += index * geometry.axis_stride;
  BP_WRITE(BP_ELEMENT, y)[item] = geometry.extent == 0 ? 0 : BP_READ(BP_ELEMENT, x)[x_place];
}

__kernel void gather_nd(BP_INPUT(x), BP_INPUT(indices), BP_OUTPUT(y), GatherNdGeometry geometry,
                        BP_FAULT) {
  const ulong item = get_global_id(0);
  if (item >= geometry.rows.item_count) return;
  long x_place = BP_PLACE(geometry.rows, 0, item);
  const long point = BP_PLACE(geometry.rows, 1, item);
  bool is_nowhere = false;
  for (ulong i = 0; i < geometry.point_size; ++i) {
    const long given = BP_LOAD(BP_INDEX, indices, point + (long)i * geometry.point_stride);
    const long extent = geometry.extents[i];
    is_nowhere = is_nowhere || extent == 0;
    x_place += checked_index(given, extent, fault, fault_offset, op_seq) * geometry.strides[i];
  }
  BP_WRITE(BP_ELEMENT, y)[item] = is_nowhere ? 0 : BP_READ(BP_ELEMENT, x)[x_place];
}
