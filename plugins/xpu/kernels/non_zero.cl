// SPDX-License-Identifier: Apache-2.0
//
// non_zero and compress: the data decides how much of it there is. BP_ELEMENT is an unsigned type
// of the elements' size.

static bool is_non_zero(__global const uchar* x, ulong x_offset, ulong element,
                        const NonZeroGeometry* geometry) {
  const long place = place_in(element, geometry->rank, geometry->sizes, geometry->strides);
  return (BP_READ(BP_ELEMENT, x)[place] & (BP_ELEMENT)geometry->value_bits) != 0;
}

// Of the counts that the work items of a group found: the sum of those before each, and of all.
static ulong starts_of_runs(__local ulong* first_of_run, ulong count) {
  const ulong items = get_local_size(0);
  first_of_run[get_local_id(0)] = count;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (get_local_id(0) == 0) {
    ulong total = 0;
    for (ulong i = 0; i < items; ++i) {
      const ulong of_run = first_of_run[i];
      first_of_run[i] = total;
      total += of_run;
    }
    first_of_run[items] = total;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  return first_of_run[items];
}

// One work group. Each work item counts a run of elements, then writes from where the runs before
// it end, so that the order is that of the elements.
__kernel void non_zero(BP_INPUT(x), BP_OUTPUT(y), NonZeroGeometry geometry,
                       BP_OUTPUT(out_extents)) {
  __local ulong first_of_run[BP_XPU_NON_ZERO_GROUP + 1];
  const ulong item = get_local_id(0);
  const ulong run = (geometry.element_count + get_local_size(0) - 1) / get_local_size(0);
  const ulong begin = min(item * run, geometry.element_count);
  const ulong end = min(begin + run, geometry.element_count);
  ulong count = 0;
  for (ulong element = begin; element < end; ++element) {
    count += is_non_zero(x, x_offset, element, &geometry) ? 1 : 0;
  }
  const ulong total = starts_of_runs(first_of_run, count);
  if (item == 0) {
    __global long* const extents = BP_WRITE(long, out_extents);
    extents[0] = (long)geometry.rank;
    extents[1] = (long)total;
  }
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

// One work group. places = the positions whose condition is true, in their order; behind the last
// that there may be, how many there are.
__kernel void compress_places(BP_INPUT(condition), BP_OUTPUT(places), CompressGeometry geometry,
                              BP_OUTPUT(out_extents)) {
  __local ulong first_of_run[BP_XPU_NON_ZERO_GROUP + 1];
  const ulong item = get_local_id(0);
  const ulong run = (geometry.told + get_local_size(0) - 1) / get_local_size(0);
  const ulong begin = min(item * run, geometry.told);
  const ulong end = min(begin + run, geometry.told);
  const __global uchar* const kept = BP_READ(uchar, condition);
  ulong count = 0;
  for (ulong i = begin; i < end; ++i) count += kept[(long)i * geometry.condition_stride] != 0;
  const ulong total = starts_of_runs(first_of_run, count);
  if (item == 0) {
    __global long* const extents = BP_WRITE(long, out_extents);
    for (ulong d = 0; d < geometry.y_rank; ++d) extents[d] = geometry.y_sizes[d];
    extents[geometry.axis] = (long)total;
    BP_WRITE(ulong, places)[geometry.told] = total;
  }
  ulong next = first_of_run[item];
  for (ulong i = begin; i < end; ++i) {
    if (kept[(long)i * geometry.condition_stride] != 0) BP_WRITE(ulong, places)[next++] = i;
  }
}

// y has room for all that may be kept. One work item copies one element of it, or none.
__kernel void compress_copy(BP_INPUT(x), BP_INPUT(places), BP_OUTPUT(y),
                            CompressGeometry geometry) {
  const ulong item = get_global_id(0);
  if (item >= geometry.item_count) return;
  const ulong at = item / geometry.inner % (ulong)geometry.y_sizes[geometry.axis];
  if (at >= BP_READ(ulong, places)[geometry.told]) return;
  const long place =
      place_in(item, geometry.y_rank, (const ulong*)geometry.y_sizes, geometry.x_strides) +
      (long)BP_READ(ulong, places)[at] * geometry.axis_stride;
  BP_WRITE(BP_ELEMENT, y)[item] = BP_READ(BP_ELEMENT, x)[place];
}
