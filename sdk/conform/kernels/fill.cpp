// SPDX-License-Identifier: Apache-2.0
//
// One hash per element, and what each fill makes of it.
#include "sdk/conform/kernels/fill.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>

#include "core/base/dtype.hpp"

namespace bp::conform {
namespace {

constexpr size_t kSpecialCount = 18;
constexpr int64_t kTermLimit = 30;
constexpr uint32_t kPairs = 1000;  // seeds of their signs
constexpr size_t kFirstLane = 5;   // where the first special value stands, and from one to the next
constexpr size_t kLaneStep = 20;
constexpr uint64_t kBadIndexEvery = 3;

uint64_t hash(uint64_t seed, uint64_t place) {
  uint64_t state = (seed << 32 | 0x9e37) + place * 0x9e3779b97f4a7c15u;
  state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
  state = (state ^ (state >> 27)) * 0x94d049bb133111ebu;
  return state ^ (state >> 31);
}

/// A whole number of the dtype's range, at most `limit` away from 0.
int64_t whole(uint32_t dtype, int64_t limit, uint64_t random) {
  const bool is_float = is_float_dtype(dtype);
  if (!is_float && dtype_bits(dtype) == 8) limit = std::min<int64_t>(limit, 127);
  if (!is_float && !ops::is_signed_dtype(dtype)) {
    return static_cast<int64_t>(random % static_cast<uint64_t>(limit + 1));
  }
  return static_cast<int64_t>(random % static_cast<uint64_t>(2 * limit + 1)) - limit;
}

/// The largest whole number whose sum (or product) with another is exact.
int64_t exact_limit(uint32_t dtype, bool product) {
  constexpr int64_t kMost = 1000;
  if (!is_float_dtype(dtype)) return kMost;
  const int digits = float_digits(dtype);
  const double limit =
      product ? std::floor(std::sqrt(std::ldexp(1.0, digits))) : std::ldexp(1.0, digits - 1) - 1;
  return std::min<int64_t>(kMost, static_cast<int64_t>(limit));
}

double full_mantissa(uint64_t random, int lowest_exponent, uint64_t exponent_count) {
  const double fraction = std::ldexp(static_cast<double>(random >> 11), -53);
  return std::ldexp(1 + fraction, static_cast<int>(random % exponent_count) + lowest_exponent);
}

std::array<double, kSpecialCount> specials(uint32_t dtype) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double largest = float_max(dtype);
  const double tiniest_normal = float_min_normal(dtype);
  return {std::numeric_limits<double>::quiet_NaN(),
          kInfinity,
          -kInfinity,
          0.0,
          -0.0,
          1.0,
          -1.0,
          2.5,
          -2.5,
          0.5,
          largest,
          -largest,
          -largest / 4,
          std::sqrt(largest),
          tiniest_normal,
          -tiniest_normal,
          tiniest_normal / 2,
          std::ldexp(-tiniest_normal, 1 - float_digits(dtype))};
}

/// Every other value within [-4, 4]; the others from where exp is subnormal to where it overflows.
double sweep_value(uint32_t dtype, uint64_t place, uint64_t random) {
  const double share = std::ldexp(static_cast<double>(random >> 11), -53);
  if (place % 2 == 0) return share * 8 - 4;
  const double low = std::log(float_min_normal(dtype)) - float_digits(dtype) / 3.0;
  const double high = std::log(float_max(dtype)) * 1.05;
  return low + share * (high - low);
}

/// Those just out of range, and those that are so far out that a cut to 32 bits would hide it.
int64_t bad_index(uint32_t dtype, int64_t extent, uint64_t place) {
  const bool is_long = dtype_bits(dtype) == 64;
  constexpr int64_t kBeyond32 = (int64_t{1} << 32) + 1;
  switch (place / kBadIndexEvery % 4) {
    case 0:
      return is_long ? kBeyond32 : std::numeric_limits<int32_t>::max();
    case 1:
      return is_long ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int32_t>::min();
    case 2:
      return extent;
    default:
      return -extent - 1;
  }
}

/// NaN, both infinities and the largest, each in its own place; nullopt: a place of none.
std::optional<double> lane_value(uint32_t dtype, FillKind kind, uint64_t place) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double values[] = {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity,
                           float_max(dtype)};
  const uint64_t lane = (place - kFirstLane) / kLaneStep;
  if (place < kFirstLane || (place - kFirstLane) % kLaneStep != 0) return std::nullopt;
  if (lane >= std::size(values) - (kind == FillKind::kInfiniteLane ? 1 : 0)) return std::nullopt;
  return values[lane];
}

/// Few enough for every dtype.
int64_t rising(uint64_t place) { return std::min<int64_t>(static_cast<int64_t>(place / 2), 100); }

bool random_bool(FillKind kind, uint64_t random) {
  if (kind == FillKind::kFew) return (random & 3) != 0;
  return kind == FillKind::kSmall ? (random & 7) == 0 : (random & 1) != 0;
}

/// [-1, 1), in steps of 2^-52.
double centred(uint64_t random) { return std::ldexp(static_cast<double>(random >> 11), -52) - 1; }

/// Functions have a domain, and places where they are hard.
std::optional<double> domain_value(uint32_t dtype, FillKind kind, uint64_t place, uint64_t random,
                                   double sign) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (kind) {
    case FillKind::kFew:
      return static_cast<double>(1 + (random >> 9 & 1));
    case FillKind::kOdd:
      if (random % 5 == 0) return std::nullopt;
      return random % 5 < 3 ? std::numeric_limits<double>::quiet_NaN() : sign * kInfinity;
    case FillKind::kFactor:
      return std::ldexp(sign, static_cast<int>(random % 3) - 1);
    case FillKind::kUnit:
      return centred(random);
    case FillKind::kAboveOne:
      return full_mantissa(random, 0, 12);
    case FillKind::kMagnitude: {
      const int half = std::ilogb(float_max(dtype)) / 2;
      return full_mantissa(random, -half, static_cast<uint64_t>(2 * half));
    }
    case FillKind::kAngle:
      return centred(random) * (place % 2 == 0 ? 4 : 2000);
    case FillKind::kSmall:
      return static_cast<double>(random % 65);
    case FillKind::kRising:
      return static_cast<double>(rising(place));
    default:
      return std::nullopt;
  }
}

double float_value(uint32_t dtype, const Fill& fill, uint64_t place, uint64_t random,
                   uint64_t pair) {
  // One of each pair is negative: by chance there could be too many, and relu would prove nothing.
  const double sign = ((pair >> 8) + place) % 2 != 0 ? -1 : 1;
  if (const auto value = domain_value(dtype, fill.kind, place, random, sign)) return *value;
  switch (fill.kind) {
    case FillKind::kSum:
      return static_cast<double>(whole(dtype, exact_limit(dtype, false), random));
    case FillKind::kProduct:
      return static_cast<double>(whole(dtype, exact_limit(dtype, true), random));
    case FillKind::kInfiniteLane:
    case FillKind::kSpecialLane:
      if (const auto value = lane_value(dtype, fill.kind, place)) return *value;
      [[fallthrough]];
    case FillKind::kTerm:
      return static_cast<double>(whole(dtype, kTermLimit, random));
    case FillKind::kSquare:
      return static_cast<double>((random % 16) * (random % 16));
    case FillKind::kPower:
      return sign * std::ldexp(1.0, static_cast<int>(random % 4));
    case FillKind::kPositivePower:
      return std::ldexp(1.0, 2 * static_cast<int>(random % 3));
    case FillKind::kPositive:
      return full_mantissa(random, -4, 8);
    case FillKind::kWide:
      return sign * full_mantissa(random, -2, 16);
    case FillKind::kExponent:
    case FillKind::kTame:
      return std::ldexp(static_cast<double>(random >> 11), -50) - 4;
    case FillKind::kSweep:
      return sweep_value(dtype, place, random);
    case FillKind::kMinusInfinity:
      return -std::numeric_limits<double>::infinity();
    case FillKind::kHalfZero:
      return (random >> 9 & 1) != 0 ? sign * (1 + static_cast<double>(random % 7)) : 0;
    case FillKind::kSpecialRow:
      return specials(dtype)[place / kSpecialCount % kSpecialCount];
    case FillKind::kSpecialColumn:
      return specials(dtype)[place % kSpecialCount];
    default:
      return sign * full_mantissa(random, -4, 8);
  }
}

int64_t integer_value(uint32_t dtype, const Fill& fill, uint64_t place, uint64_t random) {
  const auto extent = static_cast<uint64_t>(std::max<int64_t>(fill.extent, 1));
  switch (fill.kind) {
    case FillKind::kSum:
    case FillKind::kProduct:
      return whole(dtype, exact_limit(dtype, false), random);
    case FillKind::kTerm:
    case FillKind::kTame:
      return whole(dtype, kTermLimit, random);
    case FillKind::kPower:
      return int64_t{1} << random % 4;
    case FillKind::kHalfZero:
      return (random >> 9 & 1) != 0 ? 1 + static_cast<int64_t>(random % 7) : 0;
    case FillKind::kFew:
      return 1 + static_cast<int64_t>(random >> 9 & 1);
    case FillKind::kFactor:
      return 1 + 2 * static_cast<int64_t>(random % 8);
    case FillKind::kAboveOne:
      return 1 + static_cast<int64_t>(random % 126);
    case FillKind::kSmall:
      return static_cast<int64_t>(random % (dtype_bits(dtype) + 1));
    case FillKind::kRising:
      return rising(place);
    case FillKind::kBadIndex:
      if (place % kBadIndexEvery == 2) return bad_index(dtype, fill.extent, place);
      [[fallthrough]];
    case FillKind::kIndex:
      return static_cast<int64_t>(random % (2 * extent)) - static_cast<int64_t>(extent);
    default:
      // All bits, and now and then what divisions stumble over.
      if (place % 11 == 3) return 0;
      if (place % 11 == 4) return -1;
      if (place % 11 == 5) return std::numeric_limits<int64_t>::min() >> (64 - dtype_bits(dtype));
      return static_cast<int64_t>(random);
  }
}

}  // namespace

int64_t special_count() { return kSpecialCount; }

int float_digits(uint32_t dtype) {
  switch (dtype) {
    case BP_DTYPE_F16:
      return 11;
    case BP_DTYPE_BF16:
      return 8;
    case BP_DTYPE_F32:
      return 24;
    default:
      return 53;
  }
}

double float_max(uint32_t dtype) {
  const int exponent = dtype == BP_DTYPE_F16 ? 16 : dtype == BP_DTYPE_F64 ? 1024 : 128;
  return std::ldexp(2 - std::ldexp(1.0, 1 - float_digits(dtype)), exponent - 1);
}

double float_min_normal(uint32_t dtype) {
  return std::ldexp(1.0, dtype == BP_DTYPE_F16 ? -14 : dtype == BP_DTYPE_F64 ? -1022 : -126);
}

OracleTensor make_values(uint32_t dtype, const Dims& sizes, const Fill& fill, uint32_t seed) {
  const auto count = static_cast<size_t>(element_count({sizes.data(), sizes.size()}));
  if (is_float_dtype(dtype)) {
    std::vector<double> values(count);
    for (size_t i = 0; i < count; ++i) {
      values[i] = float_value(dtype, fill, i, hash(seed, i), hash(seed + kPairs, i / 2));
    }
    return OracleTensor::from_f64(dtype, sizes, values);
  }
  std::vector<int64_t> values(count);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t random = hash(seed, i);
    if (dtype != BP_DTYPE_BOOL) {
      values[i] = integer_value(dtype, fill, i, random);
    } else {
      values[i] = random_bool(fill.kind, random >> 9) ? 1 : 0;
    }
  }
  return OracleTensor::from_i64(dtype, sizes, values);
}

}  // namespace bp::conform
