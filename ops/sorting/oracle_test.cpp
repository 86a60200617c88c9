// SPDX-License-Identifier: Apache-2.0
//
// Operators that look for extreme values, through the oracle, with values worked out by hand.
#include "ops/oracle/oracle_test_support.hpp"

namespace bp::ops {
namespace {

using ::testing::ElementsAre;

OracleTensor largest(const OracleTensor& x, int64_t axis, bool last = false) {
  bp_attrs_argmax attributes = bp_attrs_argmax_defaults();
  attributes.axis = axis;
  attributes.select_last_index = last ? 1 : 0;
  return evaluated("argmax", {x}, &attributes);
}

OracleTensor smallest(const OracleTensor& x, int64_t axis, bool last = false) {
  bp_attrs_argmin attributes = bp_attrs_argmin_defaults();
  attributes.axis = axis;
  attributes.select_last_index = last ? 1 : 0;
  return evaluated("argmin", {x}, &attributes);
}

TEST(OracleArgmax, Axis_IsSearched) {
  const auto x = floats({2, 3}, {1, 3, 2, 4, 0, 5});
  EXPECT_THAT(values_of(largest(x, 0)), ElementsAre(1, 0, 1));
  EXPECT_THAT(values_of(largest(x, 1)), ElementsAre(1, 2));
  EXPECT_THAT(values_of(smallest(x, 0)), ElementsAre(0, 1, 0));
  EXPECT_THAT(values_of(smallest(x, -1)), ElementsAre(0, 1));
  EXPECT_EQ(to_string(largest(x, 1).sizes), "[2, 1]");
}

TEST(OracleArgmax, OfEqualValues_TheFirstOrTheLast) {
  const auto x = floats({5}, {2, 7, -0.0, 7, 2});
  EXPECT_THAT(values_of(largest(x, 0)), ElementsAre(1));
  EXPECT_THAT(values_of(largest(x, 0, true)), ElementsAre(3));
  const auto zeros = floats({3}, {0.0, -0.0, 0.0});
  EXPECT_THAT(values_of(smallest(zeros, 0)), ElementsAre(0));
  EXPECT_THAT(values_of(smallest(zeros, 0, true)), ElementsAre(2));
}

TEST(OracleArgmax, Nan_IsTakenBeforeNumbers) {
  const auto x = floats({5}, {kInf, kNan, -kInf, kNan, 1});
  EXPECT_THAT(values_of(largest(x, 0)), ElementsAre(1));
  EXPECT_THAT(values_of(largest(x, 0, true)), ElementsAre(3));
  EXPECT_THAT(values_of(smallest(x, 0)), ElementsAre(1));
  EXPECT_THAT(values_of(smallest(x, 0, true)), ElementsAre(3));
}

TEST(OracleArgmax, LargeIntegers_AreToldApart) {
  const int64_t large = (int64_t{1} << 62) + 1;
  EXPECT_THAT(largest(longs({2}, {large - 1, large}), 0).to_i64(), ElementsAre(1));
  const auto top = OracleTensor::from_i64(BP_DTYPE_U64, {2}, std::vector<int64_t>{1, -1});
  EXPECT_THAT(largest(top, 0).to_i64(), ElementsAre(1));
}

}  // namespace
}  // namespace bp::ops
