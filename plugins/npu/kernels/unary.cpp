// SPDX-License-Identifier: Apache-2.0
//
// Elementwise functions of one input: relu, exp, sqrt, reciprocal. The simplest kernels: begin
// here.
#include <cmath>

#include "kernels/launch.hpp"
#include "kernels/loops.hpp"

namespace bp::npu {
namespace {

float relu(float x) { return x < 0 ? 0 : x; }  // NaN stays NaN
float exponential(float x) { return std::exp(x); }
float square_root(float x) { return std::sqrt(x); }
float reciprocal(float x) { return 1 / x; }

template <float (*function)(float)>
void apply(const Launch& launch) {
  const Tensor& x = launch.input(0);
  const Tensor& y = launch.output();
  for_each_row(broadcast_nest(y, x), [&](const auto& offsets, int64_t count, const auto& steps) {
    float* const out = y.as<float>() + offsets[0];
    const float* const in = x.as<float>() + offsets[1];
    for (int64_t i = 0; i < count; ++i) out[i] = function(in[i * steps[1]]);
  });
}

template <float (*function)(float)>
constexpr bp_kernel unary_kernel(std::string_view op, std::string_view name) {
  return sdk::describe({.name = name,
                        .op = op,
                        .dtypes = kFloat32,
                        .arg_rules = sdk::kAnyStrides,
                        .launch = launch<apply<function>>});
}

constexpr bp_kernel kKernels[] = {
    unary_kernel<relu>("relu", "relu_f32"),
    unary_kernel<exponential>("exp", "exp_f32"),
    unary_kernel<square_root>("sqrt", "sqrt_f32"),
    unary_kernel<reciprocal>("reciprocal", "reciprocal_f32"),
};

}  // namespace

BP_SDK_KERNELS(unary, kKernels);

}  // namespace bp::npu
