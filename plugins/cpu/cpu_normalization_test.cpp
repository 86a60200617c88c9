// SPDX-License-Identifier: Apache-2.0
//
// layer_norm, rms_norm, instance_norm and group_norm against f64 loops, above all where a row
// hardly varies, so that the last bit of its mean would show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "backplane/ops/attributes.h"
#include "plugins/cpu/cpu_test_support.hpp"

namespace bp::cpu_test {
namespace {

/// A tensor of whole rows, normalised by an operator whose attributes are at their defaults but for
/// epsilon.
struct Rows {
  std::string op;
  Tensor x;
  int64_t row_length;
  int64_t scale_length;
  double epsilon = 1e-5;
};

Values normalized(Device& device, const Rows& rows) {
  bp_attrs_layer_norm layer = bp_attrs_layer_norm_defaults();
  bp_attrs_rms_norm rms = bp_attrs_rms_norm_defaults();
  bp_attrs_instance_norm instance = bp_attrs_instance_norm_defaults();
  bp_attrs_group_norm group = bp_attrs_group_norm_defaults();
  layer.epsilon = rms.epsilon = instance.epsilon = group.epsilon = rows.epsilon;
  group.num_groups = 2;
  const void* const attrs = rows.op == "layer_norm"      ? static_cast<const void*>(&layer)
                            : rows.op == "rms_norm"      ? static_cast<const void*>(&rms)
                            : rows.op == "instance_norm" ? static_cast<const void*>(&instance)
                                                         : &group;
  const auto ones = Values(static_cast<size_t>(rows.scale_length), 1.0);
  std::vector<Tensor> inputs{rows.x, make_tensor(rows.x.dtype, {rows.scale_length}, ones)};
  if (rows.op != "rms_norm") {
    inputs.push_back(make_tensor(rows.x.dtype, {rows.scale_length}, Values(ones.size(), 0.0)));
  }
  const Tensor y = make_output(rows.x.dtype, rows.x.sizes);
  const Outcome outcome = run(device, {rows.op, inputs, y, attrs});
  EXPECT_EQ(outcome.status, BP_OK);
  EXPECT_EQ(outcome.kernel, rows.op + "_rows");
  return y.values();
}

/// Each operator with rows of `length` elements.
std::vector<Rows> each_operator(const std::function<Tensor(const Sizes&)>& make, int64_t length) {
  return {{"layer_norm", make({3, length}), length, length},
          {"instance_norm", make({2, 3, length}), length, 3},
          {"group_norm", make({2, 4, length / 2}), length / 2 * 2, 4}};
}

TEST(CpuNormalization, RowsOfEqualValues_AreZero) {
  Device device;
  for (const uint32_t dtype : {BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_F32, BP_DTYPE_F64}) {
    for (const double value : {0.0, 0.1, 1.0 / 3, 200.3, 1000.7, -54321.9}) {
      for (const int64_t length : {1, 7, 768, 1000, 2500}) {
        const auto make = [&](const Sizes& sizes) {
          return make_tensor(dtype, sizes,
                             Values(static_cast<size_t>(element_count(sizes)), value));
        };
        for (const Rows& rows : each_operator(make, length)) {
          if (rows.row_length == 0) continue;
          const Values y = normalized(device, rows);
          EXPECT_TRUE(
              std::all_of(y.begin(), y.end(), [](double e) { return std::fabs(e) <= 1e-6; }))
              << rows.op << " of " << value << ", dtype " << dtype << ", length " << length;
        }
      }
    }
  }
}

void expect_like_f64(Device& device, const Rows& rows, double tolerance) {
  const Values x = rows.x.values();
  const Values found = normalized(device, rows);
  const auto length = static_cast<size_t>(rows.row_length);
  for (size_t first = 0; first < x.size(); first += length) {
    double mean = 0;
    for (size_t i = first; i < first + length; ++i) mean += x[i] / static_cast<double>(length);
    if (rows.op == "rms_norm") mean = 0;
    double variance = rows.epsilon;
    for (size_t i = first; i < first + length; ++i) {
      variance += (x[i] - mean) * (x[i] - mean) / static_cast<double>(length);
    }
    for (size_t i = first; i < first + length; ++i) {
      ASSERT_NEAR(found[i], (x[i] - mean) / std::sqrt(variance), tolerance)
          << rows.op << ", dtype " << rows.x.dtype << ", length " << length;
    }
  }
}

TEST(CpuNormalization, LargeMeansWithSmallSpreads_MatchF64) {
  Device device;
  for (const double mean : {3.0, 1000.7, -70000.3}) {
    for (const double spread : {1e-3, 0.05, 4.0}) {
      for (const int64_t length : {9, 768, 2500}) {
        const auto make = [&](const Sizes& sizes) {
          return make_random(BP_DTYPE_F32, sizes, 11, mean - spread, mean + spread);
        };
        for (const Rows& rows : each_operator(make, length)) expect_like_f64(device, rows, 2e-6);
      }
    }
  }
}

TEST(CpuNormalization, EveryDtypeAndLength_MatchesF64) {
  Device device;
  for (const auto& [dtype, tolerance] : {std::pair{BP_DTYPE_F16, 0x1p-9},
                                         {BP_DTYPE_BF16, 0x1p-6},
                                         {BP_DTYPE_F32, 2e-6},
                                         {BP_DTYPE_F64, 1e-13}}) {
    for (const int64_t length : {2, 15, 33, 130, 1500}) {
      const auto make = [&, dtype = dtype](const Sizes& sizes) {
        return make_random(dtype, sizes, 5, -2, 3);
      };
      for (const Rows& rows : each_operator(make, length)) expect_like_f64(device, rows, tolerance);
      expect_like_f64(device, {"rms_norm", make({3, length}), length, length}, tolerance);
    }
  }
}

TEST(CpuNormalization, RowsThatAreNoNumbers_AreNan) {
  Device device;
  for (const double poison : {kNan, kInf}) {
    Values x(64, 1.0);
    x[5] = poison;
    EXPECT_THAT(normalized(device, {"layer_norm", make_tensor(BP_DTYPE_F32, {1, 64}, x), 64, 64}),
                ::testing::Each(::testing::IsNan()));
  }
}

}  // namespace
}  // namespace bp::cpu_test
