// SPDX-License-Identifier: Apache-2.0
//
// top_k of BP_DTYPE: a group for each lane. Values become unsigned keys in the wanted order. The
// digits of the k-th best key are found from the highest on, by counting how many keys have each
// value of the next digit; then what is better, and as many of its equals as are left, is gathered
// in its order, and each finds its rank among the gathered.
//
// Build options: BP_LARGEST, 0 or 1, and BP_KEY_BITS.

// A NaN is larger than every number, and both zeros are one.
static inline ulong key_of(BP_VALUE(BP_DTYPE) value) {
#if defined(BP_IS_F64)
  if (value != value) return BP_LARGEST ? ULONG_MAX : 0;
  const ulong bits = as_ulong(value == 0 ? 0.0 : value);
  const ulong key = bits >> 63 != 0 ? ~bits : bits | 1UL << 63;
#elif defined(BP_IS_FLOAT)
  if (value != value) return BP_LARGEST ? UINT_MAX : 0;
  const uint bits = as_uint(value == 0 ? 0.0f : value);
  const uint key = bits >> 31 != 0 ? ~bits : bits | 1u << 31;
#else
  const ulong key = (ulong)value ^ BP_SIGN_BIT;
#endif
  return (BP_LARGEST ? key : ~key) & ULONG_MAX >> (64 - BP_KEY_BITS);
}

static inline ulong key_at(BP_INPUT(x), long start, ulong k, const TopKGeometry* geometry) {
  return key_of(BP_LOAD(BP_DTYPE, x, start + (long)k * geometry->step));
}

// The k-th best key of the lane; *out_equal = how many keys equal to it are among the best.
static inline ulong threshold_of(BP_INPUT(x), long start, const TopKGeometry* geometry,
                                 __local uint* counts, __local ulong* found, ulong* out_equal) {
  const uint item = (uint)get_local_id(0);
  const uint items = (uint)get_local_size(0);
  ulong prefix = 0;
  ulong wanted = geometry->k;
  for (int shift = BP_KEY_BITS - BP_XPU_DIGIT_BITS; shift >= 0; shift -= BP_XPU_DIGIT_BITS) {
    for (uint i = item; i < BP_XPU_DIGIT_VALUES; i += items) counts[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (ulong k = item; k < geometry->length; k += items) {
      const ulong digits = key_at(x, x_offset, start, k, geometry) >> shift;
      if (digits >> BP_XPU_DIGIT_BITS != prefix) continue;
      atomic_inc(&counts[digits % BP_XPU_DIGIT_VALUES]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item == 0) {
      uint digit = BP_XPU_DIGIT_VALUES - 1;
      ulong left = wanted;
      for (; digit > 0 && counts[digit] < left; --digit) left -= counts[digit];
      found[0] = digit;
      found[1] = left;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    prefix = prefix << BP_XPU_DIGIT_BITS | found[0];
    wanted = found[1];
  }
  *out_equal = wanted;
  return prefix;
}

__kernel void top_k(BP_INPUT(x), BP_OUTPUT(room), BP_OUTPUT(y), BP_OUTPUT(indices),
                    TopKGeometry geometry) {
  __local uint counts[BP_XPU_DIGIT_VALUES];
  __local ulong better_before[BP_XPU_SORT_GROUP + 1];
  __local ulong equal_before[BP_XPU_SORT_GROUP + 1];
  const ulong lane = get_group_id(0);
  const ulong item = get_local_id(0);
  const ulong items = get_local_size(0);
  const long start = BP_PLACE(geometry.lanes, 0, lane);
  __global ulong* const keys = BP_WRITE(ulong, room) + 2 * lane * geometry.k;
  __global ulong* const places = keys + geometry.k;
  ulong equal_count = 0;
  const ulong threshold =
      threshold_of(x, x_offset, start, &geometry, counts, better_before, &equal_count);

  // Each work item gathers from a run of elements, so that the order is theirs.
  const ulong run = (geometry.length + items - 1) / items;
  const ulong begin = min(item * run, geometry.length);
  const ulong end = min(begin + run, geometry.length);
  ulong better = 0;
  ulong equal = 0;
  for (ulong k = begin; k < end; ++k) {
    const ulong key = key_at(x, x_offset, start, k, &geometry);
    better += key > threshold;
    equal += key == threshold;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  better_before[item + 1] = better;
  equal_before[item + 1] = equal;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (item == 0) {
    better_before[0] = equal_before[0] = 0;
    for (ulong i = 0; i < items; ++i) {
      better_before[i + 1] += better_before[i];
      equal_before[i + 1] += equal_before[i];
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  better = better_before[item];
  equal = equal_before[item];
  for (ulong k = begin; k < end; ++k) {
    const ulong key = key_at(x, x_offset, start, k, &geometry);
    const bool is_taken = key > threshold || (key == threshold && equal < equal_count);
    if (is_taken) {
      const ulong place = better + min(equal, equal_count);
      keys[place] = key;
      places[place] = k;
    }
    better += key > threshold;
    equal += key == threshold;
  }
  barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);

  const ulong first = lane / geometry.inner * geometry.k * geometry.inner + lane % geometry.inner;
  for (ulong i = item; i < geometry.k; i += items) {
    const ulong key = keys[i];
    ulong rank = 0;
    for (ulong j = 0; j < geometry.k; ++j) rank += keys[j] > key || (keys[j] == key && j < i);
    const long to = (long)(first + rank * geometry.inner);
    BP_STORE(BP_DTYPE, y, to, BP_LOAD(BP_DTYPE, x, start + (long)places[i] * geometry.step));
    BP_WRITE(long, indices)[to] = (long)places[i];
  }
}
