// SPDX-License-Identifier: Apache-2.0
//
// quantize_linear against plain numbers: each type, parameters for all of x, for channels and along
// rows, ties, and values that saturate.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backplane/ops/attributes.h"
#include "plugins/cpu/cpu_test_support.hpp"

namespace bp::cpu_test {
namespace {

struct Limits {
  uint32_t dtype;
  double least;
  double most;
};
constexpr Limits kTypes[] = {{BP_DTYPE_I8, -128, 127},
                             {BP_DTYPE_U8, 0, 255},
                             {BP_DTYPE_I16, -32768, 32767},
                             {BP_DTYPE_U16, 0, 65535}};

// The quotient is f32, as the operator says.
double expected(double x, double scale, double zero, const Limits& limits) {
  const float quotient = static_cast<float>(x) / static_cast<float>(scale);
  if (std::isnan(quotient)) return 0;
  return std::clamp(std::nearbyint(static_cast<double>(quotient)) + zero, limits.least,
                    limits.most);
}

Outcome quantize(Device& device, const Tensor& x, const Tensor& scale, const Tensor& zero,
                 int64_t axis) {
  bp_attrs_quantize_linear attrs = bp_attrs_quantize_linear_defaults();
  attrs.axis = axis;
  return run(device,
             {"quantize_linear", {x, scale, zero}, make_output(zero.dtype, x.sizes), &attrs});
}

// x [3, 5, n] with parameters of `axis`, or one for all (-1).
void expect_quantized(Device& device, int64_t n, int64_t axis, const Limits& limits) {
  const Tensor x = make_random(BP_DTYPE_F32, {3, 5, n}, 7, -40, 400);
  const int64_t count = axis < 0 ? 1 : x.sizes[static_cast<size_t>(axis)];
  const Sizes sizes = axis < 0 ? Sizes{} : Sizes{count};
  const Tensor scale = make_random(BP_DTYPE_F32, sizes, 8, 0.1, 2);
  const Tensor zero = make_random(limits.dtype, sizes, 9, std::max(limits.least, -9.0), 9);
  const Outcome outcome = quantize(device, x, scale, zero, std::max<int64_t>(axis, 0));
  ASSERT_EQ(outcome.status, BP_OK);
  for_each_index(x.sizes, [&](const Sizes& index) {
    const int64_t at = axis < 0 ? 0 : index[static_cast<size_t>(axis)];
    ASSERT_EQ(outcome.output.at(index),
              expected(x.at(index), scale.at_flat(at), zero.at_flat(at), limits));
  });
}

TEST(CpuQuantize, EveryTypeAndAxis_MatchesPlainNumbers) {
  for (const char* threads : {"1", "2"}) {
    Device device(threads);
    for (const Limits& limits : kTypes) {
      for (const int64_t n : {1, 7, 33, 1000}) {
        for (const int64_t axis : {-1, 0, 1, 2}) expect_quantized(device, n, axis, limits);
      }
    }
  }
}

TEST(CpuQuantize, TiesAndFarValues_RoundToEvenAndSaturate) {
  Device device;
  const Values ties{0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5, 127.5, -0.0};
  const Values far{kInf, -kInf, kNan, 3e38, -3e38, 1e-45, 1e6, -1e6};
  Values values = ties;
  values.insert(values.end(), far.begin(), far.end());
  const auto count = static_cast<int64_t>(values.size());
  const Tensor x = make_tensor(BP_DTYPE_F32, {count}, values);
  for (const Limits& limits : kTypes) {
    for (const double zero : {0.0, 3.0}) {
      const Outcome outcome = quantize(device, x, make_tensor(BP_DTYPE_F32, {}, {1}),
                                       make_tensor(limits.dtype, {}, {zero}), 0);
      ASSERT_EQ(outcome.status, BP_OK);
      for (int64_t i = 0; i < count; ++i) {
        EXPECT_EQ(outcome.output.at_flat(i),
                  expected(values[static_cast<size_t>(i)], 1, zero, limits));
      }
    }
  }
}

}  // namespace
}  // namespace bp::cpu_test
