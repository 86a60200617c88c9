// SPDX-License-Identifier: Apache-2.0
//
// Sessions on every device: digits with its placements, shapes that depend on data, many threads,
// and every way to give a session wrong inputs.
#include <set>
#include <thread>

#include "ops/onnx/import.hpp"
#include "tests/integration/device_fixture.hpp"
#include "tests/living_threads.hpp"

namespace bp {
namespace {

class SessionTest : public DeviceTest {
 protected:
  Graph digits() {
    auto graph = load_onnx(BP_DIGITS_DIR "/digits.onnx", runtime_->registry());
    EXPECT_TRUE(graph.ok()) << graph.status().to_string();
    return std::move(*graph);
  }
  Ref<Tensor> images(int64_t count) {
    std::vector<double> pixels(static_cast<size_t>(count) * 64);
    for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<double>(i * 7 % 17) / 16;
    return upload_f32({count, 1, 8, 8}, pixels);
  }
};

TEST_P(SessionTest, Digits_Placement_IsAsTheDevicesKernelsSay) {
  const Ref<Session> s = session(digits());
  ASSERT_TRUE(s);
  const NamedTensor input[] = {{"image", images(1)}};
  ASSERT_TRUE(s->run(input).ok());
  const PlacementCounts counts = s->placement_counts();
  // 3 conv, 3 batch_norm, 4 relu, 2 max_pool, 1 flatten, 2 gemm, 1 softmax.
  EXPECT_EQ(counts.view, 1u);
  const bool absorbs = GetParam() == "cpu:0";  // one relu stands right behind a gemm
  EXPECT_EQ(counts.native + counts.decomposed + counts.fallback, absorbs ? 14u : 15u);
  // What each has kernels for; of another plugin nothing more is known here.
  if (GetParam() == "cpu:0") {
    EXPECT_EQ(counts.native, 14u);
    EXPECT_EQ(counts.decomposed, 0u);
    EXPECT_EQ(counts.fallback, 0u);
  } else if (GetParam() == "npu:0") {
    EXPECT_EQ(counts.native, 9u);      // conv, relu, max_pool
    EXPECT_EQ(counts.decomposed, 6u);  // batch_norm, gemm, softmax
    EXPECT_EQ(counts.fallback, 0u);
  } else if (GetParam() == "xpu:0") {
    EXPECT_EQ(counts.native, 13u);     // conv, batch_norm, relu, max_pool, softmax
    EXPECT_EQ(counts.decomposed, 2u);  // gemm
    EXPECT_EQ(counts.fallback, 0u);
  }
}

TEST_P(SessionTest, Digits_AnyBatch_MatchesOracle) {
  for (const int64_t batch : {1, 3}) {
    expect_oracle(digits(), {download(images(batch))});
  }
}

TEST_P(SessionTest, Digits_WarmRuns_StartNoThread) {
  const Ref<Session> s = session(digits());
  ASSERT_TRUE(s);
  const NamedTensor input[] = {{"image", images(1)}};
  const auto run_once = [&] {
    const auto outputs = s->run(input);
    ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
    ASSERT_TRUE(device_->sync().ok());
  };
  for (int i = 0; i < 10; ++i) run_once();
  const std::set<std::string> before = tests::living_threads();
  for (int i = 0; i < 100; ++i) run_once();
  EXPECT_EQ(tests::living_threads(), before);
}

TEST_P(SessionTest, Digits_SameShapeAgain_UsesTheSamePlan) {
  const Ref<Session> s = session(digits());
  for (int i = 0; i < 5; ++i) {
    const NamedTensor input[] = {{"image", images(i % 2 + 1)}};
    ASSERT_TRUE(s->run(input).ok());
  }
  EXPECT_EQ(s->plan_count(), 2u);
}

TEST_P(SessionTest, Run_ManyThreads_EachGetsItsOwnResult) {
  const Ref<Session> s = session(digits());
  const NamedTensor one[] = {{"image", images(1)}};
  auto expected = s->run(one);
  ASSERT_TRUE(expected.ok());
  const std::vector<double> probabilities = values((*expected)[0]);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        const NamedTensor input[] = {{"image", images(t + 1)}};
        auto outputs = s->run(input);
        ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
        std::vector<double> found = values((*outputs)[0]);
        found.resize(10);
        expect_close(found, probabilities);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(SessionTest, Run_HostInput_IsMovedToTheDevice) {
  const Ref<Session> s = session(digits());
  void* data = nullptr;
  auto host = HostTensor::allocate(BP_DTYPE_F32, {1, 1, 8, 8}, &data);
  ASSERT_TRUE(host.ok());
  const NamedTensor input[] = {{"image", Tensor::wrap_host(*host)}};
  auto outputs = s->run(input);
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  double total = 0;
  for (const double p : values((*outputs)[0])) total += p;
  EXPECT_NEAR(total, 1.0, 1e-5);
}

TEST_P(SessionTest, NonZeroThenGather_ShapeDependsOnData_RunsInSegments) {
  Graph graph(runtime_->registry());
  auto x = graph.add_input("x", {BP_DTYPE_F32, true, {6}});
  const ValueId only[] = {*x};
  auto where = graph.op("non_zero", only);
  ASSERT_TRUE(where.ok()) << where.status().to_string();
  const ValueId both[] = {*x, *where};
  auto picked = graph.op("gather", both);
  ASSERT_TRUE(picked.ok()) << picked.status().to_string();
  ASSERT_TRUE(graph.set_outputs({*picked, *where}, {"picked", "where"}).ok());
  const Ref<Session> s = session(std::move(graph));
  ASSERT_TRUE(s);
  const NamedTensor some[] = {{"x", upload_f32({6}, {0, 3, 0, 4, 5, 0})}};
  auto outputs = s->run(some);
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  EXPECT_EQ((*outputs)[0]->sizes(), (Dims{1, 3}));
  EXPECT_EQ(values((*outputs)[0]), (std::vector<double>{3, 4, 5}));
  EXPECT_EQ(download((*outputs)[1]).to_i64(), (std::vector<int64_t>{1, 3, 4}));
  const NamedTensor none[] = {{"x", upload_f32({6}, std::vector<double>(6, 0.0))}};
  outputs = s->run(none);
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  EXPECT_EQ((*outputs)[0]->sizes(), (Dims{1, 0}));
}

// A scalar's one element may be zero: the count is no constant, though no size of the input is
// free.
TEST_P(SessionTest, NonZeroOfAScalar_ItsShapeDependsOnTheValue) {
  Graph graph(runtime_->registry());
  const ValueId x = *graph.add_input("x", {BP_DTYPE_F32, true, {}});
  const ValueId where = *graph.op("non_zero", std::vector{x});
  const ValueId shape = *graph.op("shape", std::vector{where});
  ASSERT_TRUE(graph.set_outputs({where, shape}, {"where", "shape"}).ok());
  const Ref<Session> s = session(std::move(graph));
  ASSERT_TRUE(s);
  for (const double value : {0.0, 7.0}) {
    const NamedTensor given[] = {{"x", upload_f32({}, {value})}};
    const auto outputs = s->run(given);
    ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
    const int64_t count = value == 0 ? 0 : 1;
    EXPECT_EQ((*outputs)[0]->sizes(), (Dims{0, count}));
    EXPECT_EQ(download((*outputs)[1]).to_i64(), (std::vector<int64_t>{0, count}));
  }
}

TEST_P(SessionTest, Reshape_ShapeIsComputed_IsReadBetweenSegments) {
  Graph graph(runtime_->registry());
  auto x = graph.add_input("x", {BP_DTYPE_F32, true, {2, 6}});
  auto shape = graph.add_input("shape", {BP_DTYPE_I64, true, {2}});
  const ValueId doubled_inputs[] = {*shape, *shape};
  auto doubled = graph.op("add", doubled_inputs);
  ASSERT_TRUE(doubled.ok());
  const ValueId inputs[] = {*x, *doubled};
  auto y = graph.op("reshape", inputs);
  ASSERT_TRUE(y.ok()) << y.status().to_string();
  ASSERT_TRUE(graph.set_outputs({*y}, {"y"}).ok());
  const Ref<Session> s = session(std::move(graph));
  const auto two_one = OracleTensor::from_i64(BP_DTYPE_I64, {2}, std::vector<int64_t>{3, 1});
  const NamedTensor named[] = {{"x", upload_f32({2, 6}, std::vector<double>(12, 1.0))},
                               {"shape", upload(two_one)}};
  auto outputs = s->run(named);
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  EXPECT_EQ((*outputs)[0]->sizes(), (Dims{6, 2}));
}

TEST_P(SessionTest, Run_WrongInputs_EachIsNamedAndTheSessionGoesOn) {
  const Ref<Session> s = session(digits());
  const auto refused = [&](std::vector<NamedTensor> inputs, std::vector<std::string> words) {
    const auto outputs = s->run(inputs);
    ASSERT_FALSE(outputs.ok());
    EXPECT_EQ(outputs.status().code(), BP_INVALID_ARGUMENT);
    for (const std::string& word : words) {
      EXPECT_NE(outputs.status().message().find(word), std::string::npos)
          << outputs.status().message() << " lacks " << word;
    }
  };
  refused({}, {"image", "missing"});
  refused({{"imag", images(1)}}, {"imag", "did you mean 'image'"});
  refused({{"image", images(1)}, {"image", images(1)}}, {"twice"});
  refused({{"image", upload_f32({1, 8, 8}, std::vector<double>(64, 0))}},
          {"rank 4 [N, 1, 8, 8]", "[1, 8, 8]"});
  refused({{"image", upload_f32({1, 1, 8, 9}, std::vector<double>(72, 0))}},
          {"sizes [N, 1, 8, 8]", "[1, 1, 8, 9]"});
  const auto ints = OracleTensor::zeros(BP_DTYPE_I32, {1, 1, 8, 8});
  refused({{"image", upload(ints)}}, {"f32", "i32"});
  const NamedTensor good[] = {{"image", images(2)}};
  EXPECT_TRUE(s->run(good).ok());
}

TEST_P(SessionTest, Create_UnknownDimension_IsNamed) {
  SessionArgs args;
  args.device = device_;
  args.dims = {{"batch", 1}};
  const auto made = Session::create(*runtime_, digits(), args);
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.status().message().find("batch"), std::string::npos);
}

TEST_P(SessionTest, Create_DimensionWithoutAName_IsRefused) {
  SessionArgs args;
  args.device = device_;
  args.dims = {{"", 4}};
  const auto made = Session::create(*runtime_, row_of({"relu"}, {kUnknownDim, kUnknownDim}), args);
  ASSERT_FALSE(made.ok()) << "all unnamed dimensions would be fixed at once";
  EXPECT_EQ(made.status().code(), BP_INVALID_ARGUMENT);
  EXPECT_NE(made.status().message().find("args.dim_names"), std::string::npos);
}

TEST_P(SessionTest, SharedConstant_AnyPlace_ItsOffsetTellsTheAlignment) {
  if (!device_->has_host_memory()) GTEST_SKIP() << "constants are copied";
  // As weights in a mapped file lie: every fourth on a boundary of 256 bytes.
  constexpr size_t kPlaces = 4;
  alignas(256) static float weights[kPlaces * 16];
  for (size_t i = 0; i < kPlaces; ++i) {
    float* const place = weights + i * 16;
    place[0] = 1;
    place[1] = 2;
    Graph graph(runtime_->registry());
    const auto x = graph.add_input("x", {BP_DTYPE_F32, true, {2}});
    const HostTensor host{
        .dtype = BP_DTYPE_F32, .sizes = {2}, .data = place, .bytes = 8, .owner = {}};
    const auto w = graph.add_constant("w", host);
    ASSERT_TRUE(x.ok() && w.ok());
    const ValueId both[] = {*x, *w};
    const auto y = graph.op("add", both);
    ASSERT_TRUE(y.ok() && graph.set_outputs({*y}, {"y"}).ok());
    const Ref<Session> s = session(std::move(graph));
    ASSERT_TRUE(s);
    const NamedTensor input[] = {{"x", upload_f32({2}, {10, 20})}};
    const auto outputs = s->run(input);
    ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
    EXPECT_EQ(values((*outputs)[0]), (std::vector<double>{11, 22}));
    const Ref<Tensor> shared = share_constant(*device_, std::make_shared<const HostTensor>(host));
    ASSERT_TRUE(shared);
    const uint64_t begin = shared->storage().handle() + shared->storage().offset_bytes();
    EXPECT_EQ(begin + shared->offset_bytes(), reinterpret_cast<uint64_t>(place)) << "not copied";
    EXPECT_EQ(shared->offset_bytes() % 256, i * 64);
  }
}

TEST_P(SessionTest, Create_FixedDimension_OtherBatchIsRefused) {
  const Ref<Session> s = session(digits(), {{"N", 2}});
  ASSERT_TRUE(s);
  const NamedTensor two[] = {{"image", images(2)}};
  EXPECT_TRUE(s->run(two).ok());
  const NamedTensor three[] = {{"image", images(3)}};
  EXPECT_EQ(s->run(three).status().code(), BP_INVALID_ARGUMENT);
}

TEST_P(SessionTest, Run_AfterClose_IsGone) {
  const Ref<Session> s = session(digits());
  const NamedTensor input[] = {{"image", images(1)}};
  ASSERT_TRUE(s->run(input).ok());
  runtime_->close();
  EXPECT_EQ(s->run(input).status().code(), BP_GONE);
}

INSTANTIATE_TEST_SUITE_P(Devices, SessionTest, testing::ValuesIn(tests::device_names()),
                         device_test_name);

class SmallMemoryTest : public SessionTest {
 protected:
  void SetUp() override {
    RuntimeArgs args = test_runtime_args();
    args.plugin_options = {{"npu.memory", "4MiB"}};
    open(args);
  }
};

TEST_P(SmallMemoryTest, Run_OutOfDeviceMemory_SaysSoAndTheSessionGoesOn) {
  const Ref<Session> s = session(digits());
  ASSERT_TRUE(s);
  const NamedTensor small[] = {{"image", images(1)}};
  ASSERT_TRUE(s->run(small).ok());
  void* data = nullptr;
  auto many = HostTensor::allocate(BP_DTYPE_F32, {2000, 1, 8, 8}, &data);
  ASSERT_TRUE(many.ok());
  const NamedTensor large[] = {{"image", Tensor::wrap_host(*many)}};
  uint64_t before = 0;
  for (int round = 0; round < 3; ++round) {
    const auto outputs = s->run(large);
    ASSERT_FALSE(outputs.ok());
    EXPECT_EQ(outputs.status().code(), BP_OUT_OF_MEMORY);
    EXPECT_NE(outputs.status().message().find("npu:0: out of memory"), std::string::npos)
        << outputs.status().message();
    ASSERT_TRUE(s->run(small).ok());
    // The first round keeps a plan for the new shape; later ones must keep nothing.
    if (round == 0) before = device_->allocator().stats().allocated_bytes;
  }
  EXPECT_TRUE(s->run(small).ok());
  EXPECT_EQ(device_->allocator().stats().allocated_bytes, before) << "nothing was lost";
}

INSTANTIATE_TEST_SUITE_P(Devices, SmallMemoryTest, testing::Values("npu:0"), device_test_name);

}  // namespace
}  // namespace bp
