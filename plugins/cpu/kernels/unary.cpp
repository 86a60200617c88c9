// SPDX-License-Identifier: Apache-2.0
//
// relu, exp, sqrt and reciprocal with any strides. Half types are computed in f32 and rounded once.
#include <cmath>

#include "element.hpp"
#include "elementwise.hpp"
#include "kernel_support.hpp"

namespace bp::cpu {
namespace {

// Each gives one row of elements of type T.
template <class T, class Function>
void for_row(void* y_data, const void* x_data, int64_t x_stride, int64_t count,
             const Function& function) {
  T* const y = static_cast<T*>(y_data);
  const T* const x = static_cast<const T*>(x_data);
  if (x_stride == 1) {
    for (int64_t i = 0; i < count; ++i) y[i] = store<T>(function(load(x[i])));
  } else {
    for (int64_t i = 0; i < count; ++i) y[i] = store<T>(function(load(x[i * x_stride])));
  }
}

template <class T>
struct Relu {
  static void run(void* y, const void* x, int64_t x_stride, int64_t count) {
    using C = Compute<T>;
    // Asked this way round, NaN stays NaN.
    for_row<T>(y, x, x_stride, count, [](C value) { return value <= C{0} ? C{0} : value; });
  }
};

template <class T>
struct Exp {
  static void run(void* y, const void* x, int64_t x_stride, int64_t count) {
    for_row<T>(y, x, x_stride, count, [](Compute<T> value) { return std::exp(value); });
  }
};

template <class T>
struct Sqrt {
  static void run(void* y, const void* x, int64_t x_stride, int64_t count) {
    for_row<T>(y, x, x_stride, count, [](Compute<T> value) { return std::sqrt(value); });
  }
};

template <class T>
struct Reciprocal {
  static void run(void* y, const void* x, int64_t x_stride, int64_t count) {
    for_row<T>(y, x, x_stride, count, [](Compute<T> value) { return Compute<T>{1} / value; });
  }
};

constexpr auto kReluRows = signed_table<Relu>();
constexpr auto kExpRows = float_table<Exp>();
constexpr auto kSqrtRows = float_table<Sqrt>();
constexpr auto kReciprocalRows = float_table<Reciprocal>();

template <const DtypeTable<UnaryRow>& Rows, int64_t ItemCost>
bp_status launch(const bp_launch_args& args) {
  return run_unary(args, Rows[output_of(args).dtype], ItemCost);
}

constexpr uint64_t kReluMasks[] = {kFloatTypes | kSignedIntTypes};
constexpr uint64_t kFloatMasks[] = {kFloatTypes};

template <const DtypeTable<UnaryRow>& Rows, int64_t ItemCost>
constexpr bp_kernel unary_kernel(std::string_view name, std::string_view op,
                                 const uint64_t (&masks)[1]) {
  return sdk::describe({.name = name,
                        .op = op,
                        .dtypes = masks,
                        .arg_rules = sdk::kAnyStrides,
                        .launch = launch_slot<launch<Rows, ItemCost>>});
}

constexpr bp_kernel kKernels[] = {
    unary_kernel<kReluRows, 1>("relu_loop", "relu", kReluMasks),
    unary_kernel<kExpRows, 16>("exp_loop", "exp", kFloatMasks),
    unary_kernel<kSqrtRows, 4>("sqrt_loop", "sqrt", kFloatMasks),
    unary_kernel<kReciprocalRows, 4>("reciprocal_loop", "reciprocal", kFloatMasks)};

}  // namespace

BP_SDK_KERNELS(unary, kKernels);

}  // namespace bp::cpu
