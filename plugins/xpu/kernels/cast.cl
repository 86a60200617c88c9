// SPDX-License-Identifier: Apache-2.0
//
// cast from elements of BP_FROM to those of BP_TO. BP_CONVERT: how, one of the functions here; of
// truncate, BP_SATURATE is OpenCL's own conversion.

// What is not 0 is true, a NaN too.
#define truth(value) ((value) != 0 ? 1 : 0)
// Integers wrap. Floats round to nearest even.
#define plain(value) ((BP_VALUE(BP_TO))(value))
// Toward zero, the nearest integer where it is out of range, NaN to 0.
#define truncate(value) ((value) != (value) ? (BP_VALUE(BP_TO))0 : BP_SATURATE(value))

// To a float on the way to a half type: rounded to odd, so that what is rounded to nearest even
// afterwards is rounded once.
#define narrow(value) odd((value), convert_float_rtz(value))
static inline float odd(BP_VALUE(BP_FROM) value, float near) {
  return (BP_VALUE(BP_FROM))near == value ? near : as_float(as_uint(near) | 1u);
}

__kernel void cast_dense(BP_INPUT(x), BP_OUTPUT(y), Nest1 nest) {
  const ulong item = get_global_id(0);
  if (item >= nest.item_count) return;
  const BP_VALUE(BP_FROM) value = BP_LOAD(BP_FROM, x, item);
  BP_STORE(BP_TO, y, item, BP_CONVERT(value));
}

__kernel void cast_strided(BP_INPUT(x), BP_OUTPUT(y), Nest1 nest) {
  const ulong item = get_global_id(0);
  if (item >= nest.item_count) return;
  const BP_VALUE(BP_FROM) value = BP_LOAD(BP_FROM, x, BP_PLACE(nest, 0, item));
  BP_STORE(BP_TO, y, item, BP_CONVERT(value));
}
