// SPDX-License-Identifier: Apache-2.0
//
// gather and non_zero: what kernels do whose data can be wrong, or decides how much data there is.

// One work item copies one element of y. An index out of range is clamped and reported; with
// nothing to clamp to, y is 0.
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

static bool is_non_zero(__global const uchar* x, ulong x_offset, ulong element,
                        const NonZeroGeometry* geometry) {
  const long place = place_in(element, geometry->rank, geometry->sizes, geometry->strides);
  return (BP_READ(BP_ELEMENT, x)[place] & (BP_ELEMENT)geometry->value_bits) != 0;
}

// One work group. Each work item counts a run of elements, then writes from where the runs before
// it end, so that the order is that of the elements.
__kernel void non_zero(BP_INPUT(x), BP_OUTPUT(y), NonZeroGeometry geometry,
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
    __global long* const extents = BP_WRITE(long, out_extents);
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
      BP_WRITE(long, y)[(d - 1) * geometry.row_stride + column] = (long)at;
    }
    ++column;
  }
}
