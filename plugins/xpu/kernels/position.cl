// SPDX-License-Identifier: Apache-2.0
//
// argmax and argmin of BP_DTYPE: BP_LARGEST and BP_LAST, each 0 or 1, say which position is wanted.

typedef BP_VALUE(BP_DTYPE) value_t;

// A NaN comes before every number; of equal ones the lowest or the highest position.
static inline bool wins(value_t a, long a_position, value_t b, long b_position) {
  const bool a_is_nan = a != a;
  const bool b_is_nan = b != b;
  if (a_is_nan != b_is_nan) return a_is_nan;
  if (!a_is_nan && a != b) return BP_LARGEST ? a > b : a < b;
  return BP_LAST ? a_position > b_position : a_position < b_position;
}

// One work item looks through a lane.
__kernel void position_of_item(BP_INPUT(x), BP_OUTPUT(y), LanesGeometry geometry) {
  const ulong lane = get_global_id(0);
  if (lane >= geometry.lanes.item_count) return;
  const long start = BP_PLACE(geometry.lanes, 0, lane);
  value_t best = BP_LOAD(BP_DTYPE, x, start);
  long position = 0;
  for (long k = 1; k < (long)geometry.length; ++k) {
    const value_t value = BP_LOAD(BP_DTYPE, x, start + k * geometry.x_step);
    if (!wins(value, k, best, position)) continue;
    best = value;
    position = k;
  }
  BP_WRITE(long, y)[lane] = position;
}

// A group looks through a lane.
__kernel void position_of_group(BP_INPUT(x), BP_OUTPUT(y), LanesGeometry geometry) {
  __local value_t values[BP_XPU_PARTS];
  __local long positions[BP_XPU_PARTS];
  const ulong lane = get_group_id(0);
  const uint item = (uint)get_local_id(0);
  const uint items = (uint)get_local_size(0);
  const long start = BP_PLACE(geometry.lanes, 0, lane);
  // A work item that finds nothing in a short lane looks at its first element again.
  value_t best = BP_LOAD(BP_DTYPE, x, start);
  long position = 0;
  for (long k = item; k < (long)geometry.length; k += items) {
    const value_t value = BP_LOAD(BP_DTYPE, x, start + k * geometry.x_step);
    if (!wins(value, k, best, position)) continue;
    best = value;
    position = k;
  }
  values[item] = best;
  positions[item] = position;
  for (uint half_count = items / 2; half_count > 0; half_count /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint other = item + half_count;
    if (item < half_count && wins(values[other], positions[other], values[item], positions[item])) {
      values[item] = values[other];
      positions[item] = positions[other];
    }
  }
  if (item == 0) BP_WRITE(long, y)[lane] = positions[0];
}
