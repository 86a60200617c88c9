// SPDX-License-Identifier: Apache-2.0
//
// Reductions in place by a device's kernels, against sums by hand.
#include "ccl/bridge/combiner.hpp"

#include <complex>

#include "ccl/group/group_harness_test.hpp"

namespace bp::ccl {
namespace {

class CombinerTest : public GroupTest {
 protected:
  std::unique_ptr<Combiner> make(uint32_t dtype, Reduction reduction) {
    auto made = Combiner::make(device("cpu:0"), dtype, reduction);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return made.ok() ? *std::move(made) : nullptr;
  }
};

TEST_F(CombinerTest, LaunchesThatTakeTurns_EachHaveTheirKernel) {
  const auto average = make(BP_DTYPE_F32, Reduction::kAvg);
  ASSERT_NE(average, nullptr);
  alignas(256) std::array<float, 80> memory{};
  // Places and sizes that change, and come again; also where one begins within an element's vector.
  for (int turn = 0; turn < 3; ++turn) {
    for (const size_t first : {0, 1, 3}) {
      for (const uint64_t count : {1, 4, 30}) {
        float* const to = memory.data() + first;
        float* const from = memory.data() + 40 + turn;
        for (uint64_t i = 0; i < count; ++i) {
          to[i] = static_cast<float>(i);
          from[i] = 2;
        }
        ASSERT_TRUE(average->combine(to, from, count, turn == 1).ok());
        ASSERT_TRUE(average->finish(to, count, 4).ok());
        for (uint64_t i = 0; i < count; ++i) {
          ASSERT_EQ(to[i], (static_cast<float>(i) + 2) / 4) << turn << " " << first << " " << i;
        }
      }
    }
  }
}

TEST_F(CombinerTest, ComplexSums_AreThoseOfTheParts) {
  using Complex = std::complex<double>;
  for (const Reduction reduction : {Reduction::kSum, Reduction::kAvg}) {
    const auto combiner = make(BP_DTYPE_C128, reduction);
    ASSERT_NE(combiner, nullptr);
    std::array<Complex, 3> to = {Complex{1, 2}, {3, -4}, {0, 6}};
    const std::array<Complex, 3> from = {Complex{10, 20}, {1, 4}, {-2, 0}};
    ASSERT_TRUE(combiner->combine(to.data(), from.data(), to.size(), false).ok());
    ASSERT_TRUE(combiner->finish(to.data(), to.size(), 2).ok());
    const double by = reduction == Reduction::kAvg ? 2 : 1;
    EXPECT_EQ(to[0], Complex(11, 22) / by);
    EXPECT_EQ(to[1], Complex(4, 0) / by);
    EXPECT_EQ(to[2], Complex(-2, 6) / by);
  }
}

TEST_F(CombinerTest, WhatHasNoKernel_IsToldByName) {
  const auto made = Combiner::make(device("cpu:0"), BP_DTYPE_C64, Reduction::kProd);
  EXPECT_EQ(made.status().code(), BP_UNSUPPORTED);
  EXPECT_THAT(made.status().message(),
              testing::AllOf(testing::HasSubstr("c64"), testing::HasSubstr("mul")));
}

}  // namespace
}  // namespace bp::ccl
