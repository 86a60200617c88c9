// SPDX-License-Identifier: Apache-2.0
//
// matmul and gemm against f64 loops: which kernel takes what, batches that broadcast, 1-D operands,
// strides of all kinds, alpha, beta and c, integers that wrap, empty products.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "backplane/ops/attributes.h"
#include "plugins/cpu/cpu_test_support.hpp"

namespace bp::cpu_test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kOnednn = "matmul_f32_onednn";
constexpr const char* kSkinny = "matmul_f32_skinny";
constexpr const char* kLoop = "matmul_loop";
constexpr const char* kStrips = "matmul_f64_strips";
constexpr const char* kThroughF32 = "matmul_through_f32";

double unit_of(uint32_t dtype) {
  switch (dtype) {
    case BP_DTYPE_F16:
      return 0x1p-11;
    case BP_DTYPE_BF16:
      return 0x1p-8;
    case BP_DTYPE_F32:
      return 0x1p-24;
    case BP_DTYPE_F64:
      return 0x1p-53;
    default:
      return 0;
  }
}

// Where row and column lie in an operand of rank >= 2 whose batch dimensions broadcast to `batch`.
Sizes index_in(const Tensor& t, const Sizes& batch, int64_t row, int64_t column) {
  const size_t own = t.sizes.size() - 2;
  Sizes index;
  for (size_t d = 0; d < own; ++d) {
    index.push_back(t.sizes[d] == 1 ? 0 : batch[batch.size() - own + d]);
  }
  index.push_back(row);
  index.push_back(column);
  return index;
}

// `y`: with all dimensions, also those that 1-D operands drop.
void expect_products(const Tensor& a, const Tensor& b, const Tensor& y) {
  const int64_t k_count = a.sizes.back();
  for_each_index(y.sizes, [&](const Sizes& index) {
    const Sizes batch(index.begin(), index.end() - 2);
    Sizes in_a = index_in(a, batch, index[index.size() - 2], 0);
    Sizes in_b = index_in(b, batch, 0, index.back());
    int64_t& column_of_a = in_a.back();
    int64_t& row_of_b = in_b[in_b.size() - 2];
    double expected = 0;
    double magnitude = 0;
    for (int64_t k = 0; k < k_count; ++k) {
      column_of_a = row_of_b = k;
      const double product = a.at(in_a) * b.at(in_b);
      expected += product;
      magnitude += std::fabs(product);
    }
    const double unit = unit_of(a.dtype);
    const double sum_unit = std::min(unit, 0x1p-24);
    ASSERT_NEAR(y.at(index), expected, unit * std::fabs(expected) + 8 * sum_unit * magnitude);
  });
}

Tensor with_sizes(const Tensor& contiguous, const Sizes& sizes) {
  Tensor result = make_output(contiguous.dtype, sizes);
  result.storage = contiguous.storage;
  return result;
}

Outcome expect_matmul(Device& device, const Tensor& a, const Tensor& b, const Sizes& batch,
                      const std::string& kernel = "", uint64_t constant_inputs = 0) {
  Sizes sizes = batch;
  sizes.insert(sizes.end(), {a.sizes[a.sizes.size() - 2], b.sizes.back()});
  const Call call{"matmul", {a, b}, make_output(a.dtype, sizes), nullptr, kernel, constant_inputs};
  Outcome outcome = run(device, call);
  EXPECT_EQ(outcome.status, BP_OK);
  if (outcome.status == BP_OK) expect_products(a, b, call.output);
  return outcome;
}

Tensor random_f32(const Sizes& sizes, uint32_t seed) {
  return make_random(BP_DTYPE_F32, sizes, seed);
}

TEST(CpuMatmul, EveryDtype_MatchesF64) {
  Device device("2");
  for (uint32_t dtype = BP_DTYPE_I8; dtype <= BP_DTYPE_F64; ++dtype) {
    const bool is_unsigned = dtype >= BP_DTYPE_U8 && dtype <= BP_DTYPE_U64;
    const double low = is_unsigned ? 0 : -2;
    const Tensor a = make_random(dtype, {5, 9}, 81, low, 3);
    const Tensor b = make_random(dtype, {9, 70}, 82, low, 3);
    expect_matmul(device, a, b, {}, kLoop);
    expect_matmul(device, make_random(dtype, {9, 5}, 81, low, 3).permuted({1, 0}), b, {}, kLoop);
    expect_matmul(device, a, make_random(dtype, {70, 9}, 82, low, 3).permuted({1, 0}), {}, kLoop);
    expect_matmul(device, a.flipped(1), b.flipped(0).flipped(1), {}, kLoop);
  }
}

TEST(CpuMatmul, DenseF32_GoesToOnednn) {
  for (const char* threads : {"1", "2"}) {
    Device device(threads);
    EXPECT_EQ(expect_matmul(device, random_f32({32, 48}, 1), random_f32({48, 24}, 2), {}).kernel,
              kOnednn);
    EXPECT_EQ(expect_matmul(device, random_f32({48, 32}, 1).permuted({1, 0}),
                            random_f32({24, 48}, 2).permuted({1, 0}), {})
                  .kernel,
              kOnednn);
    EXPECT_EQ(
        expect_matmul(device, random_f32({4, 16, 48}, 1), random_f32({4, 48, 24}, 2), {4}).kernel,
        kOnednn);
    EXPECT_EQ(
        expect_matmul(device, random_f32({4, 16, 48}, 1), random_f32({48, 24}, 2), {4}).kernel,
        kOnednn);
    EXPECT_EQ(
        expect_matmul(device, random_f32({16, 48}, 1), random_f32({4, 48, 24}, 2), {4}).kernel,
        kOnednn);
    EXPECT_EQ(
        expect_matmul(device, random_f32({2, 1, 16, 48}, 1), random_f32({1, 3, 48, 24}, 2), {2, 3})
            .kernel,
        kOnednn);
    EXPECT_EQ(expect_matmul(device, random_f32({5, 500}, 1), random_f32({500, 10}, 2), {}).kernel,
              kOnednn);
    EXPECT_EQ(expect_matmul(device, random_f32({500, 1}, 1), random_f32({1, 10}, 2), {}).kernel,
              kOnednn);
    // Columns out of a wider matrix, and a batch that repeats with stride 0.
    EXPECT_EQ(expect_matmul(device, random_f32({32, 4, 48}, 1).permuted({1, 0, 2}),
                            random_f32({4, 48, 24}, 2), {4})
                  .kernel,
              kOnednn);
    EXPECT_EQ(expect_matmul(device, random_f32({1, 16, 48}, 1).expanded({4, 16, 48}),
                            random_f32({4, 48, 24}, 2), {4})
                  .kernel,
              kOnednn);
  }
}

TEST(CpuMatmul, LargeEnoughForThreads_MatchesF64) {
  Device device("2");
  EXPECT_EQ(expect_matmul(device, random_f32({130, 140}, 3), random_f32({140, 150}, 4), {}).kernel,
            kOnednn);
  expect_matmul(device, make_random(BP_DTYPE_F64, {60, 70}, 3),
                make_random(BP_DTYPE_F64, {70, 50}, 4), {});
}

TEST(CpuMatmul, WhatOnednnLeaves_GoesToTheLoopWithAReason) {
  Device device;
  const auto reason = [&](const Tensor& a, const Tensor& b, const Sizes& batch) {
    const Outcome outcome = expect_matmul(device, a, b, batch);
    EXPECT_EQ(outcome.kernel, kLoop);
    return outcome.refusals.at(kOnednn);
  };
  EXPECT_THAT(reason(random_f32({6, 5}, 1), random_f32({5, 6}, 2), {}), HasSubstr("too small"));
  EXPECT_THAT(reason(random_f32({32, 48}, 1).flipped(0), random_f32({48, 24}, 2), {}),
              HasSubstr("dense"));
  EXPECT_THAT(reason(random_f32({32, 96}, 1).stepped(1, 2), random_f32({48, 24}, 2), {}),
              HasSubstr("dense"));
  EXPECT_THAT(reason(random_f32({32, 1}, 1).expanded({32, 48}), random_f32({48, 24}, 2), {}),
              HasSubstr("dense"));
  EXPECT_THAT(reason(random_f32({4, 16, 48}, 1).flipped(0), random_f32({4, 48, 24}, 2), {4}),
              HasSubstr("negative"));
  // y repeats along a dimension in which neither operand has data of its own.
  reason(random_f32({1, 16, 48}, 1).expanded({4, 16, 48}),
         random_f32({1, 48, 24}, 2).expanded({4, 48, 24}), {4});
}

TEST(CpuMatmul, FewRows_GoToTheVectorKernel) {
  Device device;
  // Sizes round every vector length and its multiples.
  for (const int64_t k : {1, 3, 4, 15, 16, 17, 33, 64, 131}) {
    for (const int64_t n : {1, 2, 7, 8, 31, 32, 65, 140}) {
      for (const int64_t m : {1, 2, 3, 4}) {
        const Tensor a = random_f32({m, k}, 1);
        EXPECT_EQ(expect_matmul(device, a, random_f32({k, n}, 2), {}).kernel, kSkinny);
        const Tensor columns = random_f32({n, k}, 3).permuted({1, 0});
        EXPECT_EQ(expect_matmul(device, a, columns, {}).kernel, kSkinny);
      }
    }
  }
}

// More columns than are taken at once, and shared by threads.
TEST(CpuMatmul, FewRowsOfManyColumns_MatchF64) {
  for (const char* threads : {"1", "2"}) {
    Device device(threads);
    for (const int64_t m : {1, 3}) {
      const Tensor a = random_f32({m, 43}, 1);
      EXPECT_EQ(expect_matmul(device, a, random_f32({43, 9001}, 2), {}).kernel, kSkinny);
      EXPECT_EQ(expect_matmul(device, a.flipped(0), random_f32({43, 9001}, 2), {}).kernel, kSkinny);
    }
  }
}

TEST(CpuMatmul, WhatTheVectorKernelLeaves_HasAReason) {
  Device device;
  const auto reason = [&](const Tensor& a, const Tensor& b, const Sizes& batch) {
    return expect_matmul(device, a, b, batch).refusals.at(kSkinny);
  };
  EXPECT_THAT(reason(random_f32({5, 8}, 1), random_f32({8, 6}, 2), {}), HasSubstr("4 rows"));
  EXPECT_THAT(reason(random_f32({2, 1, 8}, 1), random_f32({2, 8, 6}, 2), {2}),
              HasSubstr("batches"));
  EXPECT_THAT(reason(random_f32({1, 16}, 1).stepped(1, 2), random_f32({8, 6}, 2), {}),
              HasSubstr("gaps"));
  EXPECT_THAT(reason(random_f32({1, 8}, 1), random_f32({8, 12}, 2).stepped(1, 2), {}),
              HasSubstr("dense"));
}

TEST(CpuMatmul, OneColumn_IsTakenAsARow) {
  Device device;
  for (const int64_t m : {5, 9, 70, 131}) {
    const Tensor column = random_f32({33, 1}, 2);
    EXPECT_EQ(expect_matmul(device, random_f32({m, 33}, 1), column, {}).kernel, kSkinny);
    EXPECT_EQ(expect_matmul(device, random_f32({33, m}, 1).permuted({1, 0}), column, {}).kernel,
              kSkinny);
    EXPECT_EQ(expect_matmul(device, random_f32({m, 1, 33}, 1), column, {m}).kernel, kSkinny);
  }
}

// One behind the other, such terms would be rounded the same way each time.
TEST(CpuMatmul, ManyEqualTerms_AreSummedExactly) {
  Device device("2");
  const auto equal = [](const Sizes& s) { return make_random(BP_DTYPE_F32, s, 1, 0.7, 0.7); };
  const auto check = [&](const Tensor& a, const Tensor& b, const std::string& kernel) {
    const Tensor y = make_output(BP_DTYPE_F32, {a.sizes[0], b.sizes[1]});
    EXPECT_EQ(run(device, {"matmul", {a, b}, y, nullptr, kernel, 0}).status, BP_OK) << kernel;
    const double expected = static_cast<double>(b.sizes[0]) * 0.7f * double{0.7f};
    for_each_index(y.sizes, [&](const Sizes& index) {
      ASSERT_NEAR(y.at(index) / expected, 1, 3e-6) << kernel << b.sizes[0];
    });
  };
  for (const int64_t k : {5'000, 65'000, 200'001}) {
    for (const Tensor& b : {equal({k, 3}), equal({3, k}).permuted({1, 0})}) {
      check(equal({1, k}), b, kSkinny);
      check(equal({3, k}), b, kSkinny);
      check(equal({1, 2 * k}).stepped(1, 2), b, kLoop);
    }
    check(equal({7, k}), equal({k, 1}), kSkinny);
    check(equal({k, 7}).permuted({1, 0}), equal({k, 1}), kSkinny);
  }
  check(equal({3, 5'000}), equal({5'000, 1'500}), kSkinny);
}

// Weights given, packed by the kernel of f32, and widened for one that packs none: a few rows.
TEST(CpuMatmul, Halves_GoThroughF32) {
  for (const char* threads : {"1", "2"}) {
    Device device(threads);
    for (const uint32_t dtype : {BP_DTYPE_F16, BP_DTYPE_BF16}) {
      const auto expect = [&](const Tensor& a, const Tensor& b, const Sizes& batch) {
        for (const uint64_t constants : {0, 1, 2, 3}) {
          EXPECT_EQ(expect_matmul(device, a, b, batch, "", constants).kernel, kThroughF32);
        }
      };
      const auto random = [&](const Sizes& sizes) { return make_random(dtype, sizes, 7); };
      expect(random({33, 47}), random({47, 29}), {});
      expect(random({47, 33}).permuted({1, 0}), random({29, 47}).permuted({1, 0}), {});
      expect(random({4, 16, 48}), random({48, 24}), {4});
      expect(random({16, 48}), random({4, 48, 24}), {4});
      expect(random({4, 48, 16}).permuted({0, 2, 1}), random({48, 4, 24}).permuted({1, 0, 2}), {4});
      expect(random({2, 1, 16, 48}), random({1, 3, 48, 24}), {2, 3});
      for (const int64_t rows : {1, 3, 4}) {
        expect(random({rows, 131}), random({131, 65}), {});
        expect(random({rows, 131}), random({65, 131}).permuted({1, 0}), {});
      }
    }
    expect_matmul(device, make_random(BP_DTYPE_BF16, {130, 140}, 3),
                  make_random(BP_DTYPE_BF16, {140, 150}, 4), {}, kThroughF32, 2);
  }
}

// One rounding, to nearest even: below the smallest f16, at ties, and beyond the largest.
TEST(CpuMatmul, HalvesThroughF32_KeepSpecialValues) {
  Device device;
  const double tiny = 0x1p-24;
  const Values factors{65504, -65504, kInf, -kInf, kNan, tiny, 3 * tiny, 1};
  for (const int64_t rows : {int64_t{3}, int64_t{8}}) {
    Values a(static_cast<size_t>(rows) * 64, 0.0);
    for (size_t i = 0; i < a.size() / 64; ++i) a[i * 64] = factors[i + 8 - a.size() / 64];
    Values b(64 * 32, 1.0);
    for (size_t j = 0; j < 32; ++j) b[j] = j % 2 == 0 ? 0.5 : 2;
    for (const uint64_t constants : {0, 2}) {
      const Call call{
          "matmul",
          {make_tensor(BP_DTYPE_F16, {rows, 64}, a), make_tensor(BP_DTYPE_F16, {64, 32}, b)},
          make_output(BP_DTYPE_F16, {rows, 32}),
          nullptr,
          kThroughF32,
          constants};
      ASSERT_EQ(run(device, call).status, BP_OK);
      const Values by_half{32752, -32752, kInf, -kInf, kNan, 0, 2 * tiny, 0.5};
      const Values by_two{kInf, -kInf, kInf, -kInf, kNan, 2 * tiny, 6 * tiny, 2};
      for (int64_t i = 0; i < rows * 32; ++i) {
        const auto row = static_cast<size_t>(i / 32 + 8 - rows);
        const double expected = i % 2 == 0 ? by_half[row] : by_two[row];
        const double found = call.output.at_flat(i);
        EXPECT_TRUE(std::isnan(expected) ? std::isnan(found) : found == expected) << i;
      }
    }
  }
}

TEST(CpuMatmul, WhatF32Leaves_HalvesTakeTheLoopWithAReason) {
  Device device;
  const auto reason = [&](const Tensor& a, const Tensor& b, const Sizes& batch) {
    const Outcome outcome = expect_matmul(device, a, b, batch);
    EXPECT_EQ(outcome.kernel, kLoop);
    return outcome.refusals.at(kThroughF32);
  };
  const auto random = [](const Sizes& sizes) { return make_random(BP_DTYPE_F16, sizes, 7); };
  EXPECT_THAT(reason(random({6, 5}), random({5, 6}), {}), HasSubstr("no fast kernel"));
  EXPECT_THAT(reason(random({32, 48}).flipped(0), random({48, 24}), {}), HasSubstr("gaps"));
  EXPECT_THAT(reason(random({32, 1}).expanded({32, 48}), random({48, 24}), {}), HasSubstr("gaps"));
  EXPECT_THAT(reason(make_output(BP_DTYPE_F16, {0, 3}), random({3, 4}), {}), HasSubstr("empty"));
}

// Rows round the blocks of four and chunks of 64, columns round strips of any instruction set,
// terms round the parts that are summed at once.
TEST(CpuMatmul, F64_GoesByStrips) {
  for (const char* threads : {"1", "2"}) {
    Device device(threads);
    const auto expect = [&](const Tensor& a, const Tensor& b, const Sizes& batch) {
      EXPECT_EQ(expect_matmul(device, a, b, batch).kernel, kStrips);
    };
    const auto random = [](const Sizes& sizes) { return make_random(BP_DTYPE_F64, sizes, 7); };
    for (const int64_t m : {4, 5, 7, 64, 67, 130}) {
      for (const int64_t n : {1, 4, 8, 11, 12, 13, 24, 25, 50}) {
        expect(random({m, 515}), random({515, n}), {});
      }
    }
    for (const int64_t k : {1, 255, 256, 257}) expect(random({64, k}), random({k, 33}), {});
    expect(random({47, 33}).permuted({1, 0}), random({29, 47}).permuted({1, 0}), {});
    expect(random({33, 94}).stepped(1, 2).flipped(0), random({47, 29}).flipped(0).flipped(1), {});
    expect(random({33, 1}).expanded({33, 47}), random({47, 29}), {});
    expect(random({2, 1, 16, 48}), random({1, 3, 48, 24}), {2, 3});
    expect(random({3, 48, 16}).permuted({0, 2, 1}), random({48, 24}), {3});
    expect(random({160, 170}), random({170, 150}), {});
  }
}

TEST(CpuMatmul, F64ByStrips_KeepsSpecialValues) {
  Device device;
  const Values factors{kInf, -kInf, kNan, 0x1p-1074, 1e308};
  Values a(5 * 64, 0.0);
  for (size_t i = 0; i < 5; ++i) a[i * 64] = factors[i];
  const Call call{"matmul",
                  {make_tensor(BP_DTYPE_F64, {5, 64}, a),
                   make_tensor(BP_DTYPE_F64, {64, 13}, Values(64 * 13, 2.0))},
                  make_output(BP_DTYPE_F64, {5, 13}),
                  nullptr,
                  kStrips};
  ASSERT_EQ(run(device, call).status, BP_OK);
  for (int64_t j = 0; j < 13; ++j) {
    EXPECT_EQ(call.output.at({0, j}), kInf);
    EXPECT_EQ(call.output.at({1, j}), -kInf);
    EXPECT_TRUE(std::isnan(call.output.at({2, j})));
    EXPECT_EQ(call.output.at({3, j}), 0x1p-1073);
    EXPECT_EQ(call.output.at({4, j}), kInf);
  }
}

TEST(CpuMatmul, WhatStripsLeave_HasAReason) {
  Device device;
  const auto reason = [&](const Sizes& a, const Sizes& b) {
    const Outcome outcome =
        expect_matmul(device, make_random(BP_DTYPE_F64, a, 1), make_random(BP_DTYPE_F64, b, 2), {});
    EXPECT_EQ(outcome.kernel, kLoop);
    return outcome.refusals.at(kStrips);
  };
  EXPECT_THAT(reason({3, 64}, {64, 64}), HasSubstr("few rows"));
  EXPECT_THAT(reason({8, 15}, {15, 17}), HasSubstr("too small"));
  EXPECT_THAT(reason({8, 0}, {0, 17}), HasSubstr("empty"));
}

TEST(CpuMatmul, OneDimensionalOperands_FollowNumpy) {
  Device device;
  for (const int64_t k : {6, 600}) {
    const Tensor v = random_f32({k}, 5);
    const Tensor m = random_f32({2, 7, k}, 6);
    const Call right{"matmul", {m, v}, make_output(BP_DTYPE_F32, {2, 7})};
    EXPECT_EQ(run(device, right).status, BP_OK);
    expect_products(m, with_sizes(v, {k, 1}), with_sizes(right.output, {2, 7, 1}));
    const Tensor w = random_f32({2, k, 7}, 7);
    const Call left{"matmul", {v, w}, make_output(BP_DTYPE_F32, {2, 7})};
    EXPECT_EQ(run(device, left).status, BP_OK);
    expect_products(with_sizes(v, {1, k}), w, with_sizes(left.output, {2, 1, 7}));
    const Call dot{"matmul", {v, v.flipped(0)}, make_output(BP_DTYPE_F32, {})};
    EXPECT_EQ(run(device, dot).status, BP_OK);
    double expected = 0;
    for (int64_t i = 0; i < k; ++i) expected += v.at({i}) * v.at({k - 1 - i});
    EXPECT_NEAR(dot.output.at({}), expected, 1e-3);
  }
}

TEST(CpuMatmul, EmptyProducts_AreZero) {
  Device device;
  const Call call{"matmul",
                  {make_output(BP_DTYPE_F32, {3, 0}), make_output(BP_DTYPE_F32, {0, 4})},
                  make_output(BP_DTYPE_F32, {3, 4})};
  const Outcome outcome = run(device, call);
  EXPECT_EQ(outcome.status, BP_OK);
  EXPECT_EQ(outcome.kernel, kLoop);
  EXPECT_EQ(call.output.values(), Values(12, 0.0));
  expect_matmul(device, make_output(BP_DTYPE_F32, {0, 3}), random_f32({3, 4}, 1), {});
  expect_matmul(device, random_f32({4, 3}, 1), make_output(BP_DTYPE_F32, {3, 0}), {});
  expect_matmul(device, make_output(BP_DTYPE_F32, {0, 2, 3}), random_f32({3, 4}, 1), {0});
}

TEST(CpuMatmul, Integers_Wrap) {
  Device device;
  const Call small{
      "matmul",
      {make_tensor(BP_DTYPE_I8, {1, 2}, {100, 100}), make_tensor(BP_DTYPE_I8, {2, 1}, {2, 1})},
      make_output(BP_DTYPE_I8, {1, 1})};
  EXPECT_EQ(run(device, small).status, BP_OK);
  EXPECT_EQ(small.output.at_flat(0), 44);
  const Call large{
      "matmul",
      {make_tensor(BP_DTYPE_I32, {1, 1}, {65536}), make_tensor(BP_DTYPE_I32, {1, 1}, {65537})},
      make_output(BP_DTYPE_I32, {1, 1})};
  EXPECT_EQ(run(device, large).status, BP_OK);
  EXPECT_EQ(large.output.at_flat(0), 65536);
}

TEST(CpuMatmul, SizesThatDoNotFit_AreAnError) {
  Device device;
  const Call call{
      "matmul", {random_f32({3, 4}, 1), random_f32({5, 6}, 2)}, make_output(BP_DTYPE_F32, {3, 6})};
  EXPECT_EQ(run(device, call).status, BP_INVALID_ARGUMENT);
  EXPECT_THAT(device.host().last_message(), HasSubstr("4 and 5 do not fit"));
}

struct GemmCase {
  Tensor a;  // as passed, before transposition
  Tensor b;
  Tensor c;
  bp_attrs_gemm attrs = bp_attrs_gemm_defaults();
};

Outcome expect_gemm(Device& device, const GemmCase& g, const std::string& kernel = "",
                    uint64_t constant_inputs = 0) {
  const Tensor a = g.attrs.trans_a != 0 ? g.a.permuted({1, 0}) : g.a;
  const Tensor b = g.attrs.trans_b != 0 ? g.b.permuted({1, 0}) : g.b;
  const Call call{"gemm",   {g.a, g.b, g.c}, make_output(a.dtype, {a.sizes[0], b.sizes[1]}),
                  &g.attrs, kernel,          constant_inputs};
  Outcome outcome = run(device, call);
  EXPECT_EQ(outcome.status, BP_OK);
  if (outcome.status != BP_OK) return outcome;
  for_each_index(call.output.sizes, [&](const Sizes& index) {
    double expected = 0;
    for (int64_t k = 0; k < a.sizes[1]; ++k) expected += a.at({index[0], k}) * b.at({k, index[1]});
    expected *= g.attrs.alpha;
    if (g.c.dtype != BP_DTYPE_NONE && g.attrs.beta != 0)
      expected += g.attrs.beta * broadcast_at(g.c, index);
    const double unit = unit_of(a.dtype);
    ASSERT_NEAR(call.output.at(index), expected,
                2 * unit * std::fabs(expected) +
                    64 * std::min(unit, 0x1p-24) * static_cast<double>(a.sizes[1]));
  });
  return outcome;
}

GemmCase gemm_case(uint32_t dtype, int64_t m, int64_t n, int64_t k, bool trans_a, bool trans_b) {
  GemmCase g;
  g.a = make_random(dtype, trans_a ? Sizes{k, m} : Sizes{m, k}, 91, 0, 3);
  g.b = make_random(dtype, trans_b ? Sizes{n, k} : Sizes{k, n}, 92, 0, 3);
  g.attrs.trans_a = trans_a ? 1 : 0;
  g.attrs.trans_b = trans_b ? 1 : 0;
  return g;
}

TEST(CpuGemm, FewRows_GoToTheVectorKernel) {
  Device device;
  for (const bool trans_b : {false, true}) {
    for (const auto& [m, n] : {std::pair<int64_t, int64_t>{3, 45}, {45, 1}}) {
      GemmCase g = gemm_case(BP_DTYPE_F32, m, n, 33, false, trans_b);
      EXPECT_EQ(expect_gemm(device, g).kernel, "gemm_f32_skinny");
      for (const Sizes& sizes : std::vector<Sizes>{{}, {n}, {m, 1}, {m, n}}) {
        g.c = random_f32(sizes, 93);
        EXPECT_EQ(expect_gemm(device, g).kernel, "gemm_f32_skinny");
      }
      g.attrs.alpha = 0.5;
      g.attrs.beta = -1.5;
      EXPECT_EQ(expect_gemm(device, g).kernel, "gemm_f32_skinny");
    }
  }
}

TEST(CpuGemm, TransposedAndBiased_MatchesF64) {
  Device device("2");
  for (const int64_t k : {5, 64}) {
    for (const bool trans_a : {false, true}) {
      for (const bool trans_b : {false, true}) {
        GemmCase g = gemm_case(BP_DTYPE_F32, 12, 10, k, trans_a, trans_b);
        EXPECT_EQ(expect_gemm(device, g).kernel, k == 5 ? "gemm_loop" : "gemm_f32_onednn");
        for (const Sizes& sizes : std::vector<Sizes>{{}, {1}, {10}, {1, 10}, {12, 1}, {12, 10}}) {
          g.c = random_f32(sizes, 93);
          expect_gemm(device, g);
        }
        g.attrs.alpha = 0.5;
        g.attrs.beta = -1.5;
        expect_gemm(device, g);
        g.c = random_f32({10, 12}, 94).permuted({1, 0});
        expect_gemm(device, g);
        g.c = random_f32({10}, 94).flipped(0);
        expect_gemm(device, g);
      }
    }
  }
}

TEST(CpuGemm, OtherDtypes_MatchF64) {
  Device device;
  for (const uint32_t dtype :
       {BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_F64, BP_DTYPE_I32, BP_DTYPE_U8}) {
    GemmCase g = gemm_case(dtype, 3, 4, 6, false, true);
    g.c = make_random(dtype, {4}, 95, 0, 5);
    g.attrs.alpha = 2;
    g.attrs.beta = 3;
    expect_gemm(device, g);
  }
}

TEST(CpuGemm, Halves_GoThroughF32) {
  Device device("2");
  for (const uint32_t dtype : {BP_DTYPE_F16, BP_DTYPE_BF16}) {
    for (const int64_t m : {2, 12}) {
      for (const bool is_transposed : {false, true}) {
        GemmCase g = gemm_case(dtype, m, 37, 65, is_transposed, is_transposed);
        for (const Sizes& sizes : std::vector<Sizes>{{}, {37}, {m, 1}, {m, 37}}) {
          g.c = make_random(dtype, sizes, 93);
          for (const uint64_t constants : {0, 2, 6, 7}) {
            EXPECT_EQ(expect_gemm(device, g, "", constants).kernel, "gemm_through_f32");
          }
          g.attrs.alpha = 0.5;
          g.attrs.beta = -1.5;
        }
        g.c = {};
        EXPECT_EQ(expect_gemm(device, g, "", 2).kernel, "gemm_through_f32");
      }
    }
  }
}

TEST(CpuGemm, F64_GoesByStrips) {
  Device device("2");
  for (const bool is_transposed : {false, true}) {
    GemmCase g = gemm_case(BP_DTYPE_F64, 13, 37, 65, is_transposed, is_transposed);
    EXPECT_EQ(expect_gemm(device, g).kernel, "gemm_f64_strips");
    for (const Sizes& sizes : std::vector<Sizes>{{}, {37}, {13, 1}, {13, 37}}) {
      g.c = make_random(BP_DTYPE_F64, sizes, 93);
      EXPECT_EQ(expect_gemm(device, g).kernel, "gemm_f64_strips");
      g.attrs.alpha = 0.5;
      g.attrs.beta = -1.5;
    }
    g.attrs.beta = 0;
    g.c = make_output(BP_DTYPE_F64, {37});  // NaN, which is not read
    EXPECT_EQ(expect_gemm(device, g).kernel, "gemm_f64_strips");
  }
}

TEST(CpuGemm, BetaZero_DoesNotReadC) {
  Device device;
  for (const int64_t k : {5, 64}) {
    GemmCase g = gemm_case(BP_DTYPE_F32, 12, 10, k, false, false);
    g.c = make_output(BP_DTYPE_F32, {10});  // NaN
    g.attrs.beta = 0;
    expect_gemm(device, g);
  }
}

TEST(CpuGemm, FractionalFactorsOfIntegers_AreRefusedWithAReason) {
  Device device;
  const GemmCase g = gemm_case(BP_DTYPE_I32, 2, 2, 2, false, false);
  bp_attrs_gemm attrs = bp_attrs_gemm_defaults();
  attrs.alpha = 0.5;
  const Call call{"gemm", {g.a, g.b, {}}, make_output(BP_DTYPE_I32, {2, 2}), &attrs};
  const Outcome outcome = run(device, call);
  EXPECT_EQ(outcome.status, BP_UNSUPPORTED);
  EXPECT_THAT(outcome.refusals.at("gemm_loop"), HasSubstr("whole numbers"));
}

TEST(CpuGemm, CThatDoesNotBroadcast_IsAnError) {
  Device device;
  GemmCase g = gemm_case(BP_DTYPE_F32, 12, 10, 64, false, false);
  const Call call{
      "gemm", {g.a, g.b, random_f32({9}, 1)}, make_output(BP_DTYPE_F32, {12, 10}), &g.attrs};
  EXPECT_EQ(run(device, call).status, BP_INVALID_ARGUMENT);
  EXPECT_THAT(device.host().last_message(), HasSubstr("9 and 10 do not fit"));
}

}  // namespace
}  // namespace bp::cpu_test
