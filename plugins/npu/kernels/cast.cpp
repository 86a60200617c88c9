// SPDX-License-Identifier: Apache-2.0
//
// cast between f32, i32, i64, u8 and bool. The dtype of the result comes from an attribute, which
// no dtype mask covers: that is what `supports` is for.
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/launch.hpp"
#include "kernels/loops.hpp"

namespace bp::npu {
namespace {

/// Truncates and saturates; NaN gives 0.
template <class To>
To saturate(float value) {
  using Limits = std::numeric_limits<To>;
  if (std::isnan(value)) return 0;
  // Limits::max() may not be a float; the power of two above it is, and is the first too large.
  const float too_large = std::ldexp(1.0f, Limits::digits);
  if (value >= too_large) return Limits::max();
  if (value <= static_cast<float>(Limits::min())) return Limits::min();
  return static_cast<To>(value);
}

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != 0;  // true for NaN
  } else if constexpr (std::is_same_v<From, float> && std::is_integral_v<To>) {
    return saturate<To>(value);
  } else {
    return static_cast<To>(value);  // integers wrap
  }
}

template <class To, class From>
void cast_elements(const Tensor& x, const Tensor& y) {
  for_each_row(broadcast_nest(y, x), [&](const auto& offsets, int64_t count, const auto& steps) {
    To* const out = y.as<To>() + offsets[0];
    const From* const in = x.as<From>() + offsets[1];
    for (int64_t i = 0; i < count; ++i) out[i] = convert<To>(in[i * steps[1]]);
  });
}

void cast(const Launch& launch) {
  const Tensor& x = launch.input(0);
  const Tensor& y = launch.output();
  CastTypes::with_type(x.dtype, [&]<class From>(From) {
    CastTypes::with_type(y.dtype, [&]<class To>(To) { cast_elements<To, From>(x, y); });
  });
}

const char* why_not(const bp_kernel_query& query) {
  const bool known = (CastTypes::kMask & BP_DTYPE_BIT(sdk::output_info(query).dtype)) != 0;
  return known ? nullptr : "casts only to f32, i32, i64, u8 and bool";
}

constexpr bp_kernel kKernels[] = {sdk::describe({.name = "cast_number",
                                                 .op = "cast",
                                                 .dtypes = CastTypes::kDtypes,
                                                 .arg_rules = sdk::kAnyStrides,
                                                 .supports = sdk::supports_slot<why_not>,
                                                 .launch = launch<cast>})};

}  // namespace

BP_SDK_KERNELS(cast, kKernels);

}  // namespace bp::npu
