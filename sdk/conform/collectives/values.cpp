// SPDX-License-Identifier: Apache-2.0
//
// Elements of each dtype, and their reference.
#include "sdk/conform/collectives/values.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>
#include <string>

#include "core/base/dtype.hpp"
#include "ops/oracle/oracle_tensor.hpp"
#include "sdk/conform/kernels/fill.hpp"

namespace bp::conform {
namespace {

uint64_t mixed(uint64_t seed, uint64_t place) {
  uint64_t state = seed + place * 0x9e3779b97f4a7c15u;
  state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
  state = (state ^ (state >> 27)) * 0x94d049bb133111ebu;
  return state ^ (state >> 31);
}

/// A float of one byte: what its bits mean.
struct ByteFloat {
  uint32_t dtype;
  int mantissa_bits;
  int bias;
  bool has_infinity;    // the largest exponent is infinity and NaN
  bool has_minus_zero;  // else that code is the only NaN
};
constexpr ByteFloat kByteFloats[] = {{BP_DTYPE_F8E4M3FN, 3, 7, false, true},
                                     {BP_DTYPE_F8E5M2, 2, 15, true, true},
                                     {BP_DTYPE_F8E4M3FNUZ, 3, 8, false, false},
                                     {BP_DTYPE_F8E5M2FNUZ, 2, 16, false, false}};

const ByteFloat* byte_float(uint32_t dtype) {
  const auto* const found =
      std::find_if(std::begin(kByteFloats), std::end(kByteFloats),
                   [=](const ByteFloat& each) { return each.dtype == dtype; });
  return found == std::end(kByteFloats) ? nullptr : found;
}

double decode(const ByteFloat& format, uint8_t code) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const int exponent_bits = 7 - format.mantissa_bits;
  const int exponent = code >> format.mantissa_bits & ((1 << exponent_bits) - 1);
  const int mantissa = code & ((1 << format.mantissa_bits) - 1);
  const int highest = (1 << exponent_bits) - 1;
  if (!format.has_minus_zero && code == 0x80) return kNan;
  if (format.has_infinity && exponent == highest) {
    if (mantissa != 0) return kNan;
    return code >= 0x80 ? -HUGE_VAL : HUGE_VAL;
  }
  if (format.has_minus_zero && !format.has_infinity && (code & 0x7f) == 0x7f) return kNan;
  const int hidden = exponent == 0 ? 0 : 1 << format.mantissa_bits;
  const double value =
      std::ldexp(hidden + mantissa, std::max(exponent, 1) - format.bias - format.mantissa_bits);
  return code >= 0x80 ? -value : value;
}

/// Digits of the mantissa, with the hidden one.
int digits_of(uint32_t dtype) {
  const ByteFloat* const small = byte_float(dtype);
  return small != nullptr ? small->mantissa_bits + 1 : float_digits(dtype);
}

double min_normal_of(uint32_t dtype) {
  const ByteFloat* const small = byte_float(dtype);
  return small != nullptr ? std::ldexp(1.0, 1 - small->bias) : float_min_normal(dtype);
}

/// The code of the number that is nearest.
std::byte encode(const ByteFloat& format, double value) {
  uint8_t best = 0;
  double distance = HUGE_VAL;
  for (int code = 0; code < 256; ++code) {
    const double apart = std::fabs(decode(format, static_cast<uint8_t>(code)) - value);
    if (apart < distance) {
      distance = apart;
      best = static_cast<uint8_t>(code);
    }
  }
  return std::byte{best};
}

void store_real(uint32_t dtype, std::byte* data, uint64_t index, double value) {
  if (const ByteFloat* const small = byte_float(dtype); small != nullptr) {
    data[index] = encode(*small, value);
  } else {
    ops::store_float(dtype, data, static_cast<int64_t>(index), value);
  }
}

/// A value of one rank, not 0.
double real_value(const Combination& how, uint64_t random) {
  const double sign = (random & 1) != 0 ? -1 : 1;
  random >>= 1;
  const bool multiplies = how.reduction == BP_REDUCTION_PROD;
  if (how.elements == Elements::kFull) {
    const double fraction = std::ldexp(static_cast<double>(random >> 11), -53);
    const int exponent = static_cast<int>(random % 2) - 1;  // products stay in the range
    return sign * std::ldexp(1 + fraction, exponent);
  }
  if (multiplies) return sign * std::ldexp(1.0, static_cast<int>(random % 3) - 1);
  // The sum of all ranks has no more digits than the dtype.
  const int64_t most = (int64_t{1} << std::min(digits_of(how.dtype), 20)) / how.rank_count;
  const int64_t limit = std::clamp<int64_t>(most, 1, 1000);
  return sign * static_cast<double>(1 + random % static_cast<uint64_t>(limit));
}

uint64_t load_whole(uint32_t dtype, const Bytes& bytes, uint64_t index) {
  return ops::load_integer(dtype, bytes.data(), static_cast<int64_t>(index));
}

uint64_t combined_whole(const Combination& how, std::span<const Bytes> sent, uint64_t index) {
  const bool is_signed = ops::is_signed_dtype(how.dtype);
  const auto below = [=](uint64_t a, uint64_t b) {
    return is_signed ? static_cast<int64_t>(a) < static_cast<int64_t>(b) : a < b;
  };
  uint64_t total = load_whole(how.dtype, sent[0], index);
  for (const Bytes& other : sent.subspan(1)) {
    const uint64_t value = load_whole(how.dtype, other, index);
    if (how.reduction == BP_REDUCTION_SUM) total += value;
    if (how.reduction == BP_REDUCTION_PROD) total *= value;
    if (how.reduction == BP_REDUCTION_MIN && below(value, total)) total = value;
    if (how.reduction == BP_REDUCTION_MAX && below(total, value)) total = value;
  }
  return total;
}

struct Reference {
  long double value = 0;
  long double bound = 0;
};

Reference combined_real(const Combination& how, std::span<const Bytes> sent, uint64_t index) {
  Reference all;
  long double magnitude = 0;
  for (size_t rank = 0; rank < sent.size(); ++rank) {
    const long double value = load_real(how.dtype, sent[rank].data(), index);
    const bool multiplies = how.reduction == BP_REDUCTION_PROD;
    const bool adds = how.reduction == BP_REDUCTION_SUM || how.reduction == BP_REDUCTION_AVG;
    magnitude =
        multiplies && rank > 0 ? magnitude * std::fabs(value) : magnitude + std::fabs(value);
    if (rank == 0) {
      all.value = value;
    } else if (adds) {
      all.value += value;
    } else if (multiplies) {
      all.value *= value;
    } else {
      all.value = how.reduction == BP_REDUCTION_MIN ? std::min(all.value, value)
                                                    : std::max(all.value, value);
    }
  }
  const auto count = static_cast<long double>(sent.size());
  const bool divides = how.reduction == BP_REDUCTION_AVG;
  if (divides) all.value /= count;
  if (how.reduction == BP_REDUCTION_MIN || how.reduction == BP_REDUCTION_MAX) return all;
  if (how.elements == Elements::kExact && !divides) return all;
  // The hop's arithmetic is f32's or better; then its result is rounded to the dtype.
  const int digits = digits_of(how.dtype);
  const long double unit = std::ldexp(1.0L, -digits) + std::ldexp(1.0L, -std::max(digits, 24));
  const long double hops = count - 1;
  all.bound = hops * unit * magnitude / (divides ? count : 1);
  if (divides && sent.size() > 1) all.bound += unit * std::fabs(all.value);
  all.bound = all.bound * 1.01L + hops * unit * min_normal_of(how.dtype);
  return all;
}

/// Which elements are wrong.
class Mismatches {
 public:
  void note(uint64_t index, const std::string& words) {
    if (count_++ == 0) {
      first_ = index;
      words_ = words;
    }
    last_ = index;
  }
  bool any() const { return count_ != 0; }
  std::string told(std::string_view what, uint64_t of) const {
    return words(what, ": element ", first_, " of ", of, ": ", words_, "; ", count_,
                 " are wrong, the last is ", last_);
  }

 private:
  uint64_t count_ = 0;
  uint64_t first_ = 0;
  uint64_t last_ = 0;
  std::string words_;
};

}  // namespace

bool is_real_float(uint32_t dtype) { return is_float_dtype(dtype) || byte_float(dtype) != nullptr; }

bool can_be_reduced(uint32_t dtype, uint32_t reduction) {
  if (is_real_float(dtype)) return true;
  return dtype >= BP_DTYPE_I8 && dtype <= BP_DTYPE_U64 && reduction != BP_REDUCTION_AVG;
}

std::string_view reduction_name(uint32_t reduction) {
  constexpr std::string_view kNames[] = {"sum", "prod", "min", "max", "avg"};
  return kNames[reduction];
}

uint64_t element_bytes(uint32_t dtype) { return dtype_bits(dtype) / 8; }

double load_real(uint32_t dtype, const std::byte* data, uint64_t index) {
  const ByteFloat* const small = byte_float(dtype);
  if (small != nullptr) return decode(*small, static_cast<uint8_t>(data[index]));
  return ops::load_float(dtype, data, static_cast<int64_t>(index));
}

Bytes make_elements(const Combination& how, uint64_t seed, uint32_t rank, uint64_t count) {
  const uint64_t bytes = element_bytes(how.dtype);
  const uint64_t own = mixed(seed, rank + 1);
  Bytes made(count * bytes);
  if (is_real_float(how.dtype)) {
    for (uint64_t i = 0; i < count; ++i) {
      store_real(how.dtype, made.data(), i, real_value(how, mixed(own, i)));
    }
    return made;
  }
  for (size_t at = 0; at < made.size(); at += sizeof(uint64_t)) {
    const uint64_t word = mixed(own, at);
    std::memcpy(made.data() + at, &word, std::min(sizeof(word), made.size() - at));
  }
  return made;
}

void expect_combined(Checks& checks, std::string_view what, const Combination& how,
                     std::span<const Bytes> sent, std::span<const std::byte> found) {
  const uint64_t bytes = element_bytes(how.dtype);
  const uint64_t count = found.size() / bytes;
  Mismatches wrong;
  if (is_real_float(how.dtype)) {
    for (uint64_t i = 0; i < count; ++i) {
      const Reference expected = combined_real(how, sent, i);
      const long double value = load_real(how.dtype, found.data(), i);
      if (std::fabs(value - expected.value) <= expected.bound) continue;
      wrong.note(i, words("expected ", expected.value, " +- ", expected.bound, ", found ", value));
    }
  } else {
    Bytes expected(bytes);
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t value = combined_whole(how, sent, i);
      ops::store_integer(how.dtype, expected.data(), 0, value);
      if (std::memcmp(expected.data(), found.data() + i * bytes, bytes) == 0) continue;
      const Bytes other(found.begin() + static_cast<std::ptrdiff_t>(i * bytes),
                        found.begin() + static_cast<std::ptrdiff_t>((i + 1) * bytes));
      wrong.note(i, words("expected ", load_whole(how.dtype, expected, 0), ", found ",
                          load_whole(how.dtype, other, 0)));
    }
  }
  checks.expect(!wrong.any(), wrong.any() ? wrong.told(what, count) : std::string());
}

}  // namespace bp::conform
