// SPDX-License-Identifier: Apache-2.0
//
// Operator calls on every device: values against the oracle, views, strided inputs, decomposition,
// fallback, data faults, data-dependent shapes, and errors in words.
#include <thread>

#include "core/dispatch/dispatcher.hpp"
#include "tests/integration/device_fixture.hpp"

namespace bp {
namespace {

using EagerTest = DeviceTest;

std::vector<double> ramp(int64_t count, double start = -3.0, double step = 0.37) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(start + step * static_cast<double>(i % 23));
  return values;
}

TEST_P(EagerTest, Add_Broadcast_MatchesOracle) {
  const auto a = OracleTensor::from_f64(BP_DTYPE_F32, {2, 3, 4}, ramp(24));
  const auto b = OracleTensor::from_f64(BP_DTYPE_F32, {3, 1}, ramp(3, 10.0));
  std::vector<OracleTensor> expected;
  const OracleTensor inputs[] = {a, b};
  ASSERT_TRUE(evaluate(runtime_->registry().schema(op("add")), inputs, nullptr, &expected).ok());
  const Ref<Tensor> sum = must_call("add", {upload(a), upload(b)});
  ASSERT_TRUE(sum);
  EXPECT_EQ(sum->sizes(), (Dims{2, 3, 4}));
  EXPECT_EQ(values(sum), expected[0].to_f64());
}

TEST_P(EagerTest, Softmax_OfMinusInfinityAlone_IsNan) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const Ref<Tensor> x = upload_f32({3, 2}, {-kInf, -kInf, 0, -kInf, kNan, 1});
  expect_close(values(must_call("softmax", {x}, attributes("softmax"))),
               {kNan, kNan, 1, 0, kNan, kNan});
  expect_close(values(must_call("log_softmax", {x}, attributes("log_softmax"))),
               {kNan, kNan, 0, -kInf, kNan, kNan});
}

TEST_P(EagerTest, Matmul_SizesThatDoNotFit_AreToldWithTheOperatorOnce) {
  const Ref<Tensor> x = upload_f32({2, 3}, std::vector<double>(6, 1));
  const Status status = try_call("matmul", {x, x}).status();
  EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT);
  EXPECT_TRUE(status.message().starts_with("matmul: ")) << status.message();
  EXPECT_FALSE(status.message().starts_with("matmul: matmul: ")) << status.message();
}

/// auto_pad came after most kernels: a call without it still finds them, and one with it becomes a
/// call without.
TEST_P(EagerTest, Conv_AutoPad_RunsOnTheSameKernel) {
  const auto x = OracleTensor::from_f64(BP_DTYPE_F32, {1, 2, 7}, ramp(14));
  const auto w = OracleTensor::from_f64(BP_DTYPE_F32, {3, 2, 4}, ramp(24, 1.0));
  for (const std::string mode : {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"}) {
    Attributes same = attributes("conv");
    ASSERT_TRUE(same.set_i64s("strides", std::vector<int64_t>{2}).ok());
    ASSERT_TRUE(same.set_str("auto_pad", mode).ok());
    std::vector<OracleTensor> expected;
    const OracleTensor inputs[] = {x, w};
    ASSERT_TRUE(
        evaluate(runtime_->registry().schema(op("conv")), inputs, same.data(), &expected).ok());
    const uint64_t fallbacks = device_->counters().fallback_ops.load();
    const Ref<Tensor> y = must_call("conv", {upload(x), upload(w)}, same);
    ASSERT_TRUE(y);
    EXPECT_EQ(y->sizes(), expected[0].sizes);
    const auto found = values(y);
    const auto wanted = expected[0].to_f64();
    ASSERT_EQ(found.size(), wanted.size());
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-4) << mode;
    if (offers("conv")) {
      EXPECT_EQ(device_->counters().fallback_ops.load(), fallbacks) << mode;
    }
  }
}

TEST_P(EagerTest, Add_ZeroSize_GivesAnEmptyTensor) {
  const Ref<Tensor> sum = must_call("add", {upload_f32({0, 3}, {}), upload_f32({3}, ramp(3))});
  ASSERT_TRUE(sum);
  EXPECT_EQ(sum->sizes(), (Dims{0, 3}));
  EXPECT_TRUE(values(sum).empty());
}

TEST_P(EagerTest, Relu_ZeroDimensional_Works) {
  const Ref<Tensor> y = must_call("relu", {upload_f32({}, {-2.0})});
  EXPECT_EQ(values(y), std::vector<double>{0.0});
}

TEST_P(EagerTest, Transpose_View_IsReadAndUsedInItsNewOrder) {
  Attributes perm = attributes("transpose");
  ASSERT_TRUE(perm.set_i64s("perm", std::vector<int64_t>{1, 0}).ok());
  const Ref<Tensor> x = upload_f32({2, 3}, {1, 2, 3, 4, 5, 6});
  const uint64_t launches = device_->counters().launches.load();
  const Ref<Tensor> t = must_call("transpose", {x}, perm);
  EXPECT_EQ(device_->counters().launches.load(), launches) << "a view needs no kernel";
  EXPECT_EQ(t->sizes(), (Dims{3, 2}));
  EXPECT_EQ(values(t), (std::vector<double>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(values(must_call("add", {t, t})), (std::vector<double>{2, 8, 4, 10, 6, 12}));
}

TEST_P(EagerTest, Reshape_OfTransposed_MakesItContiguousFirst) {
  const Ref<Tensor> t = must_call("transpose", {upload_f32({2, 3}, {1, 2, 3, 4, 5, 6})});
  const auto shape = OracleTensor::from_i64(BP_DTYPE_I64, {1}, std::vector<int64_t>{-1});
  const Ref<Tensor> flat = must_call("reshape", {t, upload(shape)});
  ASSERT_TRUE(flat);
  EXPECT_EQ(flat->sizes(), (Dims{6}));
  EXPECT_EQ(values(flat), (std::vector<double>{1, 4, 2, 5, 3, 6}));
}

TEST_P(EagerTest, Matmul_TransposedInput_MatchesOracle) {
  const auto a = OracleTensor::from_f64(BP_DTYPE_F32, {5, 4}, ramp(20));
  const auto b = OracleTensor::from_f64(BP_DTYPE_F32, {5, 6}, ramp(30, 1.0));
  const Ref<Tensor> at = must_call("transpose", {upload(a)});
  const Ref<Tensor> y = must_call("matmul", {at, upload(b)});
  std::vector<double> expected(24, 0.0);
  const auto av = a.to_f64();
  const auto bv = b.to_f64();
  for (size_t i = 0; i < 4; ++i) {
    for (size_t j = 0; j < 6; ++j) {
      for (size_t k = 0; k < 5; ++k) expected[i * 6 + j] += av[k * 4 + i] * bv[k * 6 + j];
    }
  }
  expect_close(values(y), expected);
}

TEST_P(EagerTest, Softmax_AnyPlacement_MatchesOracle) {
  const auto x = OracleTensor::from_f64(BP_DTYPE_F32, {3, 7}, ramp(21));
  std::vector<OracleTensor> expected;
  const OracleTensor inputs[] = {x};
  ASSERT_TRUE(
      evaluate(runtime_->registry().schema(op("softmax")), inputs, nullptr, &expected).ok());
  expect_close(values(must_call("softmax", {upload(x)})), expected[0].to_f64());
}

TEST_P(EagerTest, MaxPool_AnyPlacement_MatchesOracle) {
  Attributes pool = attributes("max_pool");
  ASSERT_TRUE(pool.set_i64s("kernel_shape", std::vector<int64_t>{2, 2}).ok());
  ASSERT_TRUE(pool.set_i64s("strides", std::vector<int64_t>{2, 2}).ok());
  const auto x = OracleTensor::from_f64(BP_DTYPE_F32, {1, 2, 4, 4}, ramp(32));
  std::vector<OracleTensor> expected;
  const OracleTensor inputs[] = {x};
  ASSERT_TRUE(
      evaluate(runtime_->registry().schema(op("max_pool")), inputs, pool.data(), &expected).ok());
  EXPECT_EQ(values(must_call("max_pool", {upload(x)}, pool)), expected[0].to_f64());
}

TEST_P(EagerTest, Gather_IndexOutOfRange_IsReportedWithOperatorIndexAndExtent) {
  const Ref<Tensor> x = upload_f32({4}, {10, 11, 12, 13});
  const auto bad = OracleTensor::from_i64(BP_DTYPE_I64, {2}, std::vector<int64_t>{1, 9});
  const auto y = try_call("gather", {x, upload(bad)});
  Status status = y.status();
  if (y.ok()) {
    std::vector<float> out(2);
    status = copy_to_host(*y, out.data(), 8);
  }
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT);
  for (const char* word : {"gather", "9", "4"}) {
    EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
  }
  const auto good = OracleTensor::from_i64(BP_DTYPE_I64, {2}, std::vector<int64_t>{-1, 0});
  EXPECT_EQ(values(must_call("gather", {x, upload(good)})), (std::vector<double>{13, 10}));
}

TEST_P(EagerTest, NonZero_DataDependent_GivesRealExtents) {
  const Ref<Tensor> x = upload_f32({2, 3}, {0, 5, 0, 7, 0, 9});
  const Ref<Tensor> y = must_call("non_zero", {x});
  ASSERT_TRUE(y);
  EXPECT_EQ(y->sizes(), (Dims{2, 3}));
  EXPECT_EQ(download(y).to_i64(), (std::vector<int64_t>{0, 1, 1, 1, 0, 2}));
  const Ref<Tensor> none = must_call("non_zero", {upload_f32({3}, {0, 0, 0})});
  EXPECT_EQ(none->sizes(), (Dims{1, 0}));
}

TEST_P(EagerTest, Cast_FloatToInt_SaturatesAndNanIsZero) {
  Attributes to = attributes("cast");
  ASSERT_TRUE(to.set_i64("to", BP_DTYPE_I32).ok());
  const Ref<Tensor> x = upload_f32({4}, {2.9, -2.9, 1e20, NAN});
  EXPECT_EQ(download(must_call("cast", {x}, to)).to_i64(),
            (std::vector<int64_t>{2, -2, INT32_MAX, 0}));
}

/// Each device brings the numbers of attributes to the dtype that it computes in.
TEST_P(EagerTest, Shrink_AttributesBeyondTheIntegers_AreTruncatedAndSaturated) {
  const std::vector<int64_t> x = {0, 1, 2, 100};
  for (const uint32_t dtype : {BP_DTYPE_U8, BP_DTYPE_I8, BP_DTYPE_I32, BP_DTYPE_U64}) {
    for (const auto& [bias, lambd] : std::vector<std::pair<double, double>>{
             {-2.5, 1.5}, {1, -2.5}, {300.5, 0}, {-1e30, 1}, {0, 1e30}, {NAN, 1}}) {
      Attributes set = attributes("shrink");
      ASSERT_TRUE(set.set_f64("bias", bias).ok() && set.set_f64("lambd", lambd).ok());
      const OracleTensor inputs[] = {OracleTensor::from_i64(dtype, {4}, x)};
      std::vector<OracleTensor> expected;
      const OpSchema& schema = runtime_->registry().schema(op("shrink"));
      ASSERT_TRUE(evaluate(schema, inputs, set.data(), &expected).ok());
      EXPECT_EQ(values(must_call("shrink", {upload(inputs[0])}, set)), expected[0].to_f64())
          << dtype_name(dtype) << " " << bias << " " << lambd;
    }
  }
}

TEST_P(EagerTest, Add_DtypesDiffer_ErrorNamesOperatorAndBoth) {
  const auto b = OracleTensor::from_i64(BP_DTYPE_I32, {2}, std::vector<int64_t>{1, 2});
  const auto y = try_call("add", {upload_f32({2}, {1, 2}), upload(b)});
  ASSERT_FALSE(y.ok());
  EXPECT_EQ(y.status().code(), BP_INVALID_ARGUMENT);
  for (const char* word : {"add", "f32", "i32"}) {
    EXPECT_NE(y.status().message().find(word), std::string::npos) << y.status().message();
  }
}

TEST_P(EagerTest, Add_ShapesDoNotBroadcast_ErrorNamesBoth) {
  const auto y = try_call("add", {upload_f32({2, 3}, ramp(6)), upload_f32({4}, ramp(4))});
  ASSERT_FALSE(y.ok());
  EXPECT_NE(y.status().message().find("add"), std::string::npos);
  EXPECT_NE(y.status().message().find("4"), std::string::npos);
}

TEST_P(EagerTest, Add_TwoDevices_ErrorNamesBoth) {
  if (GetParam() == "cpu:0") GTEST_SKIP() << "needs another device than cpu:0";
  auto other = runtime_->find_device("cpu:0");
  ASSERT_TRUE(other.ok());
  const float value = 1;
  auto there =
      copy_from_host((*other)->default_stream(), BP_DTYPE_F32, {1}, &value, MemoryTag::kIo);
  ASSERT_TRUE(there.ok());
  const auto y = try_call("add", {upload_f32({1}, {1}), *there});
  ASSERT_FALSE(y.ok());
  EXPECT_NE(y.status().message().find("cpu:0"), std::string::npos) << y.status().message();
  EXPECT_NE(y.status().message().find(GetParam()), std::string::npos) << y.status().message();
}

TEST_P(EagerTest, CopyToHost_WrongSize_ErrorNamesBoth) {
  const Ref<Tensor> x = upload_f32({3}, {1, 2, 3});
  float out[2];
  const Status status = copy_to_host(x, out, sizeof(out));
  EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT);
  EXPECT_NE(status.message().find("12"), std::string::npos);
}

TEST_P(EagerTest, Call_AfterClose_IsGone) {
  const Ref<Tensor> x = upload_f32({1}, {1});
  runtime_->close();
  EXPECT_EQ(try_call("relu", {x}).status().code(), BP_GONE);
  float out;
  EXPECT_EQ(copy_to_host(x, &out, 4).code(), BP_GONE);
}

TEST_P(EagerTest, Calls_ManyThreads_EachGetsItsOwnResult) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 50; ++i) {
        const double base = t * 100 + i;
        const Ref<Tensor> y = must_call("add", {upload_f32({2}, {base, 1}), upload_f32({}, {1})});
        ASSERT_TRUE(y);
        EXPECT_EQ(values(y), (std::vector<double>{base + 1, 2}));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(EagerTest, Tensors_OutliveTheRuntimeHandle_AndFreeTheirMemory) {
  Ref<Tensor> y = must_call("relu", {upload_f32({4}, {-1, 2, -3, 4})});
  Device* device = device_;
  runtime_ = nullptr;
  EXPECT_EQ(values(y), (std::vector<double>{0, 2, 0, 4}));
  EXPECT_GT(device->allocator().stats().allocated_bytes, 0u);
}

TEST_P(EagerTest, WorkerStream_OfTheUser_IsOrderedWithTheDefaultStream) {
  auto stream = device_->acquire_stream();
  ASSERT_TRUE(stream.ok()) << stream.status().to_string();
  const Ref<Tensor> x = upload_f32({1000}, std::vector<double>(1000, 1.0));
  Ref<Tensor> sum = x;
  for (int i = 0; i < 10; ++i) {
    Tensor* inputs[] = {sum.get(), x.get()};
    Ref<Tensor> next;
    const CallArgs args{.op = op("add"),
                        .inputs = inputs,
                        .attributes = nullptr,
                        .stream = i % 2 == 0 ? *stream : nullptr,
                        .device = nullptr};
    const Status status = call(*runtime_, args, {&next, 1});
    ASSERT_TRUE(status.ok()) << status.to_string();
    sum = next;
  }
  EXPECT_EQ(values(sum), std::vector<double>(1000, 11.0));
  device_->release_stream(*stream);
}

INSTANTIATE_TEST_SUITE_P(Devices, EagerTest, testing::ValuesIn(tests::device_names()),
                         device_test_name);

class PolicyTest : public DeviceTest {
 protected:
  void SetUp() override {}
};

TEST_P(PolicyTest, HostOps_Listed_RunOnTheHostDevice) {
  RuntimeArgs args = test_runtime_args();
  args.options.push_back({"BACKPLANE_HOST_OPS", "relu"});
  open(args);
  if (IsSkipped()) return;
  EXPECT_EQ(values(must_call("relu", {upload_f32({2}, {-1, 1})})), (std::vector<double>{0, 1}));
  EXPECT_EQ(device_->counters().fallback_ops, GetParam() == "cpu:0" ? 0u : 1u);
}

TEST_P(PolicyTest, HostOps_ListedAndFallbackDenied_TheErrorBlamesTheList) {
  if (GetParam() == "cpu:0") GTEST_SKIP() << "the host device itself never falls back";
  RuntimeArgs args = test_runtime_args();
  args.options = {{"BACKPLANE_FALLBACK", "deny"}, {"BACKPLANE_HOST_OPS", "relu"}};
  open(args);
  if (IsSkipped()) return;
  const auto y = try_call("relu", {upload_f32({2}, {-1, 1})});
  ASSERT_FALSE(y.ok());
  EXPECT_EQ(y.status().message(), "relu: operator relu does not run on " + GetParam() +
                                      " (it is on the BACKPLANE_HOST_OPS list) and "
                                      "BACKPLANE_FALLBACK is deny");
}

TEST_P(PolicyTest, FallbackDeny_NoKernel_ErrorGivesEveryReason) {
  if (GetParam() != "npu:0") GTEST_SKIP() << "no option takes kernels away";
  RuntimeArgs args = test_runtime_args();
  args.options = {{"BACKPLANE_FALLBACK", "deny"},
                  {"BACKPLANE_PLUGIN_OPTIONS", "npu.kernels=max_pool"}};
  open(args);
  if (IsSkipped()) return;
  Attributes pool = attributes("max_pool");
  ASSERT_TRUE(pool.set_i64s("kernel_shape", std::vector<int64_t>{2, 2}).ok());
  const auto y = try_call("max_pool", {upload_f32({1, 1, 2, 2}, {1, 2, 3, 4})}, pool);
  ASSERT_FALSE(y.ok());
  EXPECT_EQ(y.status().code(), BP_UNSUPPORTED);
  for (const char* word : {"max_pool", "no kernel", "deny"}) {
    EXPECT_NE(y.status().message().find(word), std::string::npos) << y.status().message();
  }
}

TEST_P(PolicyTest, HostOps_UnknownOperator_IsRefusedWithTheNearest) {
  RuntimeArgs args = test_runtime_args();
  args.options.push_back({"BACKPLANE_HOST_OPS", "relo"});
  const auto runtime = Runtime::create(args);
  ASSERT_FALSE(runtime.ok());
  EXPECT_NE(runtime.status().message().find("relu"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Devices, PolicyTest, testing::ValuesIn(tests::device_names()),
                         device_test_name);

}  // namespace
}  // namespace bp
