// SPDX-License-Identifier: Apache-2.0
//
// The operators that choose by indices, write where indices say, or look for extreme values, on
// every device against the oracle: by its own kernels or on the host device, all element sizes,
// strided operands; and indices out of range, which are told and never followed.
#include <gmock/gmock.h>

#include <limits>

#include "tests/integration/device_fixture.hpp"

namespace bp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint32_t kElementTypes[] = {BP_DTYPE_BOOL, BP_DTYPE_I8,   BP_DTYPE_U16,
                                      BP_DTYPE_F16,  BP_DTYPE_BF16, BP_DTYPE_I32,
                                      BP_DTYPE_F32,  BP_DTYPE_I64,  BP_DTYPE_F64};

class ScatterTest : public DeviceTest {
 protected:
  static OracleTensor numbered(uint32_t dtype, const Dims& sizes) {
    std::vector<double> numbers(static_cast<size_t>(element_count(sizes)));
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i * 7 % 31);
    return OracleTensor::from_f64(dtype, sizes, numbers);
  }
  Ref<Tensor> indices(uint32_t dtype, const Dims& sizes, const std::vector<int64_t>& values) {
    return upload(OracleTensor::from_i64(dtype, sizes, values));
  }
  void expect_as_oracle(std::string_view name, const std::vector<Ref<Tensor>>& inputs,
                        const Attributes& given, const std::string& what) {
    std::vector<OracleTensor> values;
    for (const Ref<Tensor>& input : inputs) values.push_back(download(input));
    std::vector<OracleTensor> expected;
    const Status status =
        evaluate(runtime_->registry().schema(op(name)), values, given.data(), &expected);
    ASSERT_TRUE(status.ok()) << what << ": " << status.to_string();
    const auto found = try_call(name, inputs, given);
    ASSERT_TRUE(found.ok()) << what << ": " << found.status().to_string();
    const OracleTensor host = download(*found);
    EXPECT_EQ(host.sizes, expected[0].sizes) << name << ", " << what;
    EXPECT_EQ(host.bytes, expected[0].bytes) << name << ", " << what;
  }
  Attributes with(std::string_view name, std::string_view field, int64_t value) {
    Attributes made = attributes(name);
    EXPECT_TRUE(made.set_i64(field, value).ok());
    return made;
  }
  Attributes reducing(std::string_view name, std::string_view reduction) {
    Attributes made = attributes(name);
    EXPECT_TRUE(made.set_str("reduction", reduction).ok());
    return made;
  }
};

TEST_P(ScatterTest, GatherElementsAndNd_AnyDtype_AreAsTheOracle) {
  for (const uint32_t dtype : kElementTypes) {
    for (const uint32_t of : {BP_DTYPE_I32, BP_DTYPE_I64}) {
      const std::string what = "dtype " + std::to_string(dtype) + " by " + std::to_string(of);
      const Ref<Tensor> x = upload(numbered(dtype, {3, 4}));
      const Ref<Tensor> turned = must_call("transpose", {upload(numbered(dtype, {4, 3}))});
      const Ref<Tensor> places = indices(of, {2, 3}, {0, -1, 2, 1, 1, -3});
      for (const Ref<Tensor>& from : {x, turned}) {
        expect_as_oracle("gather_elements", {from, places}, with("gather_elements", "axis", 0),
                         what);
        expect_as_oracle("gather_elements", {from, places}, with("gather_elements", "axis", -1),
                         what);
        expect_as_oracle("gather_nd", {from, indices(of, {2, 2}, {0, -1, 2, 1})}, {}, what);
        expect_as_oracle("gather_nd", {from, indices(of, {3, 1}, {0, -1, 2})}, {}, what);
        expect_as_oracle("gather_nd", {from, indices(of, {3, 2, 1}, {0, -1, 2, 3, 0, 1})},
                         with("gather_nd", "batch_dims", 1), what);
      }
    }
  }
}

TEST_P(ScatterTest, Scatters_AnyDtypeAndReduction_AreAsTheOracle) {
  for (const uint32_t dtype : kElementTypes) {
    const Ref<Tensor> x = upload(numbered(dtype, {3, 4}));
    const Ref<Tensor> turned = must_call("transpose", {upload(numbered(dtype, {4, 3}))});
    for (const char* reduction : {"none", "add", "mul", "max", "min"}) {
      for (const uint32_t of : {BP_DTYPE_I32, BP_DTYPE_I64}) {
        const std::string what = std::string(reduction) + " of dtype " + std::to_string(dtype) +
                                 " by " + std::to_string(of);
        const Ref<Tensor> places = indices(of, {2, 3}, {0, -1, 2, -3, 1, 2});
        const Ref<Tensor> updates = upload(numbered(dtype, {2, 3}));
        for (const Ref<Tensor>& into : {x, turned}) {
          Attributes along = reducing("scatter_elements", reduction);
          expect_as_oracle("scatter_elements", {into, places, updates}, along, what);
          ASSERT_TRUE(along.set_i64("axis", 1).ok());
          expect_as_oracle("scatter_elements", {into, places, updates}, along, what);
          expect_as_oracle(
              "scatter_nd",
              {into, indices(of, {4, 1}, {2, 0, -1, 2}), upload(numbered(dtype, {4, 4}))},
              reducing("scatter_nd", reduction), what);
          expect_as_oracle(
              "scatter_nd",
              {into, indices(of, {3, 2}, {2, 0, -1, 0, 1, 3}), upload(numbered(dtype, {3}))},
              reducing("scatter_nd", reduction), what);
        }
      }
    }
  }
}

TEST_P(ScatterTest, Compress_AnyDtype_IsAsTheOracle) {
  const Ref<Tensor> condition =
      upload(OracleTensor::from_i64(BP_DTYPE_BOOL, {3}, std::vector<int64_t>{1, 0, 1}));
  for (const uint32_t dtype : kElementTypes) {
    const std::string what = "dtype " + std::to_string(dtype);
    const Ref<Tensor> x = upload(numbered(dtype, {3, 4}));
    expect_as_oracle("compress", {x, condition}, {}, what);
    expect_as_oracle("compress", {x, condition}, with("compress", "axis", -1), what);
    expect_as_oracle("compress", {must_call("transpose", {x}), condition}, {}, what);
  }
}

TEST_P(ScatterTest, ArgmaxAndArgmin_AnyDtype_AreAsTheOracle) {
  for (const uint32_t dtype : kElementTypes) {
    if (dtype == BP_DTYPE_BOOL) continue;
    const Ref<Tensor> x = upload(numbered(dtype, {5, 70}));
    for (const char* name : {"argmax", "argmin"}) {
      for (const int64_t last : {0, 1}) {
        Attributes given = with(name, "select_last_index", last);
        const std::string what = "dtype " + std::to_string(dtype) + ", " + std::to_string(last);
        expect_as_oracle(name, {x}, given, what);
        ASSERT_TRUE(given.set_i64("axis", 1).ok());
        expect_as_oracle(name, {x}, given, what);
        expect_as_oracle(name, {must_call("transpose", {x})}, given, what);
      }
    }
  }
}

TEST_P(ScatterTest, IndexOutOfRange_IsToldAndNeverFollowed) {
  const Ref<Tensor> x = upload_f32({3}, {1, 2, 3});
  const Ref<Tensor> bad = indices(BP_DTYPE_I64, {2}, {1, 1'000'000'000'000});
  const Ref<Tensor> rows = indices(BP_DTYPE_I32, {2, 1}, {-77, 0});
  const Ref<Tensor> updates = upload_f32({2}, {5, 6});
  const std::pair<const char*, std::vector<Ref<Tensor>>> calls[] = {
      {"gather_elements", {x, bad}},
      {"gather_nd", {x, rows}},
      {"scatter_elements", {x, bad, updates}},
      {"scatter_nd", {x, rows, updates}}};
  for (const auto& [name, inputs] : calls) {
    const auto found = try_call(name, inputs);
    const Status told = found.ok() ? copy_to_host(*found).status() : found.status();
    EXPECT_FALSE(told.ok()) << name;
    EXPECT_THAT(told.message(), HasSubstr(name));
    EXPECT_THAT(told.message(), HasSubstr(inputs[1] == bad ? "1000000000000" : "-77"));
  }
  // Told once; the device goes on.
  EXPECT_THAT(
      values(must_call("scatter_elements", {x, indices(BP_DTYPE_I64, {2}, {-1, 0}), updates})),
      ElementsAre(6, 2, 5));
}

TEST_P(ScatterTest, NanIsTheExtreme_AndTiesTakeTheFirst) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const uint32_t dtype : {BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_F32, BP_DTYPE_F64}) {
    const Ref<Tensor> x =
        upload(OracleTensor::from_f64(dtype, {6}, std::vector{1.0, kNan, 9.0, kNan, 9.0, -0.0}));
    const Ref<Tensor> zeros =
        upload(OracleTensor::from_f64(dtype, {3}, std::vector{-0.0, 0.0, -0.0}));
    for (const char* name : {"argmax", "argmin"}) {
      EXPECT_THAT(values(must_call(name, {x})), ElementsAre(1));
      EXPECT_THAT(values(must_call(name, {x}, with(name, "select_last_index", 1))), ElementsAre(3));
      EXPECT_THAT(values(must_call(name, {zeros})), ElementsAre(0));
    }
  }
}

TEST_P(ScatterTest, OneHot_AnyDtype_IsAsTheOracle) {
  for (const uint32_t dtype : kElementTypes) {
    const Ref<Tensor> values = upload(numbered(dtype, {2}));
    for (const uint32_t of : {BP_DTYPE_I32, BP_DTYPE_I64}) {
      const Ref<Tensor> picks = indices(of, {2, 3}, {0, 1, -1, 7, -9, 3});
      const Ref<Tensor> depth = indices(BP_DTYPE_I64, {}, {4});
      for (const int64_t axis : {-1, 0, 1}) {
        expect_as_oracle("one_hot", {picks, depth, values}, with("one_hot", "axis", axis),
                         "dtype " + std::to_string(dtype) + ", " + std::to_string(axis));
      }
    }
  }
}

TEST_P(ScatterTest, CumsumAndCumprod_AnyDtype_AreAsTheOracle) {
  for (const uint32_t dtype : kElementTypes) {
    if (dtype == BP_DTYPE_BOOL) continue;
    const Ref<Tensor> x = upload(OracleTensor::from_f64(
        dtype, {2, 3, 2}, std::vector<double>{1, 2, 3, 1, 2, 2, 1, 1, 3, 2, 2, 1}));
    for (const char* name : {"cumsum", "cumprod"}) {
      for (const int64_t axis : {0, 1, -1}) {
        Attributes given = with(name, "exclusive", axis == 0 ? 1 : 0);
        ASSERT_TRUE(given.set_i64("reverse", axis == 1 ? 1 : 0).ok());
        const Ref<Tensor> along = indices(BP_DTYPE_I64, {}, {axis});
        const std::string what = "dtype " + std::to_string(dtype) + ", " + std::to_string(axis);
        expect_as_oracle(name, {x, along}, given, what);
        expect_as_oracle(name, {must_call("transpose", {x}), along}, given, what);
      }
    }
  }
}

TEST_P(ScatterTest, TopK_AnyDtype_IsAsTheOracle) {
  for (const uint32_t dtype : kElementTypes) {
    if (dtype == BP_DTYPE_BOOL) continue;
    const OracleTensor values = numbered(dtype, {7, 40});
    const Ref<Tensor> x = upload(values);
    const Ref<Tensor> k = indices(BP_DTYPE_I64, {1}, {6});
    for (const int64_t largest : {0, 1}) {
      for (const int64_t axis : {0, 1}) {
        Attributes given = with("top_k", "largest", largest);
        ASSERT_TRUE(given.set_i64("axis", axis).ok());
        const OracleTensor inputs[] = {values, download(k)};
        std::vector<OracleTensor> expected;
        ASSERT_TRUE(
            evaluate(runtime_->registry().schema(op("top_k")), inputs, given.data(), &expected)
                .ok());
        Tensor* const pointers[] = {x.get(), k.get()};
        Ref<Tensor> outputs[2];
        const Status status = call(*runtime_,
                                   {.op = op("top_k"),
                                    .inputs = pointers,
                                    .attributes = given.data(),
                                    .stream = nullptr,
                                    .device = device_},
                                   outputs);
        ASSERT_TRUE(status.ok()) << status.to_string();
        EXPECT_EQ(download(outputs[0]).bytes, expected[0].bytes) << dtype << ", " << axis;
        EXPECT_EQ(download(outputs[1]).bytes, expected[1].bytes) << dtype << ", " << axis;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, ScatterTest, testing::ValuesIn(tests::device_names()),
                         device_test_name);

}  // namespace
}  // namespace bp
