// SPDX-License-Identifier: Apache-2.0
//
// Elementwise functions of two inputs that broadcast to the output: add, sub, mul, div, max.
// Integers wrap, so they are computed unsigned, where overflow is defined.
#include <concepts>
#include <type_traits>

#include "kernels/elements.hpp"
#include "kernels/loops.hpp"

namespace bp::npu {
namespace {

using Plain = TypeList<float, int32_t, int64_t>;

/// What arithmetic on T is done in.
template <class T>
struct Wrapping {
  using Type = T;
};
template <std::signed_integral T>
struct Wrapping<T> {
  using Type = std::make_unsigned_t<T>;
};

struct Add {
  template <class T>
  static T apply(T a, T b) {
    using W = typename Wrapping<T>::Type;
    return static_cast<T>(static_cast<W>(a) + static_cast<W>(b));
  }
};

struct Sub {
  template <class T>
  static T apply(T a, T b) {
    using W = typename Wrapping<T>::Type;
    return static_cast<T>(static_cast<W>(a) - static_cast<W>(b));
  }
};

struct Mul {
  template <class T>
  static T apply(T a, T b) {
    using W = typename Wrapping<T>::Type;
    return static_cast<T>(static_cast<W>(a) * static_cast<W>(b));
  }
};

struct Div {
  template <std::floating_point T>
  static T apply(T a, T b) {
    return a / b;
  }
  /// Division by zero gives 0; the smallest integer over -1 wraps.
  template <std::integral T>
  static T apply(T a, T b) {
    if (b == 0) return 0;
    return b == -1 ? Sub::apply(T{0}, a) : static_cast<T>(a / b);
  }
};

struct Max {
  template <class T>
  static T apply(T a, T b) {
    return a > b || a != a ? a : b;  // NaN if either is
  }
};

template <class Function>
void apply(const Launch& launch) {
  const Tensor& a = launch.input(0);
  const Tensor& b = launch.input(1);
  const Tensor& y = launch.output();
  Plain::with_type(y.dtype, [&]<class T>(T) {
    for_each_row(broadcast_nest(y, a, b),
                 [&](const auto& offsets, int64_t count, const auto& steps) {
                   T* const out = y.as<T>() + offsets[0];
                   const T* const left = a.as<T>() + offsets[1];
                   const T* const right = b.as<T>() + offsets[2];
                   for (int64_t i = 0; i < count; ++i) {
                     out[i] = Function::template apply<T>(left[i * steps[1]], right[i * steps[2]]);
                   }
                 });
  });
}

template <class Function>
constexpr bp_kernel binary_kernel(std::string_view op, std::string_view name) {
  return sdk::describe({.name = name,
                        .op = op,
                        .dtypes = Plain::kDtypes,
                        .arg_rules = sdk::kAnyStrides,
                        .launch = launch<apply<Function>>});
}

constexpr bp_kernel kKernels[] = {
    binary_kernel<Add>("add", "add_number"), binary_kernel<Sub>("sub", "sub_number"),
    binary_kernel<Mul>("mul", "mul_number"), binary_kernel<Div>("div", "div_number"),
    binary_kernel<Max>("max", "max_number"),
};

}  // namespace

BP_SDK_KERNELS(binary, kKernels);

}  // namespace bp::npu
