// SPDX-License-Identifier: Apache-2.0
//
// Views whose strides are 0 or negative, or which begin behind their memory's begin: as inputs of
// kernels, as outputs of calls and of sessions, copied to the host and between devices.
#include <cstring>
#include <string>
#include <vector>

#include "tests/integration/device_fixture.hpp"

namespace bp {
namespace {

class ViewsTest : public DeviceTest {
 protected:
  /// A list as operators read it on the host.
  Ref<Tensor> list(const std::vector<int64_t>& values) {
    const Dims sizes{static_cast<int64_t>(values.size())};
    void* memory = nullptr;
    auto tensor = HostTensor::allocate(BP_DTYPE_I64, sizes, &memory);
    EXPECT_TRUE(tensor.ok());
    if (!values.empty()) std::memcpy(memory, values.data(), values.size() * sizeof(int64_t));
    return Tensor::wrap_host(*std::move(tensor));
  }
  ValueId constant(Graph* graph, const std::vector<int64_t>& values) {
    void* memory = nullptr;
    auto tensor =
        HostTensor::allocate(BP_DTYPE_I64, {static_cast<int64_t>(values.size())}, &memory);
    if (!values.empty()) std::memcpy(memory, values.data(), values.size() * sizeof(int64_t));
    return *graph->add_constant("", *std::move(tensor));
  }
  uint64_t launches() const { return device_->counters().launches.load(); }

  const std::vector<double> ramp_ = {0, 1, 2, 3, 4, 5};
  const std::vector<double> reversed_ = {5, 4, 3, 2, 1, 0};
};

TEST_P(ViewsTest, Expand_SharesItsMemoryAndIsRead) {
  const Ref<Tensor> x = upload_f32({2, 1}, {1, 2});
  const uint64_t before = launches();
  const Ref<Tensor> wide = must_call("expand", {x, list({2, 3})});
  ASSERT_TRUE(wide);
  EXPECT_EQ(launches(), before) << "a view needs no kernel";
  EXPECT_EQ(wide->strides(), (Dims{1, 0}));
  EXPECT_EQ(wide->storage().handle(), x->storage().handle());
  EXPECT_EQ(values(wide), (std::vector<double>{1, 1, 1, 2, 2, 2}));
  EXPECT_EQ(values(must_call("add", {wide, wide})), (std::vector<double>{2, 2, 2, 4, 4, 4}));
  const Ref<Tensor> column = upload_f32({3, 1}, {1, 10, 100});
  EXPECT_EQ(values(must_call("matmul", {wide, column})), (std::vector<double>{111, 222}));
  const Ref<Tensor> scalar = must_call("expand", {upload_f32({}, {7}), list({4})});
  EXPECT_EQ(values(scalar), (std::vector<double>{7, 7, 7, 7}));
  EXPECT_EQ(values(must_call("reshape", {wide, list({6})})),
            (std::vector<double>{1, 1, 1, 2, 2, 2}));
}

TEST_P(ViewsTest, Slice_BackwardsAndFromTheMiddle) {
  const Ref<Tensor> x = upload_f32({6}, ramp_);
  const Ref<Tensor> back =
      must_call("slice", {x, list({-1}), list({INT64_MIN}), nullptr, list({-1})});
  ASSERT_TRUE(back);
  EXPECT_EQ(back->strides(), (Dims{-1}));
  EXPECT_EQ(values(back), reversed_);
  EXPECT_EQ(values(must_call("add", {back, x})), std::vector<double>(6, 5));
  const Ref<Tensor> odd = must_call("slice", {back, list({0}), list({5}), nullptr, list({2})});
  EXPECT_EQ(values(odd), (std::vector<double>{5, 3, 1}));
  EXPECT_EQ(values(must_call("relu", {odd})), (std::vector<double>{5, 3, 1}));
  const Ref<Tensor> none = must_call("slice", {x, list({4}), list({2})});
  EXPECT_TRUE(values(none).empty());
}

TEST_P(ViewsTest, Concat_OfViews_CopiesWhatTheyShow) {
  const Ref<Tensor> x = upload_f32({6}, ramp_);
  const Ref<Tensor> back =
      must_call("slice", {x, list({-1}), list({INT64_MIN}), nullptr, list({-1})});
  const Ref<Tensor> sevens = must_call("expand", {upload_f32({1}, {7}), list({2})});
  Attributes along = attributes("concat");
  ASSERT_TRUE(along.set_i64("axis", 0).ok());
  EXPECT_EQ(values(must_call("concat", {back, sevens, x}, along)),
            (std::vector<double>{5, 4, 3, 2, 1, 0, 7, 7, 0, 1, 2, 3, 4, 5}));
}

TEST_P(ViewsTest, Session_OutputsThatAreViews) {
  for (const bool of_input : {true, false}) {
    Graph graph(runtime_->registry());
    const ValueId input = *graph.add_input("x", {BP_DTYPE_F32, true, {6}});
    const ValueId only[] = {input};
    const ValueId x = of_input ? input : *graph.op("relu", only);
    const ValueId reverse[] = {x, constant(&graph, {-1}), constant(&graph, {INT64_MIN}), kNoValue,
                               constant(&graph, {-1})};
    const ValueId back = *graph.op("slice", reverse);
    const ValueId repeat[] = {x, constant(&graph, {2, 6})};
    const ValueId twice = *graph.op("expand", repeat);
    ASSERT_TRUE(graph.set_outputs({back, twice}, {"back", "twice"}).ok());
    expect_oracle(graph, {OracleTensor::from_f64(BP_DTYPE_F32, {6}, ramp_)});
  }
}

TEST_P(ViewsTest, Session_BoundOutputs_HoldWhatViewsShow) {
  Graph graph(runtime_->registry());
  const ValueId x = *graph.add_input("x", {BP_DTYPE_F32, true, {3}});
  const ValueId repeat[] = {x, constant(&graph, {2, 3})};
  ASSERT_TRUE(graph.set_outputs({*graph.op("expand", repeat)}, {"y"}).ok());
  const Ref<Session> made = session(std::move(graph));
  ASSERT_TRUE(made);
  const NamedTensor inputs[] = {{"x", upload_f32({3}, {1, 2, 3})}};
  const std::vector<Ref<Tensor>> targets = {upload_f32({2, 3}, std::vector<double>(6, -1))};
  const auto outputs = made->run(inputs, {.outputs = targets});
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  EXPECT_EQ(values(targets[0]), (std::vector<double>{1, 2, 3, 1, 2, 3}));
}

TEST_P(ViewsTest, Split_GivesViews) {
  const Ref<Tensor> x = upload_f32({2, 3}, ramp_);
  Attributes columns = attributes("split");
  ASSERT_TRUE(columns.set_i64("num_outputs", 2).ok() && columns.set_i64("axis", 1).ok());
  std::vector<Ref<Tensor>> parts(2);
  Tensor* const inputs[] = {x.get()};
  CallArgs args{.op = op("split"),
                .inputs = inputs,
                .attributes = columns.data(),
                .stream = nullptr,
                .device = device_};
  ASSERT_TRUE(call(*runtime_, args, parts).ok());
  EXPECT_EQ(values(parts[0]), (std::vector<double>{0, 1, 3, 4}));
  EXPECT_EQ(values(parts[1]), (std::vector<double>{2, 5}));
  EXPECT_EQ(parts[1]->storage().handle(), x->storage().handle());
  const auto refused = call(*runtime_, args, std::span(parts).first(1));
  EXPECT_EQ(refused.to_string(), "INVALID_ARGUMENT: split: expected room for 2 outputs, found 1");
  args.attributes = nullptr;
  EXPECT_EQ(call(*runtime_, args, parts).code(), BP_INVALID_ARGUMENT);
}

TEST_P(ViewsTest, Session_SplitLaunchesNoMoreThanSlices) {
  const auto launches = [this](bool split) {
    Graph graph(runtime_->registry());
    const ValueId x[] = {*graph.add_input("x", {BP_DTYPE_F32, true, {2, 3}})};
    const ValueId middle[] = {*graph.op("relu", x)};
    std::vector<ValueId> parts;
    if (split) {
      Attributes columns = attributes("split");
      const int64_t sizes[] = {2, 1};
      EXPECT_TRUE(columns.set_i64("num_outputs", 2).ok() && columns.set_i64("axis", -1).ok() &&
                  columns.set_i64s("sizes", sizes).ok());
      parts = *graph.op_outputs("split", middle, columns);
    } else {
      const ValueId edges[] = {constant(&graph, {0}), constant(&graph, {2}), constant(&graph, {3})};
      for (size_t i = 0; i < 2; ++i) {
        const ValueId range[] = {middle[0], edges[i], edges[i + 1], constant(&graph, {1})};
        parts.push_back(*graph.op("slice", range));
      }
    }
    const ValueId both[] = {parts[0], parts[1]};
    EXPECT_TRUE(graph.set_outputs({*graph.op("add", both)}, {"y"}).ok());
    const Ref<Session> made = session(std::move(graph));
    EXPECT_EQ(made->placement_counts().view, split ? 1u : 2u);
    EXPECT_EQ(made->placements()[1].kind, RouteKind::kView);
    EXPECT_EQ(made->placements()[1].reason, "") << "a view lacks nothing";
    const NamedTensor inputs[] = {{"x", upload_f32({2, 3}, ramp_)}};
    const uint64_t before = device_->counters().launches.load();
    const auto outputs = made->run(inputs, {});
    EXPECT_TRUE(outputs.ok()) << outputs.status().to_string();
    const uint64_t after = device_->counters().launches.load();
    if (outputs.ok()) EXPECT_EQ(values((*outputs)[0]), (std::vector<double>{2, 3, 8, 9}));
    return after - before;
  };
  EXPECT_EQ(launches(true), launches(false));
}

TEST_P(ViewsTest, BitCast_SharesItsMemory) {
  const Ref<Tensor> x = upload_f32({2, 2}, {1, -2, 0.5, 0});
  Attributes to = attributes("bit_cast");
  ASSERT_TRUE(to.set_i64("to", BP_DTYPE_I32).ok());
  const Ref<Tensor> bits = must_call("bit_cast", {x}, to);
  ASSERT_TRUE(bits);
  EXPECT_EQ(bits->storage().handle(), x->storage().handle());
  EXPECT_EQ(download(bits).to_i64(),
            (std::vector<int64_t>{0x3f800000, -0x40000000, 0x3f000000, 0}));
  Graph graph(runtime_->registry());
  const ValueId input[] = {*graph.add_input("x", {BP_DTYPE_F32, true, {2, 2}})};
  const ValueId turned[] = {*graph.op("transpose", input)};
  const ValueId y = *graph.op("bit_cast", turned, to);
  const ValueId both[] = {y, y};
  ASSERT_TRUE(graph.set_outputs({y, *graph.op("add", both)}, {"y", "sum"}).ok());
  expect_oracle(graph, {download(x)});
}

TEST_P(ViewsTest, Session_DecomposedIntoMoreThanViews_SaysSo) {
  Graph graph(runtime_->registry());
  const ValueId x[] = {*graph.add_input("x", {BP_DTYPE_F32, true, {2, 3}})};
  ASSERT_TRUE(graph.set_outputs({*graph.op("trilu", x)}, {"y"}).ok());
  const Ref<Session> made = session(std::move(graph));
  ASSERT_TRUE(made);
  EXPECT_NE(made->placements()[0].kind, RouteKind::kView);
}

/// What has no kernel of its own anywhere.
TEST_P(ViewsTest, Composites_MatchTheOracle) {
  const auto x = OracleTensor::from_f64(BP_DTYPE_F32, {2, 3}, ramp_);
  const auto check = [&](std::string_view op_name, const std::vector<std::vector<int64_t>>& lists,
                         const Attributes& settings) {
    SCOPED_TRACE(op_name);
    std::vector<OracleTensor> given = {x};
    std::vector<Ref<Tensor>> placed = {upload(x)};
    for (const auto& each : lists) {
      given.push_back(
          OracleTensor::from_i64(BP_DTYPE_I64, {static_cast<int64_t>(each.size())}, each));
      placed.push_back(list(each));
    }
    std::vector<OracleTensor> expected;
    ASSERT_TRUE(
        evaluate(runtime_->registry().schema(op(op_name)), given, settings.data(), &expected).ok());
    EXPECT_EQ(values(must_call(op_name, placed, settings)), expected[0].to_f64());
  };
  check("tile", {{2, 2}}, attributes("tile"));
  for (const char* mode : {"constant", "edge", "reflect", "wrap"}) {
    Attributes settings = attributes("pad");
    ASSERT_TRUE(settings.set_str("mode", mode).ok());
    check("pad", {{1, -1, 0, 2}}, settings);
  }
  check("trilu", {}, attributes("trilu"));
  Attributes eye = attributes("eye_like");
  ASSERT_TRUE(eye.set_i64("dtype", BP_DTYPE_F32).ok());
  check("eye_like", {}, eye);
  const Ref<Tensor> range = must_call("range", {list({7}), list({0}), list({-3})});
  EXPECT_EQ(download(range).to_i64(), (std::vector<int64_t>{7, 4, 1}));
  EXPECT_EQ(range->device(), device_) << "a constant is brought to the device of the call";
}

INSTANTIATE_TEST_SUITE_P(Devices, ViewsTest, testing::ValuesIn(tests::device_names()),
                         device_test_name);

}  // namespace
}  // namespace bp
