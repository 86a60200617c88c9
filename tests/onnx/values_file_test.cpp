// SPDX-License-Identifier: Apache-2.0
#include "tests/onnx/values_file.hpp"

#include <gmock/gmock.h>

#include <cstring>
#include <limits>
#include <span>
#include <stdexcept>

#include "backplane/types.h"
#include "core/base/temp_folder_test.hpp"

namespace bp::tests {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr Tolerance kOnnx{.relative = 1e-3, .absolute = 1e-7, .rms = 0};
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

template <class T>
CaseTensor tensor(uint32_t dtype, const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span<const T>(values));
  return {"t", dtype, {static_cast<int64_t>(values.size())}, {bytes.begin(), bytes.end()}};
}

std::string between(const std::vector<float>& expected, const std::vector<float>& found,
                    const Tolerance& tolerance = kOnnx) {
  return difference(tensor(BP_DTYPE_F32, expected), tensor(BP_DTYPE_F32, found), tolerance).words;
}

TEST(DifferenceTest, FloatsWithinTolerance_AreEqual) {
  EXPECT_THAT(between({1, 1000, 0}, {1.0009F, 999.1F, 9e-8F}), IsEmpty());
  EXPECT_THAT(between({kNan, kInf, -0.0F}, {-kNan, kInf, 0.0F}), IsEmpty());
  EXPECT_THAT(between({kNan, kInf, 1}, {kNan, kInf, 1.0005F}), IsEmpty());
}

TEST(DifferenceTest, FloatsBeyondTolerance_NamesTheFirst) {
  EXPECT_THAT(between({1, 2, 3}, {1, 2.01F, 4}),
              HasSubstr("2 of 3 elements differ, the first at 1: expected 2, found 2.0"));
  EXPECT_THAT(between({0}, {2e-7F}), HasSubstr("1 of 1"));
  EXPECT_THAT(between({1}, {kNan}), HasSubstr("found nan"));
  EXPECT_THAT(between({kNan}, {1}), HasSubstr("expected nan"));
  EXPECT_THAT(between({kInf}, {3e38F}), HasSubstr("expected inf"));
  EXPECT_THAT(between({kInf}, {-kInf}), HasSubstr("found -inf"));
}

TEST(DifferenceTest, Rms_ScalesWithTheExpectedTensor) {
  const Tolerance tolerance{.relative = 0, .absolute = 0, .rms = 1e-2};
  EXPECT_THAT(between({100, 100, 0}, {100, 100, 0.8F}, tolerance), IsEmpty());
  EXPECT_THAT(between({100, 100, 0}, {100, 100, 0.9F}, tolerance), HasSubstr("at 2"));
  EXPECT_THAT(between({100, 100, kInf, kNan, 0}, {100, 100, kInf, kNan, 0.8F}, tolerance),
              IsEmpty());
}

TEST(DifferenceTest, Widest_IsInTolerances) {
  const auto widest = [](const std::vector<float>& expected, const std::vector<float>& found) {
    return difference(tensor(BP_DTYPE_F32, expected), tensor(BP_DTYPE_F32, found), kOnnx).widest;
  };
  EXPECT_EQ(widest({1, kNan, kInf}, {1, kNan, kInf}), 0);
  EXPECT_NEAR(widest({1, 1000}, {1.002F, 1008}), 8, 1e-3);
  EXPECT_NEAR(widest({0.5F, 0.25F}, {0, 0}), 1000, 1);
  EXPECT_EQ(widest({1}, {kNan}), kInf);
  EXPECT_EQ(widest({kNan}, {1}), kInf);
  EXPECT_EQ(widest({kInf}, {3e38F}), kInf);
  EXPECT_EQ(widest({3e38F}, {kInf}), kInf);
  EXPECT_EQ(widest({1}, {1, 1}), kInf);
}

TEST(DifferenceTest, IntegersDiffer_EvenByOne) {
  const auto between_whole = [](int64_t expected, int64_t found) {
    return difference(tensor<int64_t>(BP_DTYPE_I64, {expected}),
                      tensor<int64_t>(BP_DTYPE_I64, {found}), kOnnx);
  };
  EXPECT_THAT(between_whole(1000000, 1000001).words, HasSubstr("1 of 1"));
  EXPECT_EQ(between_whole(1000000, 1000001).widest, kInf);
  const int64_t large = int64_t{1} << 60;  // equal to its neighbour as a double
  EXPECT_THAT(between_whole(large, large + 1).words, HasSubstr("bytes differ"));
  EXPECT_EQ(between_whole(large, large + 1).widest, kInf);
}

TEST(DifferenceTest, DtypeOrSizesDiffer_NamesBoth) {
  EXPECT_THAT(
      difference(tensor<float>(BP_DTYPE_F32, {1}), tensor<double>(BP_DTYPE_F64, {1}), kOnnx).words,
      HasSubstr("expected dtype code 12 [1], found dtype code 13 [1]"));
  EXPECT_THAT(between({1}, {1, 1}), HasSubstr("found dtype code 12 [2]"));
}

TEST(ToDoublesTest, HalfTypes_HaveTheirValues) {
  EXPECT_THAT(to_doubles(tensor<uint16_t>(BP_DTYPE_F16, {0x3C00, 0xC100, 0x0001, 0x7BFF})),
              testing::ElementsAre(1.0, -2.5, 0x1p-24, 65504.0));
  EXPECT_THAT(to_doubles(tensor<uint16_t>(BP_DTYPE_BF16, {0x3F80, 0xC020})),
              testing::ElementsAre(1.0, -2.5));
}

TEST(ReadValuesTest, WrittenFile_ComesBack) {
  const TempFolder folder;
  const std::string path =
      folder.write("values",
                   "tolerance 0.5 0.25 0.125\noption batch 2\nset\ninput 6 2 1 3 a name\nxyz"
                   "output 6 0 y\n\nset\n");
  const CaseValues values = read_values(path);
  EXPECT_EQ(values.tolerance.rms, 0.125);
  EXPECT_EQ(values.dims.at("batch"), 2);
  ASSERT_EQ(values.sets.size(), 2U);
  ASSERT_EQ(values.sets[0].inputs.size(), 1U);
  EXPECT_EQ(values.sets[0].inputs[0].name, "a name");
  EXPECT_THAT(values.sets[0].inputs[0].sizes, testing::ElementsAre(1, 3));
  EXPECT_THAT(to_doubles(values.sets[0].inputs[0]), testing::ElementsAre('x', 'y', 'z'));
  EXPECT_THAT(to_doubles(values.sets[0].outputs[0]), testing::ElementsAre('\n'));
}

TEST(ReadValuesTest, ShortOrUnknown_Throws) {
  const TempFolder folder;
  EXPECT_THROW(read_values(folder.write("short", "set\ninput 12 1 100 x\nxyz")),
               std::runtime_error);
  EXPECT_THROW(read_values(folder.write("unknown", "sets\n")), std::runtime_error);
  EXPECT_THROW(read_values(folder.path("none")), std::runtime_error);
}

}  // namespace
}  // namespace bp::tests
