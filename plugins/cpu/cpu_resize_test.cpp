// SPDX-License-Identifier: Apache-2.0
//
// resize against f64 loops: which dimensions change and which stay decides how rows are made.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "backplane/ops/resizing.h"
#include "plugins/cpu/cpu_test_support.hpp"

namespace bp::cpu_test {
namespace {

struct Resize {
  Sizes x;
  Sizes y;
  std::string_view mode = "linear";
  std::string_view coordinates = "half_pixel";
  Values roi = {};  // begins, then ends
  double extrapolation = 0;
};

struct Tap {
  int64_t index;
  double weight;
};

// What an output takes of one dimension; none: it lies outside.
std::vector<Tap> taps_of(const Resize& r, size_t d, int64_t out) {
  if (r.x[d] == r.y[d] && (r.roi.empty() || (r.roi[d] == 0 && r.roi[r.x.size() + d] == 1))) {
    return {{out, 1}};
  }
  const auto in = static_cast<double>(r.x[d]);
  const double scale = static_cast<double>(r.y[d]) / in;
  const auto at = static_cast<double>(out);
  double place = r.coordinates == "asymmetric" ? at / scale : (at + 0.5) / scale - 0.5;
  if (r.coordinates == "tf_crop_and_resize") {
    const double begin = r.roi[d];
    const double end = r.roi[r.x.size() + d];
    place = begin * (in - 1) + at * (end - begin) * (in - 1) / static_cast<double>(r.y[d] - 1);
    if (place < 0 || place > in - 1) return {};
  }
  const auto clamped = [&](double index) {
    return static_cast<int64_t>(std::clamp(index, 0.0, in - 1));
  };
  const double below = std::floor(place);
  if (r.mode == "nearest") return {{clamped(below), 1}};
  const double part = place - below;
  if (r.mode == "linear") return {{clamped(below), 1 - part}, {clamped(below + 1), part}};
  std::vector<Tap> taps;
  for (int k = -1; k <= 2; ++k) {
    const double far = std::fabs(part - k);
    constexpr double kA = -0.75;
    const double weight = far <= 1 ? ((kA + 2) * far - (kA + 3)) * far * far + 1
                                   : ((kA * far - 5 * kA) * far + 8 * kA) * far - 4 * kA;
    taps.push_back({clamped(below + k), weight});
  }
  return taps;
}

double expected_at(const Resize& r, const Tensor& x, const Sizes& out) {
  std::vector<std::vector<Tap>> taps;
  Sizes counts;
  for (size_t d = 0; d < out.size(); ++d) {
    taps.push_back(taps_of(r, d, out[d]));
    if (taps.back().empty()) return r.extrapolation;
    counts.push_back(static_cast<int64_t>(taps.back().size()));
  }
  double sum = 0;
  for_each_index(counts, [&](const Sizes& tap) {
    Sizes at;
    double weight = 1;
    for (size_t d = 0; d < tap.size(); ++d) {
      const Tap& here = taps[d][static_cast<size_t>(tap[d])];
      at.push_back(here.index);
      weight *= here.weight;
    }
    sum += weight * x.at(at);
  });
  return sum;
}

void expect_resized(Device& device, const Resize& r, uint32_t dtype = BP_DTYPE_F32) {
  SCOPED_TRACE(::testing::PrintToString(r.x) + " to " + ::testing::PrintToString(r.y) + ", " +
               std::string(r.mode));
  const Tensor x = make_random(dtype, r.x, 51, -100, 100);
  bp_attrs_resize attrs = bp_attrs_resize_defaults();
  attrs.mode = {r.mode.data(), r.mode.size()};
  attrs.coordinates = {r.coordinates.data(), r.coordinates.size()};
  attrs.nearest_mode = {"floor", 5};
  attrs.extrapolation_value = r.extrapolation;
  const auto rank = static_cast<int64_t>(r.x.size());
  const Tensor sizes = make_tensor(BP_DTYPE_I64, {rank}, Values(r.y.begin(), r.y.end()));
  const Tensor roi = r.roi.empty() ? Tensor{} : make_tensor(BP_DTYPE_F32, {2 * rank}, r.roi);
  const Outcome outcome =
      run(device, {"resize", {x, sizes, {}, roi}, make_output(dtype, r.y), &attrs});
  ASSERT_EQ(outcome.status, BP_OK);
  EXPECT_EQ(outcome.kernel, "resize_tables");
  const double unit = dtype == BP_DTYPE_F32 ? 1e-6 : dtype == BP_DTYPE_F16 ? 1e-3 : 1e-15;
  // The oracle is slow: of many elements it sees one in a prime number.
  const int64_t step = element_count(r.y) > 1000 ? 31 : 1;
  int64_t count = 0;
  for_each_index(r.y, [&](const Sizes& at) {
    if (count++ % step != 0) return;
    const double expected = expected_at(r, x, at);
    const double found = outcome.output.at(at);
    if (dtype == BP_DTYPE_I8) {
      ASSERT_NEAR(found, expected, 0.5 + 1e-6);
    } else {
      ASSERT_NEAR(found, expected, unit * 200) << ::testing::PrintToString(at);
    }
  });
}

// Images in both orders, with channels round what moves together, and rows of several pieces.
std::vector<Resize> resizes() {
  return {
      {.x = {1, 3, 5, 6}, .y = {1, 3, 10, 12}},
      {.x = {2, 5, 6, 3}, .y = {2, 10, 12, 3}},
      {.x = {1, 4, 5, 256}, .y = {1, 7, 11, 256}},
      {.x = {1, 4, 5, 257}, .y = {1, 7, 11, 257}},
      {.x = {1, 3, 70, 64}, .y = {1, 2, 141, 64}},
      {.x = {2, 3, 4, 5, 2}, .y = {2, 3, 8, 10, 4}},
      {.x = {2, 3, 4, 2, 8}, .y = {2, 6, 4, 2, 8}},
      {.x = {3, 4, 5}, .y = {3, 4, 5}},
      {.x = {1, 1, 7}, .y = {1, 1, 21}},
      {.x = {6, 5}, .y = {3, 5}},
      {.x = {1, 2, 3, 2500}, .y = {1, 2, 6, 5000}},
      {.x = {4, 3, 1, 1}, .y = {4, 3, 3, 4}},
      {.x = {1, 5, 300, 8}, .y = {1, 5, 1, 8}},
  };
}

TEST(CpuResize, EveryMode_MatchesF64) {
  for (const char* threads : {"1", "2"}) {
    Device device(threads);
    for (Resize r : resizes()) {
      for (const std::string_view mode : {"nearest", "linear", "cubic"}) {
        for (const std::string_view coordinates : {"half_pixel", "asymmetric"}) {
          r.mode = mode;
          r.coordinates = coordinates;
          expect_resized(device, r);
        }
      }
    }
  }
}

TEST(CpuResize, OtherTypes_MatchF64) {
  Device device;
  for (const uint32_t dtype : {BP_DTYPE_F16, BP_DTYPE_F64, BP_DTYPE_I8}) {
    for (const std::string_view mode : {"nearest", "linear"}) {
      expect_resized(device, {.x = {1, 3, 5, 6}, .y = {1, 3, 10, 12}, .mode = mode}, dtype);
      expect_resized(device, {.x = {2, 5, 6, 3}, .y = {2, 10, 9, 3}, .mode = mode}, dtype);
    }
  }
}

// Rows and columns beyond the image, with places of one and of several elements.
TEST(CpuResize, CropBeyondTheImage_GivesTheExtrapolationValue) {
  Device device;
  for (const std::string_view mode : {"nearest", "linear"}) {
    expect_resized(device, {.x = {1, 2, 5, 6},
                            .y = {1, 2, 8, 9},
                            .mode = mode,
                            .coordinates = "tf_crop_and_resize",
                            .roi = {0, 0, -0.25, 0.125, 1, 1, 1, 1.25},
                            .extrapolation = -7});
    expect_resized(device, {.x = {1, 5, 6, 4},
                            .y = {1, 8, 9, 4},
                            .mode = mode,
                            .coordinates = "tf_crop_and_resize",
                            .roi = {0, -0.25, 0.125, 0, 1, 1, 1.25, 1},
                            .extrapolation = 3});
  }
}

}  // namespace
}  // namespace bp::cpu_test
