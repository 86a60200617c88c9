// SPDX-License-Identifier: Apache-2.0
//
// Elements in memory, in OpenCL C 1.2: half types are f32 in registers, by conversions that need no
// extension; a bool is a byte that is 0 or 1.
#define BP_INPUT(n) __global const uchar *in##n, ulong in##n##_offset
#define BP_OUTPUT __global uchar *out, ulong out_offset
#define BP_AT(S, n, i) bp_load_##S(in##n + in##n##_offset, i)
#define BP_PUT(S, i, value) bp_store_##S(out + out_offset, i, value)

#define BP_MEMORY_WORDS(S, T)                                         \
  static inline T bp_load_##S(__global const uchar* from, long i) {   \
    return ((__global const T*)from)[i];                              \
  }                                                                   \
  static inline void bp_store_##S(__global uchar* to, long i, T value) { \
    ((__global T*)to)[i] = value;                                     \
  }

static inline bool bp_load_bool(__global const uchar* from, long i) { return from[i] != 0; }
static inline void bp_store_bool(__global uchar* to, long i, bool value) {
  to[i] = value ? 1 : 0;
}

static inline float bp_load_f16(__global const uchar* from, long i) {
  return vload_half(0, (__global const half*)(from + 2 * i));
}
static inline void bp_store_f16(__global uchar* to, long i, float value) {
  vstore_half_rte(value, 0, (__global half*)(to + 2 * i));
}

static inline float bp_load_bf16(__global const uchar* from, long i) {
  return as_float((uint)((__global const ushort*)from)[i] << 16);
}
// To nearest even; a NaN stays one.
static inline void bp_store_bf16(__global uchar* to, long i, float value) {
  const uint bits = as_uint(value);
  const uint rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  ((__global ushort*)to)[i] = (ushort)(value != value ? bits >> 16 | 0x40u : rounded);
}

// A constant of a layout.
#define BP_CONSTANT_bool(bits) ((bits) != 0)
#define BP_CONSTANT_f32(bits) as_float((uint)(bits))
#define BP_CONSTANT_f64(bits) as_double(bits)
#define BP_CONSTANT_i8(bits) ((char)(bits))
#define BP_CONSTANT_i16(bits) ((short)(bits))
#define BP_CONSTANT_i32(bits) ((int)(bits))
#define BP_CONSTANT_i64(bits) ((long)(bits))
#define BP_CONSTANT_u8(bits) ((uchar)(bits))
#define BP_CONSTANT_u16(bits) ((ushort)(bits))
#define BP_CONSTANT_u32(bits) ((uint)(bits))
#define BP_CONSTANT_u64(bits) (bits)
