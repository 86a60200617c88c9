// SPDX-License-Identifier: Apache-2.0
//
// Normalizations of BP_DTYPE, computed in BP_ACC: a group for each row; batch_norm, whose mean and
// variance are given, an element for each work item.

#ifdef BP_ACC_DOUBLE
#define BP_EPSILON(geometry) as_double((geometry).epsilon_bits)
#else
#define BP_EPSILON(geometry) (geometry).epsilon
#endif

// The sum of x - mean, or of its square.
static inline BP_ACC sum_of(BP_INPUT(x), long start, BP_ACC mean, bool squares, ulong length,
                            __local BP_ACC* parts) {
  const ulong block = BP_XPU_PARTS * block_of(length / BP_XPU_PARTS);
  BP_FOR_EACH_PART(part, BP_XPU_PARTS) {
    BP_ACC total = 0;
    for (ulong k = part; k < length;) {
      const ulong end = min(k + block, length);
      BP_ACC sum = 0;
      for (; k < end; k += BP_XPU_PARTS) {
        const BP_ACC value = (BP_ACC)BP_LOAD(BP_DTYPE, x, start + (long)k) - mean;
        sum += squares ? value * value : value;
      }
      total += sum;
    }
    parts[part] = total;
  }
  return group_sum(parts);
}

// What a row becomes once its mean, in two parts, and its variance are known.
static inline void write_row(BP_INPUT(x), BP_INPUT(scale), BP_INPUT(bias), BP_OUTPUT(y), long start,
                             BP_ACC mean, BP_ACC rest, BP_ACC variance,
                             const NormGeometry* geometry) {
  const BP_ACC factor = 1 / sqrt(variance + BP_EPSILON(*geometry));
  BP_FOR_EACH_PART(k, geometry->length) {
    const ulong item = (ulong)start + k;
    const BP_ACC value = ((BP_ACC)BP_LOAD(BP_DTYPE, x, (long)item) - mean - rest) * factor;
    BP_ACC result =
        value * (BP_ACC)BP_LOAD(BP_DTYPE, scale, BP_PLACE(geometry->parameters, 0, item));
    if (bias != 0) result += BP_LOAD(BP_DTYPE, bias, BP_PLACE(geometry->parameters, 1, item));
    BP_STORE(BP_DTYPE, y, (long)item, result);
  }
}

// The mean of the deviations corrects the first mean, whose last bit would otherwise show in rows
// that hardly vary.
//
// No barrier stands behind a condition here: not all drivers of processors get that right, even
// where it is the same for the whole group.
__kernel void center_and_scale(BP_INPUT(x), BP_INPUT(scale), BP_INPUT(bias), BP_OUTPUT(y),
                               NormGeometry geometry) {
  __local BP_ACC parts[BP_XPU_PARTS];
  const long start = (long)get_group_id(0) * (long)geometry.length;
  const BP_ACC count = (BP_ACC)geometry.length;
  const BP_ACC mean = sum_of(x, x_offset, start, 0, false, geometry.length, parts) / count;
  const BP_ACC rest = sum_of(x, x_offset, start, mean, false, geometry.length, parts) / count;
  const BP_ACC square = sum_of(x, x_offset, start, mean, true, geometry.length, parts) / count;
  // Rounding may leave less than nothing. NaN is not less.
  const BP_ACC difference = square - rest * rest;
  const BP_ACC variance = difference < 0 ? 0 : difference;
  write_row(x, x_offset, scale, scale_offset, bias, bias_offset, y, y_offset, start, mean, rest,
            variance, &geometry);
}

__kernel void scale_rows(BP_INPUT(x), BP_INPUT(scale), BP_INPUT(bias), BP_OUTPUT(y),
                         NormGeometry geometry) {
  __local BP_ACC parts[BP_XPU_PARTS];
  const long start = (long)get_group_id(0) * (long)geometry.length;
  const BP_ACC square =
      sum_of(x, x_offset, start, 0, true, geometry.length, parts) / (BP_ACC)geometry.length;
  write_row(x, x_offset, scale, scale_offset, bias, bias_offset, y, y_offset, start, 0, 0, square,
            &geometry);
}

__kernel void batch_norm(BP_INPUT(x), BP_INPUT(scale), BP_INPUT(bias), BP_INPUT(mean),
                         BP_INPUT(variance), BP_OUTPUT(y), BatchNormGeometry geometry) {
  const ulong item = get_global_id(0);
  if (item >= geometry.x.item_count) return;
  const long channel = (long)(item / geometry.inner % geometry.channels);
  const BP_ACC factor =
      1 / sqrt((BP_ACC)BP_LOAD(BP_DTYPE, variance, channel * geometry.strides[3]) +
               BP_EPSILON(geometry));
  const BP_ACC value = (BP_ACC)BP_LOAD(BP_DTYPE, x, BP_PLACE(geometry.x, 0, item)) -
                       (BP_ACC)BP_LOAD(BP_DTYPE, mean, channel * geometry.strides[2]);
  const BP_ACC result =
      value * factor * (BP_ACC)BP_LOAD(BP_DTYPE, scale, channel * geometry.strides[0]) +
      (BP_ACC)BP_LOAD(BP_DTYPE, bias, channel * geometry.strides[1]);
  BP_STORE(BP_DTYPE, y, (long)item, result);
}
