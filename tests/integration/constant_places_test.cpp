// SPDX-License-Identifier: Apache-2.0
//
// Constants from wherever they lie - turned round, on another device, in the model's own memory,
// which the device has not given out - and packed beside work that is not done. Results are the
// oracle's.
#include <future>

#include "core/runtime/runtime.hpp"
#include "tests/integration/device_fixture.hpp"
#include "tests/integration/stream_gate.hpp"

namespace bp {
namespace {

class ConstantPlacesTest : public DeviceTest {
 protected:
  void SetUp() override { open_with("none", true); }
  void open_with(const std::string& fault, bool has_host_memory) {
    RuntimeArgs args = test_runtime_args();
    args.plugin_path = {BP_FAKES_DIR "/wrong_kernels"};
    args.plugin_options = {{"wrong_kernels.device_fault", fault},
                           {"wrong_kernels.host_memory", has_host_memory ? "true" : "false"}};
    open(args);
  }
  static OracleTensor numbers(const Dims& sizes, int64_t add) {
    std::vector<double> values(static_cast<size_t>(element_count(sizes)));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<double>((static_cast<int64_t>(i) * 7 + add) % 5) - 2;
    }
    return OracleTensor::from_f64(BP_DTYPE_F32, sizes, values);
  }
  static ValueId constant(Graph* graph, const OracleTensor& values) {
    void* data = nullptr;
    auto tensor = HostTensor::allocate(values.dtype, values.sizes, &data);
    EXPECT_TRUE(tensor.ok());
    std::copy(values.bytes.begin(), values.bytes.end(), static_cast<std::byte*>(data));
    return *graph->add_constant("w", std::move(*tensor));
  }
  /// gemm turns its weights by a view, which nothing folds where they are many.
  ValueId turned_product(Graph* graph, ValueId x, ValueId w) {
    Attributes turned = attributes("gemm");
    EXPECT_TRUE(turned.set_i64("trans_b", 1).ok());
    return *graph->op("gemm", std::vector{x, w, kNoValue}, turned);
  }
  static constexpr int64_t kSide = 160;
};

TEST_P(ConstantPlacesTest, TurnedByAView) {
  for (const bool has_host_memory : {true, false}) {
    SCOPED_TRACE(has_host_memory);
    open_with("none", has_host_memory);
    Graph graph(runtime_->registry());
    const ValueId x = *graph.add_input("x", {BP_DTYPE_F32, true, {2, kSide}});
    const ValueId w = constant(&graph, numbers({kSide, kSide}, 1));
    ASSERT_TRUE(graph.set_outputs({turned_product(&graph, x, w)}, {"y"}).ok());
    expect_oracle(graph, {numbers({2, kSide}, 3)});
  }
}

TEST_P(ConstantPlacesTest, TurnedByAViewOnTheHostDevice) {
  for (const bool has_host_memory : {true, false}) {
    SCOPED_TRACE(has_host_memory);
    open_with("none", has_host_memory);
    Graph graph(runtime_->registry());
    const ValueId x = *graph.add_input("x", {BP_DTYPE_F32, true, {2, kSide}});
    const ValueId z = *graph.add_input("z", {BP_DTYPE_F32, true, {kSide, kSide}});
    const ValueId w = constant(&graph, numbers({kSide, kSide}, 1));
    // Which the fake has no kernel for.
    const ValueId elsewhere = *graph.op("sub", std::vector{z, w});
    const ValueId product = turned_product(&graph, x, w);
    ASSERT_TRUE(graph.set_outputs({elsewhere, product}, {"a", "b"}).ok());
    expect_oracle(graph, {numbers({2, kSide}, 3), numbers({kSide, kSide}, 2)});
  }
}

/// What the kernel takes plain and has to lie otherwise is copied from the model's own memory,
/// which the device's copies do not take.
TEST_P(ConstantPlacesTest, PlainAndTurnedByAView) {
  for (const bool has_host_memory : {true, false}) {
    SCOPED_TRACE(has_host_memory);
    open_with("none", has_host_memory);
    Graph graph(runtime_->registry());
    const ValueId x = *graph.add_input("x", {BP_DTYPE_F32, true, {kSide, 2}});
    const ValueId w = constant(&graph, numbers({kSide, kSide}, 1));
    Attributes turned = attributes("gemm");
    ASSERT_TRUE(turned.set_i64("trans_a", 1).ok());
    const ValueId y = *graph.op("gemm", std::vector{w, x, kNoValue}, turned);
    ASSERT_TRUE(graph.set_outputs({y}, {"y"}).ok());
    expect_oracle(graph, {numbers({kSide, 2}, 3)});
  }
}

TEST_P(ConstantPlacesTest, AConstantAsTheAnswer) {
  for (const bool is_inline : {true, false}) {
    SCOPED_TRACE(is_inline);
    RuntimeArgs args = test_runtime_args();
    args.plugin_path = {BP_FAKES_DIR "/wrong_kernels"};
    args.plugin_options = {{"wrong_kernels.inline", is_inline ? "true" : "false"}};
    open(args);
    Graph graph(runtime_->registry());
    const ValueId x = *graph.add_input("x", {BP_DTYPE_F32, true, {2}});
    const ValueId w = constant(&graph, numbers({3, 4}, 1));
    const ValueId y = *graph.op("relu", std::vector{x});
    ASSERT_TRUE(graph.set_outputs({w, y}, {"a", "y"}).ok());
    expect_oracle(graph, {numbers({2}, 3)});
  }
}

TEST_P(ConstantPlacesTest, WhereNothingCopies_TheDeviceAndTheSizesAreNamed) {
  RuntimeArgs args = test_runtime_args();
  args.plugin_path = {BP_FAKES_DIR "/wrong_kernels"};
  args.options.push_back({"BACKPLANE_PLUGINS", "wrong_kernels"});
  open(args);
  Graph graph(runtime_->registry());
  const ValueId x = *graph.add_input("x", {BP_DTYPE_F32, true, {2, kSide}});
  const ValueId w = constant(&graph, numbers({kSide, kSide}, 1));
  ASSERT_TRUE(graph.set_outputs({turned_product(&graph, x, w)}, {"y"}).ok());
  const auto made = Session::create(*runtime_, graph, {.device = device_, .dims = {}});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().code(), BP_UNSUPPORTED) << made.status().to_string();
  expect_words(made.status(), {"node 'gemm#0'", "wrong_kernels:0 has no kernel that makes",
                               "[160, 160]", "contiguous"});
}

/// What is packed later does not take the memory of work that is not done.
TEST_P(ConstantPlacesTest, BesideWorkThatIsNotDone) {
  open_with("matmul_form_changes", true);  // each plan packs anew
  Graph graph(runtime_->registry());
  const ValueId x = *graph.add_input("x", {BP_DTYPE_F32, true, {graph.symbol("N"), 3}});
  const ValueId w = constant(&graph, numbers({3, 4}, 1));
  ASSERT_TRUE(graph.set_outputs({*graph.op("matmul", std::vector{x, w})}, {"y"}).ok());
  const Ref<Session> s = session(graph);
  ASSERT_TRUE(s);
  const auto run = [&](int64_t count, Stream* stream) {
    const NamedTensor input[] = {{"x", upload(numbers({count, 3}, 3))}};
    auto outputs = s->run(input, {.stream = stream});
    EXPECT_TRUE(outputs.ok()) << outputs.status().to_string();
    return outputs.ok() ? (*outputs)[0] : nullptr;
  };
  run(2, nullptr);
  const auto other = device_->acquire_stream();
  ASSERT_TRUE(other.ok());
  StreamGate gate;
  ASSERT_TRUE(gate.hold(**other));
  run(2, *other);  // its output's memory is free for what comes behind it on its stream
  const auto opened = std::async(std::launch::async, [&] { gate.open_later(); });
  const Ref<Tensor> y = run(3, nullptr);
  opened.wait();
  ASSERT_TRUE(y);
  std::vector<OracleTensor> expected;
  const std::vector<OracleTensor> inputs{numbers({3, 3}, 3)};
  ASSERT_TRUE(evaluate_graph(graph, inputs, &expected).ok());
  EXPECT_EQ(values(y), expected[0].to_f64());
  device_->release_stream(*other);
}

INSTANTIATE_TEST_SUITE_P(Devices, ConstantPlacesTest, testing::Values("wrong_kernels:0"),
                         device_test_name);

}  // namespace
}  // namespace bp
