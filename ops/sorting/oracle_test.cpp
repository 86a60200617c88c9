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

std::pair<std::vector<double>, std::vector<int64_t>> best(const OracleTensor& x, int64_t k,
                                                          int64_t axis, bool largest) {
  bp_attrs_top_k attributes = bp_attrs_top_k_defaults();
  attributes.axis = axis;
  attributes.largest = largest ? 1 : 0;
  const OracleTensor inputs[] = {x, longs({1}, {k})};
  std::vector<OracleTensor> outputs;
  const Status status = evaluate(schema_of("top_k"), inputs, &attributes, &outputs);
  EXPECT_TRUE(status.ok()) << status.to_string();
  if (!status.ok()) return {};
  return {outputs[0].to_f64(), outputs[1].to_i64()};
}

TEST(OracleTopK, Best_InOrder) {
  const auto x = floats({2, 4}, {1, 7, 3, 7, 2, 0, -1, 5});
  EXPECT_THAT(best(x, 3, -1, true).first, ElementsAre(7, 7, 3, 5, 2, 0));
  EXPECT_THAT(best(x, 3, -1, true).second, ElementsAre(1, 3, 2, 3, 0, 1));
  EXPECT_THAT(best(x, 2, 1, false).first, ElementsAre(1, 3, -1, 0));
  EXPECT_THAT(best(x, 2, 1, false).second, ElementsAre(0, 2, 2, 1));
  EXPECT_THAT(best(x, 1, 0, true).second, ElementsAre(1, 0, 0, 0));
}

TEST(OracleTopK, Nan_IsLargerThanNumbers) {
  const auto x = floats({5}, {1, kNan, kInf, kNan, -kInf});
  EXPECT_THAT(best(x, 5, 0, true).second, ElementsAre(1, 3, 2, 0, 4));
  EXPECT_THAT(best(x, 5, 0, false).second, ElementsAre(4, 0, 2, 1, 3));
  EXPECT_THAT(best(floats({3}, {0.0, -0.0, 0.0}), 3, 0, true).second, ElementsAre(0, 1, 2));
}

OracleTensor in_order(const OracleTensor& x, int64_t axis, bool descending) {
  bp_attrs_sort attributes = bp_attrs_sort_defaults();
  attributes.axis = axis;
  attributes.descending = descending ? 1 : 0;
  return evaluated("sort", {x}, &attributes);
}
OracleTensor order(const OracleTensor& x, int64_t axis, bool descending) {
  bp_attrs_argsort attributes = bp_attrs_argsort_defaults();
  attributes.axis = axis;
  attributes.descending = descending ? 1 : 0;
  return evaluated("argsort", {x}, &attributes);
}

TEST(OracleSort, Axis_IsOrdered) {
  const auto x = floats({2, 3}, {3, 1, 2, 0, 5, 4});
  EXPECT_THAT(values_of(in_order(x, -1, false)), ElementsAre(1, 2, 3, 0, 4, 5));
  EXPECT_THAT(values_of(in_order(x, 0, false)), ElementsAre(0, 1, 2, 3, 5, 4));
  EXPECT_THAT(values_of(in_order(x, 1, true)), ElementsAre(3, 2, 1, 5, 4, 0));
  EXPECT_THAT(order(x, 1, false).to_i64(), ElementsAre(1, 2, 0, 0, 2, 1));
  EXPECT_THAT(order(x, 0, true).to_i64(), ElementsAre(0, 1, 1, 1, 0, 0));
}

TEST(OracleSort, EqualValues_KeepTheirOrder) {
  const auto x = floats({6}, {2, 1, 2, 0.0, -0.0, 1});
  EXPECT_THAT(order(x, 0, false).to_i64(), ElementsAre(3, 4, 1, 5, 0, 2));
  EXPECT_THAT(order(x, 0, true).to_i64(), ElementsAre(0, 2, 1, 5, 3, 4));
}

TEST(OracleSort, Nan_IsAboveEveryNumber) {
  const auto x = floats({5}, {kNan, kInf, -kInf, -kNan, 1});
  EXPECT_THAT(order(x, 0, false).to_i64(), ElementsAre(2, 4, 1, 0, 3));
  EXPECT_THAT(order(x, 0, true).to_i64(), ElementsAre(0, 3, 1, 4, 2));
  EXPECT_THAT(values_of(in_order(x, 0, false)),
              ElementsAre(-kInf, 1, kInf, ::testing::IsNan(), ::testing::IsNan()));
}

std::vector<int64_t> places(const OracleTensor& sorted, const OracleTensor& values, bool right) {
  bp_attrs_searchsorted attributes = bp_attrs_searchsorted_defaults();
  attributes.right = right ? 1 : 0;
  return evaluated("searchsorted", {sorted, values}, &attributes).to_i64();
}

TEST(OracleSearchsorted, Sides_DifferAtEqualElements) {
  const auto sorted = floats({5}, {1, 2, 2, 3, 5});
  const auto values = floats({6}, {0, 2, 2.5, 5, 6, 1});
  EXPECT_THAT(places(sorted, values, false), ElementsAre(0, 1, 3, 4, 5, 0));
  EXPECT_THAT(places(sorted, values, true), ElementsAre(0, 3, 3, 5, 5, 1));
  EXPECT_THAT(places(floats({0}, {}), floats({}, {3}), true), ElementsAre(0));
}

TEST(OracleSearchsorted, Nan_IsAboveEveryNumber) {
  const auto sorted = doubles({4}, {-kInf, 1, kNan, kNan});
  const auto values = doubles({4}, {kNan, kInf, -kInf, -0.0});
  EXPECT_THAT(places(sorted, values, false), ElementsAre(2, 2, 0, 1));
  EXPECT_THAT(places(sorted, values, true), ElementsAre(4, 2, 1, 1));
}

TEST(OracleSearchsorted, LargeIntegers_AreToldApart) {
  const int64_t large = int64_t{1} << 62;
  EXPECT_THAT(places(longs({3}, {large, large + 1, large + 2}), longs({1}, {large + 1}), false),
              ElementsAre(1));
  const auto top = OracleTensor::from_i64(BP_DTYPE_U64, {2}, std::vector<int64_t>{1, -1});
  EXPECT_THAT(places(top, top, true), ElementsAre(1, 2));
}

template <class Attributes>
std::vector<double> scanned(std::string_view op, const OracleTensor& x, int64_t axis,
                            Attributes attributes, bool exclusive, bool reverse) {
  attributes.exclusive = exclusive ? 1 : 0;
  attributes.reverse = reverse ? 1 : 0;
  return values_of(evaluated(op, {x, longs({}, {axis})}, &attributes));
}

TEST(OracleCumsum, Orders) {
  const auto x = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto defaults = bp_attrs_cumsum_defaults();
  EXPECT_THAT(scanned("cumsum", x, 1, defaults, false, false), ElementsAre(1, 3, 6, 4, 9, 15));
  EXPECT_THAT(scanned("cumsum", x, 0, defaults, false, false), ElementsAre(1, 2, 3, 5, 7, 9));
  EXPECT_THAT(scanned("cumsum", x, -1, defaults, true, false), ElementsAre(0, 1, 3, 0, 4, 9));
  EXPECT_THAT(scanned("cumsum", x, 1, defaults, false, true), ElementsAre(6, 5, 3, 15, 11, 6));
  EXPECT_THAT(scanned("cumsum", x, 1, defaults, true, true), ElementsAre(5, 3, 0, 11, 6, 0));
  // Wraps, and half types round what is written alone.
  EXPECT_THAT(scanned("cumsum", tensor(BP_DTYPE_U8, {2}, {200, 100}), 0, defaults, false, false),
              ElementsAre(200, 44));
  EXPECT_THAT(
      scanned("cumsum", tensor(BP_DTYPE_F16, {5}, {2048, 1, 1, 1, 1}), 0, defaults, false, false),
      ElementsAre(2048, 2048, 2050, 2052, 2052));
}

TEST(OracleCumprod, Orders) {
  const auto x = floats({4}, {2, 3, -1, 5});
  const auto defaults = bp_attrs_cumprod_defaults();
  EXPECT_THAT(scanned("cumprod", x, 0, defaults, false, false), ElementsAre(2, 6, -6, -30));
  EXPECT_THAT(scanned("cumprod", x, 0, defaults, true, false), ElementsAre(1, 2, 6, -6));
  EXPECT_THAT(scanned("cumprod", x, 0, defaults, true, true), ElementsAre(-15, -5, 5, 1));
}

}  // namespace
}  // namespace bp::ops
