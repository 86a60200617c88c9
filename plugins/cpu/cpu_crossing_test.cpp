// SPDX-License-Identifier: Apache-2.0
//
// Tensors that lie across the output's rows, as transposed views do, large enough for the walks by
// tiles and for what is stored past the caches.
#include <gtest/gtest.h>

#include "cpu_test_support.hpp"

namespace bp::cpu_test {
namespace {

/// Whole numbers, so that every dtype holds them and their sums.
Tensor numbers(uint32_t dtype, const Sizes& sizes, uint32_t seed) {
  Tensor made = make_random(BP_DTYPE_I32, sizes, seed, 0, 60);
  return dtype == BP_DTYPE_I32 ? made : make_tensor(dtype, sizes, made.values());
}

void expect_sum(Device& device, const Tensor& a, const Tensor& b, const Sizes& sizes) {
  const Outcome outcome = run(device, {"add", {a, b}, make_output(a.dtype, sizes)});
  ASSERT_EQ(outcome.status, BP_OK);
  int64_t wrong = 0;
  for_each_index(sizes, [&](const Sizes& index) {
    wrong += outcome.output.at(index) != broadcast_at(a, index) + broadcast_at(b, index) ? 1 : 0;
  });
  EXPECT_EQ(wrong, 0) << "of dtype " << a.dtype;
}

TEST(CpuCrossing, InputAcrossTheRows_OfEachElementSize) {
  Device device("2");
  for (const uint32_t dtype :
       {BP_DTYPE_F32, BP_DTYPE_F64, BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_I16, BP_DTYPE_U8}) {
    const Sizes sizes{133, 301};
    const Tensor plain = numbers(dtype, sizes, 1);
    const Tensor turned = numbers(dtype, {301, 133}, 2).permuted({1, 0});
    expect_sum(device, plain, turned, sizes);
    expect_sum(device, turned, plain, sizes);
    expect_sum(device, turned, numbers(dtype, {301}, 3), sizes);
    expect_sum(device, numbers(dtype, {133, 1}, 4), turned, sizes);
    expect_sum(device, turned.flipped(1), plain, sizes);
  }
}

TEST(CpuCrossing, OfThreeDimensions_InAnyOrder) {
  Device device("2");
  const Sizes sizes{9, 70, 90};
  const Tensor plain = numbers(BP_DTYPE_F32, sizes, 1);
  const Tensor last_first = numbers(BP_DTYPE_F32, {90, 9, 70}, 2).permuted({1, 2, 0});
  const Tensor reversed = numbers(BP_DTYPE_F32, {90, 70, 9}, 3).permuted({2, 1, 0});
  const Tensor stepped = numbers(BP_DTYPE_F32, {90, 9, 140}, 4).permuted({1, 2, 0}).stepped(1, 2);
  expect_sum(device, plain, last_first, sizes);
  expect_sum(device, plain, reversed, sizes);
  expect_sum(device, last_first, reversed, sizes);
  expect_sum(device, plain, stepped, sizes);
}

TEST(CpuCrossing, ConditionAcrossTheRows) {
  Device device("2");
  const Sizes sizes{150, 260};
  const Tensor condition = make_tensor(BP_DTYPE_BOOL, {260, 150},
                                       make_random(BP_DTYPE_I32, {260, 150}, 1, 0, 2).values())
                               .permuted({1, 0});
  const Tensor a = numbers(BP_DTYPE_F32, sizes, 2);
  const Tensor b = numbers(BP_DTYPE_F32, {260, 150}, 3).permuted({1, 0});
  const Outcome outcome =
      run(device, {"where", {condition, a, b}, make_output(BP_DTYPE_F32, sizes)});
  ASSERT_EQ(outcome.status, BP_OK);
  int64_t wrong = 0;
  int64_t taken = 0;
  for_each_index(sizes, [&](const Sizes& index) {
    const bool is_a = condition.at(index) != 0;
    taken += is_a ? 1 : 0;
    wrong += outcome.output.at(index) != (is_a ? a : b).at(index) ? 1 : 0;
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(taken, 0);
  EXPECT_LT(taken, element_count(sizes));
}

/// Of more than the 16 MiB that are stored past the caches.
void expect_copy(Device& device, const Tensor& x) {
  const Outcome outcome = run(device, {"identity", {x}, make_output(x.dtype, x.sizes)});
  ASSERT_EQ(outcome.status, BP_OK);
  int64_t wrong = 0;
  const auto* found = outcome.output.data<float>();
  const Sizes rows(x.sizes.begin(), x.sizes.end() - 1);
  for_each_index(rows, [&](const Sizes& index) {
    const auto* from = x.data<float>();
    for (size_t d = 0; d < index.size(); ++d) from += index[d] * x.strides[d];
    for (int64_t i = 0; i < x.sizes.back(); ++i) {
      wrong += *found++ != from[i * x.strides.back()] ? 1 : 0;
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(CpuCrossing, LargeCopiesOfShortRows) {
  Device device("2");
  // Rows of 256 bytes, then of 64; the last has 1 row more than whole blocks.
  const Tensor heads = make_random(BP_DTYPE_F32, {3, 200, 121, 64}, 1);
  expect_copy(device, heads.permuted({0, 2, 1, 3}));
  expect_copy(device, heads.permuted({2, 1, 0, 3}));
  expect_copy(device, make_random(BP_DTYPE_F32, {17, 16385, 16}, 2).permuted({1, 0, 2}));
  expect_copy(device, make_random(BP_DTYPE_F32, {2049, 1, 2049}, 3).permuted({0, 1, 2}));
  expect_copy(device, make_random(BP_DTYPE_F32, {1, 40, 64}, 4).expanded({1700, 40, 64}));
  expect_copy(device, make_random(BP_DTYPE_F32, {70, 1000, 64}, 5).permuted({1, 0, 2}).flipped(0));
}

}  // namespace
}  // namespace bp::cpu_test
