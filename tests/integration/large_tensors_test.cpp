// SPDX-License-Identifier: Apache-2.0
//
// Tensors of 8 bits with more than 2^32 elements, so that an index of 32 bits, with or without a
// sign, is too narrow. All values come from a closed form; rows at both ends and around elements
// 2^31 and 2^32 are compared with it.
#include <array>

#include "tests/integration/device_fixture.hpp"

namespace bp {
namespace {

constexpr int64_t kColumns = 1 << 16;
constexpr int64_t kRows = kColumns + 1;  // row 2^15 begins at element 2^31, row 2^16 at 2^32
constexpr std::array<int64_t, 7> kShown = {0, 1, 32767, 32768, 32769, 65535, 65536};

uint8_t of_row(int64_t i) { return static_cast<uint8_t>(31 * i + i / 251); }
uint8_t of_column(int64_t j) { return static_cast<uint8_t>(17 * j + j / 509); }
uint8_t value(int64_t i, int64_t j) { return static_cast<uint8_t>(of_row(i) + of_column(j)); }

class LargeTensorsTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (device_ == nullptr) return;
    auto made = try_call("add", {terms(kRows, 1, of_row), terms(1, kColumns, of_column)});
    if (made.status().code() == BP_OUT_OF_MEMORY && GetParam() != "cpu:0") {
      GTEST_SKIP() << "NOT RUN: " << made.status().to_string();
    }
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    x_ = *made;
  }

  Ref<Tensor> terms(int64_t rows, int64_t columns, uint8_t (*term)(int64_t)) {
    OracleTensor all = OracleTensor::zeros(BP_DTYPE_U8, {rows, columns});
    for (int64_t i = 0; i < rows * columns; ++i) {
      all.bytes[static_cast<size_t>(i)] = std::byte{term(i)};
    }
    return upload(all);
  }
  Ref<Tensor> list(const std::vector<int64_t>& values) {
    return upload(
        OracleTensor::from_i64(BP_DTYPE_I64, {static_cast<int64_t>(values.size())}, values));
  }
  Ref<Tensor> rows(const Ref<Tensor>& y, int64_t begin, int64_t end) {
    return must_call("slice", {y, list({begin}), list({end}), list({0})});
  }
  Attributes along(std::string_view op, int64_t axis) {
    Attributes result = attributes(op);
    EXPECT_TRUE(result.set_i64("axis", axis).ok());
    return result;
  }

  /// Row i of y against what it should hold.
  template <class Expected>
  void expect_row(const Ref<Tensor>& y, int64_t i, const Expected& expected) {
    const Ref<Tensor> row = rows(y, i, i + 1);
    ASSERT_TRUE(row);
    const OracleTensor found = download(row);
    int64_t wrong = 0;
    int64_t first = -1;
    for (size_t j = 0; j < found.bytes.size(); ++j) {
      if (found.bytes[j] == std::byte{expected(static_cast<int64_t>(j))}) continue;
      if (wrong++ == 0) first = static_cast<int64_t>(j);
    }
    EXPECT_EQ(wrong, 0) << "in row " << i << ", the first in column " << first;
  }
  void expect_rows_of_x(const Ref<Tensor>& y) {
    ASSERT_TRUE(y);
    for (const int64_t i : kShown) expect_row(y, i, [&](int64_t j) { return value(i, j); });
  }

  Ref<Tensor> x_;
};

TEST_P(LargeTensorsTest, Elementwise) {
  expect_rows_of_x(x_);
  const Ref<Tensor> y = must_call("bitwise_not", {x_});
  ASSERT_TRUE(y);
  for (const int64_t i : kShown) {
    expect_row(y, i, [&](int64_t j) { return static_cast<uint8_t>(~value(i, j)); });
  }
}

TEST_P(LargeTensorsTest, Reductions_OverEachAxis) {
  Attributes rows_away = attributes("reduce_sum");
  const int64_t first[] = {0};
  ASSERT_TRUE(rows_away.set_i64s("axes", first).ok());
  uint8_t all_rows = 0;
  for (int64_t i = 0; i < kRows; ++i) all_rows = static_cast<uint8_t>(all_rows + of_row(i));
  const Ref<Tensor> sums = must_call("reduce_sum", {x_}, rows_away);
  ASSERT_TRUE(sums);
  expect_row(sums, 0, [&](int64_t j) {
    return static_cast<uint8_t>(all_rows + kRows % 256 * of_column(j));
  });
  const Ref<Tensor> places = must_call("argmax", {x_}, along("argmax", 1));
  ASSERT_TRUE(places);
  const std::vector<int64_t> found = download(places).to_i64();
  for (const int64_t i : kShown) {
    int64_t best = 0;
    for (int64_t j = 1; j < kColumns; ++j) best = value(i, j) > value(i, best) ? j : best;
    EXPECT_EQ(found[static_cast<size_t>(i)], best) << i;
  }
}

TEST_P(LargeTensorsTest, Concat) {
  const Ref<Tensor> joined = must_call("concat", {x_, rows(x_, 1, 3)}, along("concat", 0));
  expect_rows_of_x(joined);
  for (const int64_t i : {0, 1}) {
    expect_row(joined, kRows + i, [&](int64_t j) { return value(1 + i, j); });
  }
}

TEST_P(LargeTensorsTest, Transpose_IsCopied) {
  const Ref<Tensor> turned = must_call("transpose", {x_});
  const Ref<Tensor> y = must_call(
      "bitwise_not", {must_call("concat", {turned, rows(turned, 0, 1)}, along("concat", 0))});
  ASSERT_TRUE(y);
  for (const int64_t j : {int64_t{0}, int64_t{32767}, int64_t{32768}, kColumns - 1}) {
    expect_row(y, j, [&](int64_t i) { return static_cast<uint8_t>(~value(i, j)); });
  }
  expect_row(y, kColumns, [&](int64_t i) { return static_cast<uint8_t>(~value(i, 0)); });
}

TEST_P(LargeTensorsTest, SliceAndGather) {
  const Ref<Tensor> back =
      must_call("slice", {x_, list({-1}), list({INT64_MIN}), list({0}), list({-8192})});
  ASSERT_TRUE(back);
  ASSERT_EQ(back->sizes(), (Dims{9, kColumns}));
  for (int64_t k = 0; k < 9; ++k) {
    expect_row(back, k, [&](int64_t j) { return value(kRows - 1 - k * 8192, j); });
  }
  const std::vector<int64_t> picked = {65536, 0, 32768, 65535, 32767};
  const Ref<Tensor> taken = must_call("gather", {x_, list(picked)}, along("gather", 0));
  ASSERT_TRUE(taken);
  for (size_t k = 0; k < picked.size(); ++k) {
    expect_row(taken, static_cast<int64_t>(k), [&](int64_t j) { return value(picked[k], j); });
  }
  const int64_t half = int64_t{1} << 31;
  const int64_t last = kRows * kColumns - 1;
  const std::vector<int64_t> places = {half - 1, half, half + 1, 2 * half - 1, 2 * half, last, 0};
  const Ref<Tensor> flat = must_call("reshape", {x_, list({-1})});
  const Ref<Tensor> elements = must_call("gather", {flat, list(places)}, along("gather", 0));
  ASSERT_TRUE(elements);
  const std::vector<int64_t> found = download(elements).to_i64();
  for (size_t k = 0; k < places.size(); ++k) {
    EXPECT_EQ(found[k], value(places[k] / kColumns, places[k] % kColumns)) << places[k];
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, LargeTensorsTest, testing::ValuesIn(tests::device_names()),
                         device_test_name);

}  // namespace
}  // namespace bp
