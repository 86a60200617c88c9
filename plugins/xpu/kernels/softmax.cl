// SPDX-License-Identifier: Apache-2.0
//
// softmax and log_softmax of BP_DTYPE, computed in BP_ACC: a group for each lane. Less the largest
// value, exponentials do not overflow. A NaN, or an infinite largest value, makes the lane NaN by
// way of the sum.

static inline BP_ACC largest_of(BP_INPUT(x), long start, const LanesGeometry* geometry,
                                __local BP_ACC* parts) {
  BP_FOR_EACH_PART(part, BP_XPU_PARTS) {
    BP_ACC largest = -INFINITY;
    for (ulong k = part; k < geometry->length; k += BP_XPU_PARTS) {
      largest = fmax(largest, (BP_ACC)BP_LOAD(BP_DTYPE, x, start + (long)k * geometry->x_step));
    }
    parts[part] = largest;
  }
  return group_max(parts);
}

static inline BP_ACC sum_of(BP_INPUT(x), long start, BP_ACC largest, const LanesGeometry* geometry,
                            __local BP_ACC* parts) {
  const ulong block = BP_XPU_PARTS * block_of(geometry->length / BP_XPU_PARTS);
  BP_FOR_EACH_PART(part, BP_XPU_PARTS) {
    BP_ACC total = 0;
    for (ulong k = part; k < geometry->length;) {
      const ulong end = min(k + block, geometry->length);
      BP_ACC sum = 0;
      for (; k < end; k += BP_XPU_PARTS) {
        sum += exp((BP_ACC)BP_LOAD(BP_DTYPE, x, start + (long)k * geometry->x_step) - largest);
      }
      total += sum;
    }
    parts[part] = total;
  }
  return group_sum(parts);
}

__kernel void softmax(BP_INPUT(x), BP_OUTPUT(y), LanesGeometry geometry) {
  __local BP_ACC parts[BP_XPU_PARTS];
  const ulong lane = get_group_id(0);
  const long from = BP_PLACE(geometry.lanes, 0, lane);
  const long to = BP_PLACE(geometry.lanes, 1, lane);
  const BP_ACC largest = largest_of(x, x_offset, from, &geometry, parts);
  const BP_ACC sum = sum_of(x, x_offset, from, largest, &geometry, parts);
  BP_FOR_EACH_PART(k, geometry.length) {
    const BP_ACC value = BP_LOAD(BP_DTYPE, x, from + (long)k * geometry.x_step);
    BP_STORE(BP_DTYPE, y, to + (long)k * geometry.y_step, exp(value - largest) / sum);
  }
}

__kernel void log_softmax(BP_INPUT(x), BP_OUTPUT(y), LanesGeometry geometry) {
  __local BP_ACC parts[BP_XPU_PARTS];
  const ulong lane = get_group_id(0);
  const long from = BP_PLACE(geometry.lanes, 0, lane);
  const long to = BP_PLACE(geometry.lanes, 1, lane);
  const BP_ACC largest = largest_of(x, x_offset, from, &geometry, parts);
  const BP_ACC log_of_sum = log(sum_of(x, x_offset, from, largest, &geometry, parts));
  BP_FOR_EACH_PART(k, geometry.length) {
    const BP_ACC value = BP_LOAD(BP_DTYPE, x, from + (long)k * geometry.x_step);
    BP_STORE(BP_DTYPE, y, to + (long)k * geometry.y_step, value - largest - log_of_sum);
  }
}
