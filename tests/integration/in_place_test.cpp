// SPDX-License-Identifier: Apache-2.0
//
// Outputs in the memory of inputs that nothing else reads: a plan takes less memory, and every
// value that is still read stays what it is. Whether a device's kernels write in place is asked of
// their descriptors.
#include "tests/integration/device_fixture.hpp"

namespace bp {
namespace {

class InPlaceTest : public DeviceTest {
 protected:
  static constexpr int64_t kCount = 1024;
  static constexpr uint64_t kBytes = kCount * sizeof(float);
  using Inputs = std::vector<ValueId>;

  Graph with_input(ValueId* out_x) {
    Graph graph(runtime_->registry());
    *out_x = *graph.add_input("x", {BP_DTYPE_F32, true, {kCount}});
    return graph;
  }
  static Graph finished(Graph graph, std::initializer_list<ValueId> outputs) {
    std::vector<std::string> names;
    for (size_t i = 0; i < outputs.size(); ++i) names.push_back("y" + std::to_string(i));
    EXPECT_TRUE(graph.set_outputs(outputs, std::move(names)).ok());
    return graph;
  }
  static OracleTensor numbers() {
    std::vector<double> values(kCount);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 11) - 5;
    return OracleTensor::from_f64(BP_DTYPE_F32, {kCount}, values);
  }
  /// Whether the kernel of this operator writes in place of its first input.
  bool overwrites(std::string_view name, size_t input_count) {
    const ArgType type{
        .dtype = BP_DTYPE_F32, .sizes = {kCount}, .strides = contiguous_strides({kCount})};
    const std::vector<ArgType> inputs(input_count, type);
    const auto route = Dispatcher::of(*device_).resolve(op(name), inputs, attributes(name).data());
    EXPECT_TRUE(route.ok());
    return route.ok() && (*route)->kernel && ((*route)->kernel->in_place_inputs() & 1) != 0;
  }
  MemoryPlan memory_of(Graph graph) {
    const Ref<Session> made = session(std::move(graph));
    EXPECT_TRUE(made);
    return made ? made->memory_plan() : MemoryPlan();
  }
};

TEST_P(InPlaceTest, Chain_TakesOneValue) {
  if (!overwrites("relu", 1)) GTEST_SKIP() << "its kernels write elsewhere";
  const MemoryPlan plan =
      memory_of(row_of({"relu", "neg", "relu", "neg", "relu", "neg"}, {kCount}));
  EXPECT_EQ(plan.live_bytes_peak, kBytes);
  EXPECT_EQ(plan.arena_bytes, kBytes);
}

TEST_P(InPlaceTest, Chain_HasTheOraclesResult) {
  expect_oracle(row_of({"relu", "neg", "relu", "neg", "relu", "neg"}, {kCount}), {numbers()});
}

TEST_P(InPlaceTest, ReadLater_KeepsItsValue) {
  ValueId x = 0;
  Graph graph = with_input(&x);
  const ValueId early = *graph.op("relu", Inputs{x});
  const ValueId middle = *graph.op("neg", Inputs{early});
  const ValueId late = *graph.op("abs", Inputs{middle});
  const ValueId both = *graph.op("sub", Inputs{late, early});
  const ValueId last = *graph.op("add", Inputs{both, middle});
  expect_oracle(finished(std::move(graph), {last}), {numbers()});
}

TEST_P(InPlaceTest, ViewReadLater_KeepsItsValue) {
  ValueId x = 0;
  Graph graph = with_input(&x);
  const ValueId early = *graph.op("relu", Inputs{x});
  void* data = nullptr;
  auto shape = HostTensor::allocate(BP_DTYPE_I64, {2}, &data);
  ASSERT_TRUE(shape.ok());
  static_cast<int64_t*>(data)[0] = kCount / 8;
  static_cast<int64_t*>(data)[1] = 8;
  const ValueId sizes = *graph.add_constant("", std::move(*shape));
  const ValueId view = *graph.op("reshape", Inputs{early, sizes});
  const ValueId negated = *graph.op("neg", Inputs{early});
  const ValueId turned = *graph.op("transpose", Inputs{view});
  const ValueId again = *graph.op("abs", Inputs{turned});
  expect_oracle(finished(std::move(graph), {negated, again}), {numbers()});
}

TEST_P(InPlaceTest, SameValueTwice_IsReadBothTimes) {
  ValueId x = 0;
  Graph graph = with_input(&x);
  const ValueId early = *graph.op("neg", Inputs{x});
  const ValueId square = *graph.op("mul", Inputs{early, early});
  const ValueId last = *graph.op("abs", Inputs{square});
  expect_oracle(finished(std::move(graph), {last}), {numbers()});
}

TEST_P(InPlaceTest, Broadcast_OverwritesOnlyItsOwnShape) {
  ValueId x = 0;
  Graph graph = with_input(&x);
  Attributes along = attributes("reduce_max");
  ASSERT_TRUE(along.set_i64("keepdims", 1).ok());
  const ValueId early = *graph.op("neg", Inputs{x});
  const ValueId highest = *graph.op("reduce_max", Inputs{early}, along);
  const ValueId below = *graph.op("sub", Inputs{highest, early});
  const ValueId last = *graph.op("exp", Inputs{*graph.op("neg", Inputs{below})});
  expect_oracle(finished(std::move(graph), {last}), {numbers()});
}

INSTANTIATE_TEST_SUITE_P(Devices, InPlaceTest, testing::ValuesIn(tests::device_names()),
                         device_test_name);

}  // namespace
}  // namespace bp
