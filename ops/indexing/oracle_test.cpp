// SPDX-License-Identifier: Apache-2.0
//
// Operators that choose elements by indices, through the oracle, with values worked out by hand.
#include "ops/oracle/oracle_test_support.hpp"

namespace bp::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(OracleGatherElements, Places_ReplaceTheAxis) {
  const auto x = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  bp_attrs_gather_elements attributes = bp_attrs_gather_elements_defaults();
  EXPECT_THAT(values_of(evaluated("gather_elements", {x, longs({1, 2}, {1, 0})}, &attributes)),
              ElementsAre(4, 2));
  attributes.axis = -1;
  EXPECT_THAT(
      values_of(evaluated("gather_elements", {x, longs({2, 2}, {-1, 0, 1, -3})}, &attributes)),
      ElementsAre(3, 1, 5, 4));
  // Out of range: clamped.
  EXPECT_THAT(
      values_of(evaluated("gather_elements", {x, longs({2, 2}, {3, -4, 99, 2})}, &attributes)),
      ElementsAre(3, 1, 6, 6));
}

TEST(OracleGatherNd, Rows_ArePositions) {
  const auto x = floats({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  bp_attrs_gather_nd attributes = bp_attrs_gather_nd_defaults();
  EXPECT_THAT(values_of(evaluated("gather_nd", {x, longs({2, 2}, {0, 1, 1, 0})}, &attributes)),
              ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(values_of(evaluated("gather_nd", {x, longs({3}, {1, -1, 0})}, &attributes)),
              ElementsAre(7));
  EXPECT_THAT(values_of(evaluated("gather_nd", {x, longs({1, 2}, {5, -9})}, &attributes)),
              ElementsAre(5, 6));
  attributes.batch_dims = 1;
  EXPECT_THAT(values_of(evaluated("gather_nd", {x, longs({2, 1}, {1, 0})}, &attributes)),
              ElementsAre(3, 4, 5, 6));
}

OracleTensor scattered(const OracleTensor& x, const OracleTensor& indices,
                       const OracleTensor& updates, std::string_view reduction, int64_t axis = 0) {
  bp_attrs_scatter_elements attributes = bp_attrs_scatter_elements_defaults();
  attributes.axis = axis;
  attributes.reduction = {reduction.data(), reduction.size()};
  return evaluated("scatter_elements", {x, indices, updates}, &attributes);
}

TEST(OracleScatterElements, Updates_GoWhereIndicesSay) {
  const auto x = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(
      values_of(scattered(x, longs({2, 2}, {1, 0, 0, -1}), floats({2, 2}, {7, 8, 9, 10}), "none")),
      ElementsAre(9, 8, 3, 7, 10, 6));
  EXPECT_THAT(values_of(scattered(x, longs({1, 2}, {2, 0}), floats({1, 2}, {7, 8}), "none", 1)),
              ElementsAre(8, 2, 7, 4, 5, 6));
  EXPECT_THAT(values_of(scattered(x, longs({1, 2}, {9, -9}), floats({1, 2}, {7, 8}), "none", 1)),
              ElementsAre(8, 2, 7, 4, 5, 6));
}

TEST(OracleScatterElements, OfDuplicates_TheLastStays) {
  EXPECT_THAT(values_of(scattered(floats({3}, {0, 0, 0}), longs({4}, {1, 1, -2, 0}),
                                  floats({4}, {1, 2, 3, 4}), "none")),
              ElementsAre(4, 3, 0));
}

TEST(OracleScatterElements, Reductions_TakeAllDuplicates) {
  const auto x = floats({3}, {10, 20, 30});
  const auto indices = longs({4}, {1, 1, 0, 1});
  const auto updates = floats({4}, {2, 50, -3, 4});
  EXPECT_THAT(values_of(scattered(x, indices, updates, "add")), ElementsAre(7, 76, 30));
  EXPECT_THAT(values_of(scattered(x, indices, updates, "mul")), ElementsAre(-30, 8000, 30));
  EXPECT_THAT(values_of(scattered(x, indices, updates, "max")), ElementsAre(10, 50, 30));
  EXPECT_THAT(values_of(scattered(x, indices, updates, "min")), ElementsAre(-3, 2, 30));
}

TEST(OracleScatterElements, SumsOfHalfTypes_AreRoundedOnce) {
  // Each single addition of 1 to 2048 would be rounded away.
  const auto x = tensor(BP_DTYPE_F16, {1}, {2048});
  const auto ones = tensor(BP_DTYPE_F16, {4}, {1, 1, 1, 1});
  EXPECT_THAT(values_of(scattered(x, longs({4}, {0, 0, 0, 0}), ones, "add")), ElementsAre(2052));
}

TEST(OracleScatterElements, NanAndBoolAndWrapping) {
  const auto indices = longs({2}, {0, 1});
  const auto one = floats({2}, {1, kNan});
  EXPECT_THAT(values_of(scattered(floats({2}, {kNan, 1}), indices, one, "max")),
              ElementsAre(testing::IsNan(), testing::IsNan()));
  EXPECT_THAT(values_of(scattered(floats({2}, {kNan, 1}), indices, one, "min")),
              ElementsAre(testing::IsNan(), testing::IsNan()));
  const auto bools = [](const std::vector<double>& values) {
    return tensor(BP_DTYPE_BOOL, {4}, values);
  };
  const auto all = longs({4}, {0, 1, 2, 3});
  const auto x = bools({0, 0, 1, 1});
  const auto updates = bools({0, 1, 0, 1});
  EXPECT_THAT(values_of(scattered(x, all, updates, "add")), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(values_of(scattered(x, all, updates, "mul")), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(values_of(scattered(x, all, updates, "max")), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(values_of(scattered(x, all, updates, "min")), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(values_of(scattered(tensor(BP_DTYPE_I8, {1}, {100}), longs({1}, {0}),
                                  tensor(BP_DTYPE_I8, {1}, {100}), "add")),
              ElementsAre(-56));
}

OracleTensor scattered_nd(const OracleTensor& x, const OracleTensor& indices,
                          const OracleTensor& updates, std::string_view reduction) {
  bp_attrs_scatter_nd attributes = bp_attrs_scatter_nd_defaults();
  attributes.reduction = {reduction.data(), reduction.size()};
  return evaluated("scatter_nd", {x, indices, updates}, &attributes);
}

TEST(OracleScatterNd, Slices_MeetUpdates) {
  const auto x = floats({3, 2}, {1, 2, 3, 4, 5, 6});
  const auto rows = longs({3, 1}, {2, 0, -1});
  const auto updates = floats({3, 2}, {10, 20, 30, 40, 50, 60});
  EXPECT_THAT(values_of(scattered_nd(x, rows, updates, "none")), ElementsAre(30, 40, 3, 4, 50, 60));
  EXPECT_THAT(values_of(scattered_nd(x, rows, updates, "add")), ElementsAre(31, 42, 3, 4, 65, 86));
  EXPECT_THAT(values_of(scattered_nd(x, longs({2, 2}, {0, 1, 7, -7}), floats({2}, {8, 9}), "none")),
              ElementsAre(1, 8, 3, 4, 9, 6));
  EXPECT_THAT(values_of(scattered_nd(x, longs({2}, {1, 1}), floats({}, {5}), "mul")),
              ElementsAre(1, 2, 3, 20, 5, 6));
}

TEST(OracleCompress, Slices_AreThoseOfTrueConditions) {
  const auto x = floats({3, 2}, {1, 2, 3, 4, 5, 6});
  bp_attrs_compress attributes = bp_attrs_compress_defaults();
  const auto of = [&](const std::vector<double>& condition) {
    return evaluated(
        "compress", {x, tensor(BP_DTYPE_BOOL, {static_cast<int64_t>(condition.size())}, condition)},
        &attributes);
  };
  EXPECT_THAT(values_of(of({0, 1, 1})), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(values_of(of({1})), ElementsAre(1, 2));
  EXPECT_EQ(to_string(of({0, 0, 0}).sizes), "[0, 2]");
  attributes.axis = -1;
  EXPECT_THAT(values_of(of({0, 1})), ElementsAre(2, 4, 6));
  EXPECT_THAT(values_of(of({})), IsEmpty());
}

TEST(OracleOneHot, Index_IsOn) {
  bp_attrs_one_hot attributes = bp_attrs_one_hot_defaults();
  const std::vector<OracleTensor> inputs = {longs({4}, {1, -1, 3, -4}), longs({}, {3}),
                                            floats({2}, {0, 5})};
  EXPECT_THAT(values_of(evaluated("one_hot", inputs, &attributes)),
              ElementsAre(0, 5, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0));
  attributes.axis = 0;
  EXPECT_THAT(values_of(evaluated("one_hot", inputs, &attributes)),
              ElementsAre(0, 0, 0, 0, 5, 0, 0, 0, 0, 5, 0, 0));
}

}  // namespace
}  // namespace bp::ops
