// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic on sizes is done while planning: no kernel runs for it, no segment ends at it, and
// what it gives is right where it is read, also by kernels, by later segments and by the caller.
#include <gmock/gmock.h>

#include "tests/integration/device_fixture.hpp"

namespace bp {
namespace {

using testing::ElementsAre;

class KnownValuesTest : public DeviceTest {
 protected:
  /// A graph with the input x f32[N, 6].
  struct Model {
    Graph graph;
    ValueId x;
    ValueId op(std::string_view name, std::vector<ValueId> inputs, Attributes attributes = {}) {
      auto added = graph.op(name, inputs, std::move(attributes));
      EXPECT_TRUE(added.ok()) << added.status().to_string();
      return added.ok() ? *added : kNoValue;
    }
    ValueId numbers(const std::vector<int64_t>& values, const Dims& sizes) {
      void* data = nullptr;
      auto tensor = HostTensor::allocate(BP_DTYPE_I64, sizes, &data);
      EXPECT_TRUE(tensor.ok());
      std::copy(values.begin(), values.end(), static_cast<int64_t*>(data));
      return *graph.add_constant("", std::move(*tensor));
    }
  };
  Model model() {
    Graph graph(runtime_->registry());
    const Dims sizes{graph.symbol("N"), 6};
    const ValueId x = *graph.add_input("x", {BP_DTYPE_F32, true, sizes});
    return {std::move(graph), x};
  }
  Ref<Tensor> ramp(int64_t rows) {
    std::vector<double> values(static_cast<size_t>(rows) * 6);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i) - 5;
    return upload_f32({rows, 6}, values);
  }
};

TEST_P(KnownValuesTest, ReshapeByAComputedShape_IsOneSegment) {
  Model m = model();
  // [N, 6] -> [3N, 2]
  const ValueId shape = m.op("mul", {m.op("shape", {m.x}), m.numbers({3, 1}, {2})});
  const ValueId half = m.op("div", {shape, m.numbers({1, 3}, {2})});
  const ValueId y = m.op("relu", {m.op("reshape", {m.x, half})});
  ASSERT_TRUE(m.graph.set_outputs({y, half}, {"y", "sizes"}).ok());
  const Ref<Session> s = session(std::move(m.graph));
  ASSERT_TRUE(s);
  for (const int64_t rows : {1, 4}) {
    const NamedTensor input[] = {{"x", ramp(rows)}};
    const auto outputs = s->run(input);
    ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
    EXPECT_EQ((*outputs)[0]->sizes(), (Dims{3 * rows, 2}));
    EXPECT_EQ(values((*outputs)[0])[0], 0);
    EXPECT_EQ(values((*outputs)[0]).back(), std::max<double>(0, static_cast<double>(6 * rows) - 6));
    EXPECT_THAT(values((*outputs)[1]), ElementsAre(3 * rows, 2));
    const PlacementCounts counts = s->placement_counts();
    EXPECT_EQ(counts.known, 3u);
    EXPECT_EQ(counts.view, 1u);
    EXPECT_EQ(s->plan_count(), rows == 1 ? 1u : 2u) << "one for each size";
  }
}

TEST_P(KnownValuesTest, KernelsReadThem) {
  Model m = model();
  const ValueId rows = m.op("gather", {m.op("shape", {m.x}), m.numbers({0}, {})});
  // The last row, by an index that is worked out.
  const ValueId last = m.op("sub", {rows, m.numbers({1}, {})});
  const ValueId y = m.op("gather", {m.x, last});
  ASSERT_TRUE(m.graph.set_outputs({y}, {"y"}).ok());
  const Ref<Session> s = session(std::move(m.graph));
  ASSERT_TRUE(s);
  const NamedTensor input[] = {{"x", ramp(3)}};
  const auto outputs = s->run(input);
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  EXPECT_THAT(values((*outputs)[0]), ElementsAre(7, 8, 9, 10, 11, 12));
  EXPECT_EQ(s->placement_counts().known, 3u);
}

TEST_P(KnownValuesTest, LaterSegmentsReadThem) {
  Model m = model();
  const ValueId count = m.op("size", {m.x});
  const ValueId sizes = m.op("shape", {m.x});
  // Behind non_zero a segment ends; shape of its output is known in the next one alone.
  const ValueId places = m.op("non_zero", {m.x});
  const ValueId found = m.op("size", {places});
  const ValueId both = m.op("add", {count, found});
  const ValueId flat = m.op("reshape", {places, m.numbers({-1}, {1})});
  const ValueId again = m.op("reshape", {m.x, sizes});
  ASSERT_TRUE(m.graph.set_outputs({both, flat, again}, {"both", "flat", "again"}).ok());
  const Ref<Session> s = session(std::move(m.graph));
  ASSERT_TRUE(s);
  for (int run = 0; run < 2; ++run) {
    const NamedTensor input[] = {{"x", ramp(1)}};
    const auto outputs = s->run(input);
    ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
    EXPECT_THAT(values((*outputs)[0]), ElementsAre(6 + 10));
    EXPECT_THAT(values((*outputs)[1]), ElementsAre(0, 0, 0, 0, 0, 0, 1, 2, 3, 4));
    EXPECT_EQ((*outputs)[2]->sizes(), (Dims{1, 6}));
  }
  EXPECT_EQ(s->plan_count(), 2u) << "both runs use the same two";
}

TEST_P(KnownValuesTest, SizesThatAreFixed_NeedNoNode) {
  Graph graph(runtime_->registry());
  const ValueId x = *graph.add_input("x", {BP_DTYPE_F32, true, {2, 6}});
  const ValueId y = *graph.op("shape", std::vector{x});
  ASSERT_TRUE(graph.set_outputs({y}, {"y"}).ok());
  const Ref<Session> s = session(std::move(graph));
  ASSERT_TRUE(s);
  EXPECT_EQ(s->placement_counts().known, 0u) << "the shape is folded";
  const NamedTensor input[] = {{"x", ramp(2)}};
  const auto outputs = s->run(input);
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  EXPECT_THAT(values((*outputs)[0]), ElementsAre(2, 6));
}

TEST_P(KnownValuesTest, EagerCalls_GiveTensorsOnTheDevice) {
  Attributes part = attributes("shape");
  ASSERT_TRUE(part.set_i64("start", -1).ok());
  const Ref<Tensor> x = ramp(2);
  const Ref<Tensor> last = must_call("shape", {x}, part);
  const Ref<Tensor> count = must_call("size", {x});
  ASSERT_TRUE(last && count);
  EXPECT_EQ(last->device(), device_);
  EXPECT_THAT(values(last), ElementsAre(6));
  EXPECT_THAT(values(count), ElementsAre(12));
}

INSTANTIATE_TEST_SUITE_P(Devices, KnownValuesTest, testing::ValuesIn(tests::device_names()),
                         device_test_name);

}  // namespace
}  // namespace bp
