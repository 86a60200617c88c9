// SPDX-License-Identifier: Apache-2.0
//
// One table of dtypes; every question about a code is a look-up in it.
#include "core/base/dtype.hpp"

#include <array>

namespace bp {
namespace {

struct DtypeRow {
  std::string_view name;
  uint32_t bits;
};

constexpr std::array<DtypeRow, 26> kRows = {{
    {"none", 0},   {"bool", 8},     {"i8", 8},     {"i16", 16},       {"i32", 32},
    {"i64", 64},   {"u8", 8},       {"u16", 16},   {"u32", 32},       {"u64", 64},
    {"f16", 16},   {"bf16", 16},    {"f32", 32},   {"f64", 64},       {"c64", 64},
    {"c128", 128}, {"f8e4m3fn", 8}, {"f8e5m2", 8}, {"f8e4m3fnuz", 8}, {"f8e5m2fnuz", 8},
    {"i4", 4},     {"u4", 4},       {"i2", 2},     {"u2", 2},         {"f4e2m1", 4},
    {"f8e8m0", 8},
}};
static_assert(kRows.size() == BP_DTYPE_F8E8M0 + 1);

}  // namespace

bool is_dtype(uint32_t dtype) { return dtype != BP_DTYPE_NONE && dtype < kRows.size(); }

std::string_view dtype_name(uint32_t dtype) {
  return dtype < kRows.size() ? kRows[dtype].name : "unknown";
}

uint32_t dtype_bits(uint32_t dtype) { return dtype < kRows.size() ? kRows[dtype].bits : 0; }

uint64_t dtype_storage_bytes(uint32_t dtype, int64_t count) {
  const uint64_t bits = dtype_bits(dtype);
  // Whole bytes first: in bits, counts that the caller has checked could overflow.
  if (bits >= 8) return static_cast<uint64_t>(count) * (bits / 8);
  return (static_cast<uint64_t>(count) * bits + 7) / 8;
}

std::string dtype_set_name(uint64_t mask) {
  std::string text = "{";
  for (uint32_t code = 1; code < kRows.size(); ++code) {
    if ((mask & BP_DTYPE_BIT(code)) == 0) continue;
    if (text.size() > 1) text += ", ";
    text += kRows[code].name;
  }
  return text + "}";
}

}  // namespace bp
