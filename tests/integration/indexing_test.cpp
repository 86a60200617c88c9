// SPDX-License-Identifier: Apache-2.0
//
// gather and non_zero on every device, by its own kernels, against the oracle: all element sizes,
// both index dtypes, any axis, strided operands, nothing at all, and the zeros that floats have.
#include <limits>

#include "tests/integration/device_fixture.hpp"

namespace bp {
namespace {

constexpr uint32_t kDtypes[] = {BP_DTYPE_BOOL, BP_DTYPE_I8,  BP_DTYPE_I16, BP_DTYPE_F16,
                                BP_DTYPE_I32,  BP_DTYPE_F32, BP_DTYPE_I64, BP_DTYPE_F64};

class IndexingTest : public DeviceTest {
 protected:
  static OracleTensor numbered(uint32_t dtype, const Dims& sizes) {
    std::vector<double> numbers(static_cast<size_t>(element_count(sizes)));
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i % 100);
    return OracleTensor::from_f64(dtype, sizes, numbers);
  }
  void expect_as_oracle(std::string_view name, const std::vector<Ref<Tensor>>& inputs,
                        const Attributes& attributes, const std::string& what) {
    std::vector<OracleTensor> values;
    for (const Ref<Tensor>& input : inputs) values.push_back(download(input));
    std::vector<OracleTensor> expected;
    const Status status =
        evaluate(runtime_->registry().schema(op(name)), values, attributes.data(), &expected);
    ASSERT_TRUE(status.ok()) << what << ": " << status.to_string();
    const auto found = try_call(name, inputs, attributes);
    ASSERT_TRUE(found.ok()) << what << ": " << found.status().to_string();
    const OracleTensor host = download(*found);
    EXPECT_EQ(host.sizes, expected[0].sizes) << what;
    EXPECT_EQ(host.bytes, expected[0].bytes) << what;
  }
};

TEST_P(IndexingTest, Gather_AnyDtypeAxisAndStrides_IsAsTheOracle) {
  for (const uint32_t dtype : kDtypes) {
    for (const uint32_t index_dtype : {BP_DTYPE_I32, BP_DTYPE_I64}) {
      for (const int64_t axis : {0, 1, 2, -1}) {
        const Ref<Tensor> x = upload(numbered(dtype, {3, 4, 5}));
        const Ref<Tensor> turned = must_call("transpose", {x});
        Attributes along = attributes("gather");
        ASSERT_TRUE(along.set_i64("axis", axis).ok());
        const std::string what = "dtype " + std::to_string(dtype) + ", indices of dtype " +
                                 std::to_string(index_dtype) + ", axis " + std::to_string(axis);
        const Ref<Tensor> many = upload(
            OracleTensor::from_i64(index_dtype, {2, 3}, std::vector<int64_t>{0, 2, -1, 1, -3, 2}));
        expect_as_oracle("gather", {x, many}, along, what);
        expect_as_oracle("gather", {turned, many}, along, what + ", strided");
        expect_as_oracle("gather", {turned, must_call("transpose", {many})}, along,
                         what + ", both strided");
        const Ref<Tensor> one =
            upload(OracleTensor::from_i64(index_dtype, {}, std::vector<int64_t>{1}));
        expect_as_oracle("gather", {x, one}, along, what + ", one index");
        const Ref<Tensor> none = upload(OracleTensor::from_i64(index_dtype, {0}, {}));
        expect_as_oracle("gather", {x, none}, along, what + ", no index");
      }
    }
  }
  if (!offers("gather")) return;
  EXPECT_EQ(device_->counters().fallback_ops, 0u);
}

TEST_P(IndexingTest, NonZero_AnyDtypeAndStrides_IsAsTheOracle) {
  for (const uint32_t dtype : kDtypes) {
    for (const Dims& sizes : {Dims{}, {1}, {0}, {3, 0, 2}, {1000}, {3, 4, 5}, {7, 211}}) {
      OracleTensor values = numbered(dtype, sizes);
      const std::string what = "dtype " + std::to_string(dtype) + to_string(sizes);
      const Ref<Tensor> x = upload(values);
      expect_as_oracle("non_zero", {x}, {}, what);
      expect_as_oracle("non_zero", {must_call("transpose", {x})}, {}, what + ", strided");
    }
  }
  // npu's kernel leaves out the dtypes that it does not cast.
  if (GetParam() == "npu:0" || !offers("non_zero")) return;
  EXPECT_EQ(device_->counters().fallback_ops, 0u);
}

TEST_P(IndexingTest, NonZero_FloatsThatAreZeroOrNoNumber_AreToldApart) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const uint32_t dtype : {BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_F32, BP_DTYPE_F64}) {
    const Ref<Tensor> x = upload(
        OracleTensor::from_f64(dtype, {6}, std::vector{0.0, -0.0, kNan, 1.0, -kInfinity, 0.0}));
    EXPECT_EQ(download(must_call("non_zero", {x})).to_i64(), (std::vector<int64_t>{2, 3, 4}))
        << "dtype " << dtype;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, IndexingTest, testing::ValuesIn(tests::device_names()),
                         device_test_name);

}  // namespace
}  // namespace bp
