// SPDX-License-Identifier: Apache-2.0
//
// conv_transpose on every device, by a kernel or as convolutions, with NaN and infinities among the
// weights and in x: no element of y has any but those that the operator says.
#include "tests/integration/device_fixture.hpp"

namespace bp {
namespace {

struct Geometry {
  Dims x;
  Dims w;
  int64_t group = 1;
  std::vector<int64_t> strides = {};
  std::vector<int64_t> dilations = {};
  std::vector<int64_t> pads = {};
  std::vector<int64_t> output_padding = {};
  std::vector<int64_t> output_shape = {};
  std::string_view auto_pad = "NOTSET";
};

class ConvTransposeTest : public DeviceTest {
 protected:
  void SetUp() override {
    RuntimeArgs args = test_runtime_args();
    args.options = {{"BACKPLANE_FALLBACK", "deny"}};
    open(args);
  }

  Attributes attributes_of(const Geometry& geometry) {
    Attributes made = attributes("conv_transpose");
    EXPECT_TRUE(made.set_i64("group", geometry.group).ok());
    EXPECT_TRUE(made.set_i64s("strides", geometry.strides).ok());
    EXPECT_TRUE(made.set_i64s("dilations", geometry.dilations).ok());
    EXPECT_TRUE(made.set_i64s("pads", geometry.pads).ok());
    EXPECT_TRUE(made.set_i64s("output_padding", geometry.output_padding).ok());
    EXPECT_TRUE(made.set_i64s("output_shape", geometry.output_shape).ok());
    EXPECT_TRUE(made.set_str("auto_pad", geometry.auto_pad).ok());
    return made;
  }

  /// Small whole numbers, but for every `step`th, which are NaN and infinities in turn; 0: for
  /// none.
  static OracleTensor numbers(uint32_t dtype, const Dims& sizes, size_t step) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    constexpr double kOdd[] = {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity};
    std::vector<double> values(static_cast<size_t>(element_count(sizes)));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<double>(i * 7 % 11) - 4;
      if (step != 0 && i % step == step / 2) values[i] = kOdd[i / step % std::size(kOdd)];
    }
    return OracleTensor::from_f64(dtype, sizes, values);
  }

  void expect_as_oracle(const Geometry& geometry, uint32_t dtype, size_t x_step, size_t w_step) {
    const Attributes given = attributes_of(geometry);
    const std::vector<OracleTensor> inputs = {
        numbers(dtype, geometry.x, x_step), numbers(dtype, geometry.w, w_step),
        numbers(dtype, Dims{geometry.w[1] * geometry.group}, 0)};
    std::vector<OracleTensor> expected;
    const OpSchema& schema = runtime_->registry().schema(op("conv_transpose"));
    ASSERT_TRUE(evaluate(schema, inputs, given.data(), &expected).ok());
    std::vector<Ref<Tensor>> uploaded;
    for (const OracleTensor& input : inputs) uploaded.push_back(upload(input));
    const auto found = try_call("conv_transpose", uploaded, given);
    ASSERT_TRUE(found.ok()) << found.status().to_string();
    const OracleTensor host = download(*found);
    ASSERT_EQ(host.sizes, expected[0].sizes);
    expect_close(host.to_f64(), expected[0].to_f64(), 0, 0);
  }
};

const Geometry kGeometries[] = {
    {.x = {1, 1, 3}, .w = {1, 1, 2}, .strides = {2}},
    {.x = {2, 3, 5, 4}, .w = {3, 2, 3, 3}, .strides = {2, 2}, .pads = {1, 1, 1, 1}},
    {.x = {1, 4, 4, 4}, .w = {4, 1, 4, 4}, .group = 2, .strides = {2, 2}, .pads = {1, 1, 1, 1}},
    {.x = {1, 2, 3, 4}, .w = {2, 2, 2, 3}, .strides = {4, 3}, .dilations = {6, 2}},
    {.x = {1, 2, 3, 3}, .w = {2, 2, 1, 1}, .strides = {3, 2}, .output_padding = {2, 1}},
    {.x = {1, 2, 4, 4}, .w = {2, 2, 3, 3}, .strides = {2, 3}, .output_shape = {4, 15}},
    {.x = {1, 2, 4, 4}, .w = {2, 2, 3, 3}, .strides = {2, 2}, .auto_pad = "SAME_LOWER"},
    {.x = {1, 2, 3, 1, 2}, .w = {2, 1, 2, 3, 2}, .strides = {2, 2, 2}},
    {.x = {1, 2, 0, 3}, .w = {2, 1, 3, 3}, .strides = {2, 2}},
};

TEST_P(ConvTransposeTest, NanAndInfinity_ReachWhatTheyMeetAlone) {
  for (const Geometry& geometry : kGeometries) {
    for (const uint32_t dtype : {BP_DTYPE_F32, BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_F64}) {
      SCOPED_TRACE("x " + to_string(geometry.x) + ", w " + to_string(geometry.w) + ", dtype " +
                   std::to_string(dtype));
      expect_as_oracle(geometry, dtype, 0, 0);
      expect_as_oracle(geometry, dtype, 0, 5);
      expect_as_oracle(geometry, dtype, 7, 0);
      expect_as_oracle(geometry, dtype, 7, 5);
    }
  }
}

TEST_P(ConvTransposeTest, WhyItIsNotDecomposed_IsTold) {
  if (offers("conv_transpose")) GTEST_SKIP() << "it has a kernel";
  const Geometry geometry{.x = {1, 1, 2, 2}, .w = {1, 1, 1, 1}, .strides = {33, 32}};
  const auto found = try_call("conv_transpose",
                              {upload(numbers(BP_DTYPE_F32, geometry.x, 0)),
                               upload(numbers(BP_DTYPE_F32, geometry.w, 0)), nullptr},
                              attributes_of(geometry));
  expect_words(found.status(),
               {"no kernel for this operator; it is not decomposed: strides that make more than "
                "1024 convolutions of one"});
}

INSTANTIATE_TEST_SUITE_P(Devices, ConvTransposeTest, testing::ValuesIn(tests::device_names()),
                         device_test_name);

}  // namespace
}  // namespace bp
