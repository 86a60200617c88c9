// SPDX-License-Identifier: Apache-2.0
//
// gather with its fault word, and non_zero with its real sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "backplane/ops/attributes.h"
#include "plugins/cpu/cpu_test_support.hpp"

namespace bp::cpu_test {
namespace {

Outcome gather(Device& device, const Tensor& x, const Tensor& indices, int64_t axis,
               const Tensor& y) {
  bp_attrs_gather attrs = bp_attrs_gather_defaults();
  attrs.axis = axis;
  return run(device, {"gather", {x, indices}, y, &attrs});
}

void expect_gather(Device& device, const Tensor& x, const Tensor& indices, int64_t axis) {
  const size_t rank = x.sizes.size();
  const size_t at = static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis);
  Sizes sizes(x.sizes.begin(), x.sizes.begin() + static_cast<int64_t>(at));
  sizes.insert(sizes.end(), indices.sizes.begin(), indices.sizes.end());
  sizes.insert(sizes.end(), x.sizes.begin() + static_cast<int64_t>(at) + 1, x.sizes.end());
  const Tensor y = make_output(x.dtype, sizes);
  const Outcome outcome = gather(device, x, indices, axis, y);
  ASSERT_EQ(outcome.status, BP_OK);
  EXPECT_EQ(outcome.plan_flags, BP_PLAN_CAN_FAULT_BIT);
  EXPECT_EQ(outcome.fault.code, BP_FAULT_NONE);
  for_each_index(sizes, [&](const Sizes& index) {
    const auto first = index.begin() + static_cast<int64_t>(at);
    const auto last = first + static_cast<int64_t>(indices.sizes.size());
    int64_t chosen = static_cast<int64_t>(indices.at(Sizes(first, last)));
    if (chosen < 0) chosen += x.sizes[at];
    Sizes from(index.begin(), first);
    from.push_back(chosen);
    from.insert(from.end(), last, index.end());
    ASSERT_EQ(y.at(index), x.at(from));
  });
}

TEST(CpuGather, EveryDtypeAndAxis_TakesSlices) {
  Device device("2");
  for (const uint32_t dtype :
       {BP_DTYPE_BOOL, BP_DTYPE_I16, BP_DTYPE_F16, BP_DTYPE_F32, BP_DTYPE_F64}) {
    const Tensor x = make_random(dtype, {3, 4, 5}, 101, 0, 2);
    for (const uint32_t index_dtype : {BP_DTYPE_I32, BP_DTYPE_I64}) {
      const Tensor indices = make_tensor(index_dtype, {2, 3}, {0, 2, -1, 1, -3, 0});
      for (const int64_t axis : {0, 1, 2, -1}) expect_gather(device, x, indices, axis);
      expect_gather(device, x, make_tensor(index_dtype, {}, {-2}), 1);
      expect_gather(device, x, make_output(index_dtype, {0}), 1);
    }
  }
  const Tensor many = make_random(BP_DTYPE_I64, {20000}, 102, -50, 50);
  expect_gather(device, make_random(BP_DTYPE_F32, {50, 9}, 103), many, 0);
}

// As padding does: indices that rise by one but for a few places, for many slices. With more runs
// than are kept, with none, and in rows of each size that has a copy of its own.
TEST(CpuGather, RunsOfIndices_TakeTheSameSlices) {
  for (const char* threads : {"1", "2"}) {
    Device device(threads);
    Values padded{2, 1};
    for (int64_t i = 0; i < 300; ++i) padded.push_back(static_cast<double>(i));
    padded.insert(padded.end(), {-2, -3, 5, 6, 7});
    Values broken;  // many short runs
    for (int64_t i = 0; i < 500; ++i) broken.push_back(static_cast<double>(i * 7 / 5 % 300));
    Values falling;
    for (int64_t i = 0; i < 60; ++i) falling.push_back(static_cast<double>(-1 - i));
    for (const Values& values : {padded, broken, falling}) {
      const auto count = static_cast<int64_t>(values.size());
      for (const uint32_t dtype : {BP_DTYPE_BOOL, BP_DTYPE_BF16, BP_DTYPE_F32, BP_DTYPE_F64}) {
        const Tensor indices = make_tensor(BP_DTYPE_I32, {count}, values);
        expect_gather(device, make_random(dtype, {23, 300}, 106, 0, 2), indices, 1);
        expect_gather(device, make_random(dtype, {3, 300, 5}, 107, 0, 2), indices, 1);
      }
    }
  }
}

TEST(CpuGather, IndexOutOfRangeBetweenRuns_IsClampedForEachSlice) {
  Device device;
  Values values;
  for (int64_t i = 0; i < 20; ++i) values.push_back(static_cast<double>(i));
  values[8] = 1000;
  const Tensor x = make_random(BP_DTYPE_F32, {3, 20}, 108);
  const Tensor y = make_output(BP_DTYPE_F32, {3, 20});
  const Outcome outcome = gather(device, x, make_tensor(BP_DTYPE_I64, {20}, values), 1, y);
  EXPECT_EQ(outcome.fault.code, BP_FAULT_INDEX);
  EXPECT_EQ(outcome.fault.index, 1000);
  for_each_index(y.sizes, [&](const Sizes& at) {
    EXPECT_EQ(y.at(at), x.at({at[0], at[1] == 8 ? 19 : at[1]}));
  });
}

TEST(CpuGather, IndexOutOfRange_IsClampedAndReportedOnce) {
  Device device;
  const Tensor x = make_tensor(BP_DTYPE_F32, {3}, {10, 20, 30});
  const Tensor y = make_output(BP_DTYPE_F32, {4});
  const Outcome outcome = gather(device, x, make_tensor(BP_DTYPE_I64, {4}, {1, 3, -4, 0}), 0, y);
  EXPECT_EQ(outcome.status, BP_OK);
  EXPECT_EQ(y.values(), (Values{20, 30, 10, 10}));
  EXPECT_EQ(outcome.fault.code, BP_FAULT_INDEX);
  EXPECT_EQ(outcome.fault.input, 1u);
  EXPECT_EQ(outcome.fault.op_seq, 77u);
  EXPECT_EQ(outcome.fault.index, 3);
  EXPECT_EQ(outcome.fault.extent, 3);
}

TEST(CpuGather, ManyBadIndicesOnThreads_WriteOneWholeFault) {
  Device device("4");
  const Tensor x = make_random(BP_DTYPE_F32, {7, 3}, 104);
  const Tensor indices = make_random(BP_DTYPE_I64, {30000}, 105, 100, 1000);
  const Outcome outcome = gather(device, x, indices, 0, make_output(BP_DTYPE_F32, {30000, 3}));
  EXPECT_EQ(outcome.fault.code, BP_FAULT_INDEX);
  EXPECT_GE(outcome.fault.index, 100);
  EXPECT_LT(outcome.fault.index, 1000);
  EXPECT_EQ(outcome.fault.extent, 7);
}

TEST(CpuGather, FromAnEmptyAxis_GivesZerosAndAFault) {
  Device device;
  const Tensor y = make_output(BP_DTYPE_F32, {1, 2});
  const Outcome outcome =
      gather(device, make_output(BP_DTYPE_F32, {0, 2}), make_tensor(BP_DTYPE_I32, {1}, {0}), 0, y);
  EXPECT_EQ(outcome.status, BP_OK);
  EXPECT_EQ(outcome.fault.code, BP_FAULT_INDEX);
  EXPECT_EQ(y.values(), (Values{0, 0}));
}

TEST(CpuGather, AxisOutOfRange_IsAnError) {
  Device device;
  const Outcome outcome =
      gather(device, make_random(BP_DTYPE_F32, {2}, 1), make_tensor(BP_DTYPE_I32, {1}, {0}), 1,
             make_output(BP_DTYPE_F32, {1}));
  EXPECT_EQ(outcome.status, BP_INVALID_ARGUMENT);
  EXPECT_THAT(device.host().last_message(), ::testing::HasSubstr("axis 1"));
}

void expect_non_zero(Device& device, const Tensor& x) {
  const int64_t rank = static_cast<int64_t>(x.sizes.size());
  const int64_t bound = element_count(x.sizes);
  const Tensor y = make_output(BP_DTYPE_I64, {rank, bound});
  const Outcome outcome = run(device, {"non_zero", {x}, y});
  ASSERT_EQ(outcome.status, BP_OK);
  std::vector<Sizes> expected;
  for_each_index(x.sizes, [&](const Sizes& index) {
    if (x.at(index) != 0) expected.push_back(index);
  });
  EXPECT_EQ(outcome.extents[0], rank);
  EXPECT_EQ(outcome.extents[1], static_cast<int64_t>(expected.size()));
  EXPECT_EQ(outcome.extents[2], -1);
  for (size_t i = 0; i < expected.size(); ++i) {
    for (int64_t d = 0; d < rank; ++d) {
      ASSERT_EQ(y.at({d, static_cast<int64_t>(i)}),
                static_cast<double>(expected[i][static_cast<size_t>(d)]));
    }
  }
}

TEST(CpuNonZero, EveryDtype_ListsPositionsInOrder) {
  Device device;
  for (uint32_t dtype = BP_DTYPE_BOOL; dtype <= BP_DTYPE_F64; ++dtype) {
    const double low = dtype == BP_DTYPE_BOOL ? 0 : -1;
    Tensor x = make_random(dtype, {3, 4, 2}, 111, 0, 2);
    if (dtype >= BP_DTYPE_F16) x = make_tensor(dtype, {5}, {0, low, -0.0, std::nan(""), 6e-8});
    expect_non_zero(device, x);
  }
}

TEST(CpuNonZero, StridedEmptyAndScalarInputs_Work) {
  Device device;
  const Tensor x = make_random(BP_DTYPE_I32, {3, 4, 5}, 112, 0, 2);
  expect_non_zero(device, x.permuted({2, 0, 1}));
  expect_non_zero(device, x.flipped(0).flipped(2).stepped(2, 2));
  expect_non_zero(device, make_output(BP_DTYPE_I32, {3, 0}));
  expect_non_zero(device, make_tensor(BP_DTYPE_F32, {}, {3}));
  expect_non_zero(device, make_tensor(BP_DTYPE_F32, {2, 2}, {0, 0, 0, 0}));
}

}  // namespace
}  // namespace bp::cpu_test
