// SPDX-License-Identifier: Apache-2.0
//
// resize of BP_DTYPE, mixed in BP_ACC. One work item makes one element of y: of each combination of
// taps it adds the element of x times the product of their weights. No weight is 0, so no infinity
// becomes NaN by it.

#define rounded_f32(x) (x)
#define rounded_f64(x) (x)
#define rounded_f16(x) (x)
#define rounded_bf16(x) (x)
#define rounded_i8(x) (isnan(x) ? (char)0 : convert_char_sat_rte(x))
#define rounded_i16(x) (isnan(x) ? (short)0 : convert_short_sat_rte(x))
#define rounded_i32(x) (isnan(x) ? 0 : convert_int_sat_rte(x))
#define rounded_i64(x) (isnan(x) ? 0L : convert_long_sat_rte(x))
#define rounded_u8(x) (isnan(x) ? (uchar)0 : convert_uchar_sat_rte(x))
#define rounded_u16(x) (isnan(x) ? (ushort)0 : convert_ushort_sat_rte(x))
#define rounded_u32(x) (isnan(x) ? 0u : convert_uint_sat_rte(x))
#define rounded_u64(x) (isnan(x) ? 0UL : convert_ulong_sat_rte(x))
#define rounded_bool(x) ((uchar)(rint(x) != 0))
#define BP_ROUNDED(x) BP_JOIN(rounded_, BP_DTYPE)(x)

#ifdef BP_ACC_DOUBLE
#define BP_EXTRAPOLATION(geometry) as_double((geometry).extrapolation_bits)
#else
#define BP_EXTRAPOLATION(geometry) (geometry).extrapolation
#endif

#define BP_POSITIONS(geometry, d) \
  ((__global const int*)(tables + tables_offset + (geometry).position_bytes[d]))
#define BP_WEIGHTS(geometry, d) \
  ((__global const BP_ACC*)(tables + tables_offset + (geometry).weight_bytes[d]))

// The first entry of each dimension's table for this output. False: it is the extrapolation.
static inline bool find_entries(ulong item, BP_INPUT(tables), const ResizeGeometry* geometry,
                                ulong* entries, long* fixed_place) {
  bool is_inside = true;
  *fixed_place = 0;
  for (ulong d = geometry->rank; d > 0; --d) {
    const ulong at = item % geometry->sizes[d - 1];
    item /= geometry->sizes[d - 1];
    const ulong taps = geometry->taps[d - 1];
    entries[d - 1] = at * taps;
    if (taps == 0) {
      *fixed_place += (long)at * geometry->x_strides[d - 1];
    } else {
      is_inside = is_inside && BP_POSITIONS(*geometry, d - 1)[at * taps] >= 0;
    }
  }
  return is_inside;
}

__kernel void resize_nearest(BP_INPUT(x), BP_INPUT(tables), BP_OUTPUT(y), ResizeGeometry geometry) {
  const ulong item = get_global_id(0);
  if (item >= geometry.item_count) return;
  ulong entries[BP_XPU_MAX_RANK];
  long place;
  if (!find_entries(item, tables, tables_offset, &geometry, entries, &place)) {
    BP_STORE(BP_DTYPE, y, (long)item, BP_ROUNDED(BP_EXTRAPOLATION(geometry)));
    return;
  }
  for (ulong d = 0; d < geometry.rank; ++d) {
    if (geometry.taps[d] != 0) {
      place += BP_POSITIONS(geometry, d)[entries[d]] * geometry.x_strides[d];
    }
  }
  BP_STORE(BP_DTYPE, y, (long)item, BP_LOAD(BP_DTYPE, x, place));
}

__kernel void resize_mixing(BP_INPUT(x), BP_INPUT(tables), BP_OUTPUT(y), ResizeGeometry geometry) {
  const ulong item = get_global_id(0);
  if (item >= geometry.item_count) return;
  ulong entries[BP_XPU_MAX_RANK];
  long fixed_place;
  if (!find_entries(item, tables, tables_offset, &geometry, entries, &fixed_place)) {
    BP_STORE(BP_DTYPE, y, (long)item, BP_ROUNDED(BP_EXTRAPOLATION(geometry)));
    return;
  }
  ulong combinations = 1;
  for (ulong d = 0; d < geometry.rank; ++d) {
    if (geometry.taps[d] != 0) combinations *= geometry.taps[d];
  }
  BP_ACC sum = 0;
  for (ulong combination = 0; combination < combinations; ++combination) {
    ulong rest = combination;
    long place = fixed_place;
    BP_ACC weight = 1;
    for (ulong d = geometry.rank; d > 0; --d) {
      const ulong taps = geometry.taps[d - 1];
      if (taps == 0) continue;
      const ulong entry = entries[d - 1] + rest % taps;
      rest /= taps;
      place += BP_POSITIONS(geometry, d - 1)[entry] * geometry.x_strides[d - 1];
      weight *= BP_WEIGHTS(geometry, d - 1)[entry];
    }
    sum += weight * (BP_ACC)BP_LOAD(BP_DTYPE, x, place);
  }
  BP_STORE(BP_DTYPE, y, (long)item, BP_ROUNDED(sum));
}
