// SPDX-License-Identifier: Apache-2.0
//
// cast between all pairs of bool, integers and floats, in two steps with a small block between: to
// f64, i64 or u64, which hold every value of the input exactly, and from there with one rounding.
// The dtype of the result comes from an attribute, which no dtype mask covers: that is what
// `supports` is for.
#include <algorithm>
#include <cmath>

#include "kernels/elements.hpp"
#include "kernels/loops.hpp"

namespace bp::npu {
namespace {

constexpr int64_t kBlock = 128;

template <class T>
using Wide = std::conditional_t<kIsFloat<T>, double,
                                std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;

/// Truncates and saturates; NaN gives 0.
template <class To>
To saturate(double value) {
  using Limits = std::numeric_limits<To>;
  if (std::isnan(value)) return 0;
  // Limits::max() may not be a double; the power of two above it is, and is the first too large.
  if (value >= std::ldexp(1.0, Limits::digits)) return Limits::max();
  if (value <= static_cast<double>(Limits::min())) return Limits::min();
  return static_cast<To>(value);
}

/// Where the bits do not fit in f64, those that are cut off leave a mark in the last one, so that a
/// second rounding to fewer bits gives what one rounding would.
double to_odd_double(uint64_t magnitude) {
  constexpr uint64_t kCut = (1 << 11) - 1;
  if (magnitude >> 53 != 0 && (magnitude & kCut) != 0) magnitude = (magnitude & ~kCut) | (kCut + 1);
  return static_cast<double>(magnitude);
}
double to_odd_double(int64_t value) {
  if (value >= 0) return to_odd_double(static_cast<uint64_t>(value));
  return -to_odd_double(-static_cast<uint64_t>(value));
}
double to_odd_double(double value) { return value; }

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != 0;  // true for NaN
  } else if constexpr (kIsHalf<To>) {
    return store_double<To>(to_odd_double(value));
  } else if constexpr (std::is_same_v<From, double> && std::is_integral_v<To>) {
    return saturate<To>(value);
  } else {
    return static_cast<To>(value);  // integers wrap
  }
}

template <class From>
void store_block(const From* block, int64_t count, const Tensor& y, int64_t offset) {
  Elements::with_type(y.dtype, [&]<class To>(To) {
    To* const out = y.as<To>() + offset;
    for (int64_t i = 0; i < count; ++i) out[i] = convert<To>(block[i]);
  });
}

void cast(const Launch& launch) {
  const Tensor& x = launch.input(0);
  const Tensor& y = launch.output();
  Elements::with_type(x.dtype, [&]<class From>(From) {
    for_each_row(broadcast_nest(y, x), [&](const auto& offsets, int64_t count, const auto& steps) {
      const From* const in = x.as<From>() + offsets[1];
      Wide<From> block[kBlock];
      for (int64_t begin = 0; begin < count; begin += kBlock) {
        const int64_t length = std::min(kBlock, count - begin);
        for (int64_t i = 0; i < length; ++i) {
          block[i] = static_cast<Wide<From>>(load(in[(begin + i) * steps[1]]));
        }
        store_block(block, length, y, offsets[0] + begin);
      }
    });
  });
}

const char* why_not(const bp_kernel_query& query) {
  const uint32_t dtype = sdk::output_info(query).dtype;
  const bool known = dtype < 64 && (Elements::kMask & BP_DTYPE_BIT(dtype)) != 0;
  return known ? nullptr : "casts only to bool, integers and floats of 16 bits or more";
}

constexpr bp_kernel kKernels[] = {describe({.name = "cast_any",
                                            .op = "cast",
                                            .dtypes = Elements::kDtypes,
                                            .arg_rules = sdk::kAnyStrides,
                                            .supports = sdk::supports_slot<why_not>,
                                            .launch = launch<cast>})};

}  // namespace

BP_SDK_KERNELS(cast, kKernels);

}  // namespace bp::npu
