// SPDX-License-Identifier: Apache-2.0
//
// The oracle of operators that move elements, against values worked out by hand.
#include "ops/oracle/oracle_test_support.hpp"

namespace bp::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

OracleTensor ramp(Dims sizes) {
  std::vector<double> values;
  for (int64_t i = 0; i < element_count({sizes.data(), sizes.size()}); ++i) {
    values.push_back(static_cast<double>(i));
  }
  return floats(sizes, values);
}

OracleTensor list_of(const std::vector<int64_t>& values) {
  return longs({static_cast<int64_t>(values.size())}, values);
}

TEST(OracleExpand, Elements_Repeat) {
  const auto y = evaluated("expand", {ramp({2, 1}), list_of({2, 1, 3})});
  EXPECT_EQ(to_string(y.sizes), "[2, 2, 3]");
  EXPECT_THAT(values_of(y), ElementsAre(0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1));
  EXPECT_THAT(values_of(evaluated("expand", {floats({}, {7}), list_of({0, 2})})), IsEmpty());
}

TEST(OracleSqueeze, Values_Stay) {
  const auto y = evaluated("squeeze", {ramp({1, 3, 1}), list_of({-1})});
  EXPECT_EQ(to_string(y.sizes), "[1, 3]");
  EXPECT_THAT(values_of(y), ElementsAre(0, 1, 2));
  EXPECT_EQ(to_string(evaluated("unsqueeze", {ramp({3}), list_of({0, -1})}).sizes), "[1, 3, 1]");
}

/// NumPy lets a slice that goes backwards begin before the first element, and be empty; the
/// standard says that it begins there.
TEST(OracleSlice, Ranges_AsTheStandardCutsThem) {
  const auto sliced = [](const std::vector<OracleTensor>& inputs) {
    return values_of(evaluated("slice", inputs));
  };
  const auto x = ramp({3, 4});
  EXPECT_THAT(sliced({x, list_of({1}), list_of({9})}), ElementsAre(4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_THAT(sliced({x, list_of({0, 1}), list_of({-1, 3})}), ElementsAre(1, 2, 5, 6));
  EXPECT_THAT(sliced({x, list_of({3}), list_of({-9}), list_of({1}), list_of({-2})}),
              ElementsAre(3, 1, 7, 5, 11, 9));
  EXPECT_THAT(sliced({x, list_of({-1}), list_of({INT64_MIN}), list_of({-2}), list_of({-1})}),
              ElementsAre(8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3));
  EXPECT_THAT(sliced({x, list_of({2}), list_of({0})}), IsEmpty());
  EXPECT_THAT(sliced({x, list_of({-4}), list_of({-9}), list_of({0}), list_of({-1})}),
              ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(sliced({ramp({4}), list_of({INT64_MAX}), list_of({INT64_MIN}), OracleTensor(),
                      list_of({INT64_MIN})}),
              ElementsAre(3));
}

TEST(OracleConcat, Parts_StandBehindEachOther) {
  bp_attrs_concat attributes = bp_attrs_concat_defaults();
  attributes.axis = -1;
  const auto parts = {ramp({2, 2}), floats({2, 0}, {}), floats({2, 1}, {8, 9})};
  EXPECT_THAT(values_of(evaluated("concat", parts, &attributes)), ElementsAre(0, 1, 8, 2, 3, 9));
  attributes.axis = 0;
  EXPECT_THAT(values_of(evaluated("concat", {ramp({2}), ramp({1})}, &attributes)),
              ElementsAre(0, 1, 0));
}

}  // namespace
}  // namespace bp::ops
