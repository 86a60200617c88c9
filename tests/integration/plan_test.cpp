// SPDX-License-Identifier: Apache-2.0
//
// What a session's plan does with unusual memory: dimensions of size 0, strided and misaligned
// inputs behind views and on their way to another device, and constants that are answered.
#include <stdexcept>

#include "ops/onnx/import.hpp"
#include "tests/integration/device_fixture.hpp"

namespace bp {
namespace {

class PlanTest : public DeviceTest {
 protected:
  void open_with_host_ops(const std::string& ops) {
    RuntimeArgs args = test_runtime_args();
    args.options.push_back({"BACKPLANE_HOST_OPS", ops});
    open(args);
  }
  ValueId input(Graph& graph, const std::string& name, const Dims& sizes) {
    return *graph.add_input(name, {BP_DTYPE_F32, true, sizes});
  }
  ValueId node(Graph& graph, std::string_view name, const std::vector<ValueId>& inputs) {
    auto made = graph.op(name, inputs);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return made.ok() ? *made : kNoValue;
  }
  ValueId constant(Graph& graph, const std::vector<float>& values, const std::string& name = "w") {
    void* data = nullptr;
    const auto count = static_cast<int64_t>(values.size());
    auto tensor = HostTensor::allocate(BP_DTYPE_F32, {count}, &data);
    EXPECT_TRUE(tensor.ok());
    std::copy(values.begin(), values.end(), static_cast<float*>(data));
    return *graph.add_constant(name, *tensor);
  }
  // By reference: outputs may be written as nodes that are added while arguments are made.
  Ref<Session> session(Graph& graph, const std::vector<ValueId>& outputs,
                       std::map<std::string, int64_t> dims = {},
                       std::vector<Device*> fallbacks = {}) {
    std::vector<std::string> names;
    for (size_t i = 0; i < outputs.size(); ++i) names.push_back("out" + std::to_string(i));
    if (!outputs.empty()) {
      EXPECT_TRUE(graph.set_outputs(outputs, names).ok());
    }
    SessionArgs args;
    args.device = device_;
    args.dims = std::move(dims);
    args.fallbacks = std::move(fallbacks);
    auto made = Session::create(*runtime_, graph, args);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return made.ok() ? *made : nullptr;
  }
  std::vector<Ref<Tensor>> run(Session& session, const std::vector<NamedTensor>& inputs,
                               const RunOptions& options = {}) {
    auto outputs = session.run(inputs, options);
    if (!outputs.ok()) throw std::runtime_error(outputs.status().to_string());
    return *outputs;
  }
  // `copy` adds what leaves positive values as they are. It is tried on inputs of rank 2 that are
  // strided and misaligned views of one tensor, alone and behind a transpose.
  void expect_odd_inputs_kept(const std::function<ValueId(Graph&, ValueId)>& copy) {
    const Ref<Tensor> x = upload_f32({2, 3}, {1, 2, 3, 4, 5, 6});
    const Ref<Tensor> views[] = {x->view({3, 2}, {1, 3}, 0), x->view({2, 3}, {-3, -1}, 5),
                                 x->view({2, 2}, {3, 1}, 1), x->view({2, 3}, {0, 1}, 3),
                                 x->view({1, 3}, {3, 1}, 1), x->view({2, 0}, {3, 1}, 1)};
    for (const Ref<Tensor>& view : views) {
      for (const bool behind_a_view : {false, true}) {
        Graph graph(runtime_->registry());
        ValueId value = input(graph, "x", view->sizes());
        if (behind_a_view) value = node(graph, "transpose", {value});
        const ValueId y = copy(graph, value);
        const Ref<Session> s = session(graph, {y});
        ASSERT_TRUE(s);
        const Ref<Tensor> expected = behind_a_view ? must_call("transpose", {view}) : view;
        EXPECT_EQ(values(run(*s, {{"x", view}})[0]), values(expected))
            << to_string(view->sizes()) << to_string(view->strides()) << behind_a_view;
      }
    }
  }
};

TEST_P(PlanTest, Digits_BatchOfNone_GivesNoRows) {
  auto graph = load_onnx(BP_DIGITS_DIR "/digits.onnx", runtime_->registry());
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  for (const bool fixed : {false, true}) {
    std::map<std::string, int64_t> dims;
    if (fixed) dims["N"] = 0;
    const Ref<Session> s = session(*graph, {}, dims);
    ASSERT_TRUE(s);
    for (int i = 0; i < 2; ++i) {
      const auto outputs = run(*s, {{"image", upload_f32({0, 1, 8, 8}, {})}});
      ASSERT_TRUE(outputs[0]);
      EXPECT_EQ(outputs[0]->sizes(), (Dims{0, 10}));
      EXPECT_TRUE(values(outputs[0]).empty());
    }
  }
}

TEST_P(PlanTest, StridedInput_ToAnotherDevice_KeepsItsValues) {
  open_with_host_ops("relu");
  expect_odd_inputs_kept([&](Graph& graph, ValueId value) { return node(graph, "relu", {value}); });
}

TEST_P(PlanTest, ViewOfAStridedInput_MovedBetweenSegments_KeepsItsValues) {
  open_with_host_ops("relu");
  Graph graph(runtime_->registry());
  const ValueId x = input(graph, "x", {3, 2});
  const ValueId flags = input(graph, "flags", {4});
  // A view of the host's copy of x, which the next segment needs on the device.
  const ValueId there = node(graph, "transpose", {node(graph, "relu", {x})});
  const ValueId where = node(graph, "non_zero", {flags});
  const ValueId picked = node(graph, "gather", {there, where});
  const Ref<Session> s = session(graph, {picked, there});
  ASSERT_TRUE(s);
  const Ref<Tensor> turned = upload_f32({2, 3}, {1, 2, 3, 4, 5, 6})->view({3, 2}, {1, 3}, 0);
  const auto outputs = run(*s, {{"x", turned}, {"flags", upload_f32({4}, {0, 1, 0, 0})}});
  EXPECT_EQ(values(outputs[0]), (std::vector<double>{4, 5, 6}));
  EXPECT_EQ(values(outputs[1]), (std::vector<double>{1, 2, 3, 4, 5, 6}));
}

TEST_P(PlanTest, NarrowedOutput_BehindAViewOnAnotherDevice_KeepsItsValues) {
  open_with_host_ops("cast");
  Graph graph(runtime_->registry());
  const ValueId x = input(graph, "x", {2, 3});
  // Fewer than the bound, so the next segment's input is strided.
  const ValueId turned = node(graph, "transpose", {node(graph, "non_zero", {x})});
  Attributes to_f32 = attributes("cast");
  ASSERT_TRUE(to_f32.set_i64("to", BP_DTYPE_F32).ok());
  const ValueId only[] = {turned};
  auto y = graph.op("cast", only, to_f32);
  ASSERT_TRUE(y.ok()) << y.status().to_string();
  const Ref<Session> s = session(graph, {*y});
  ASSERT_TRUE(s);
  const auto outputs = run(*s, {{"x", upload_f32({2, 3}, {0, 7, 0, 8, 0, 9})}});
  EXPECT_EQ(values(outputs[0]), (std::vector<double>{0, 1, 1, 0, 1, 2}));
}

TEST_P(PlanTest, AnsweredConstant_OverwrittenByTheUser_StaysTheModels) {
  Graph graph(runtime_->registry());
  const ValueId x = input(graph, "x", {4});
  const ValueId w = constant(graph, {1, 2, 3, 4});
  const Ref<Session> s = session(graph, {node(graph, "add", {x, w}), w});
  ASSERT_TRUE(s);
  const std::vector<NamedTensor> inputs{{"x", upload_f32({4}, {100, 100, 100, 100})}};
  const std::vector<double> sums{101, 102, 103, 104};
  const auto first = run(*s, inputs);
  const std::vector<Ref<Tensor>> bound{first[1], nullptr};
  EXPECT_EQ(values(run(*s, inputs, {.outputs = bound})[0]), sums);
  const auto after = run(*s, inputs);
  EXPECT_EQ(values(after[0]), sums);
  EXPECT_EQ(values(after[1]), (std::vector<double>{1, 2, 3, 4}));
  // A bound constant is written in place like any other output.
  const uint64_t copies = device_->counters().output_copies;
  const std::vector<Ref<Tensor>> mine{nullptr, upload_f32({4}, {0, 0, 0, 0})};
  EXPECT_EQ(run(*s, inputs, {.outputs = mine})[1].get(), mine[1].get());
  EXPECT_EQ(values(mine[1]), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(device_->counters().output_copies, copies);
}

TEST_P(PlanTest, AnsweredConstant_NoNodes_IsACopyEachTime) {
  Graph graph(runtime_->registry());
  input(graph, "x", {1});
  const ValueId w = constant(graph, {5, 6});
  const Ref<Session> s = session(graph, {w});
  ASSERT_TRUE(s);
  const std::vector<NamedTensor> inputs{{"x", upload_f32({1}, {0})}};
  const Ref<Tensor> first = run(*s, inputs)[0];
  const Ref<Tensor> second = run(*s, inputs)[0];
  ASSERT_TRUE(first && second);
  EXPECT_NE(&first->storage(), &second->storage());
  EXPECT_EQ(values(second), (std::vector<double>{5, 6}));
}

TEST_P(PlanTest, FixedSizes_ArePlannedAtCreate) {
  Graph graph(runtime_->registry());
  const ValueId x = input(graph, "x", {3});
  const ValueId y = node(graph, "add", {x, constant(graph, {1, 2, 3})});
  const Ref<Session> s = session(graph, {y});
  ASSERT_TRUE(s);
  EXPECT_EQ(s->plan_count(), 1u);
  ASSERT_EQ(s->placements().size(), 1u);
  EXPECT_FALSE(s->placements()[0].kernels.empty());
  EXPECT_EQ(values(run(*s, {{"x", upload_f32({3}, {1, 1, 1})}})[0]),
            (std::vector<double>{2, 3, 4}));
  EXPECT_EQ(s->plan_count(), 1u) << "the run used the plan that was there";
}

TEST_P(PlanTest, UnknownSizes_ArePlannedAtTheFirstRun) {
  Graph graph(runtime_->registry());
  const ValueId x = input(graph, "x", {graph.symbol("N")});
  const ValueId y = node(graph, "relu", {x});
  const Ref<Session> s = session(graph, {y});
  ASSERT_TRUE(s);
  EXPECT_EQ(s->plan_count(), 0u);
  for (const int64_t size : {2, 3, 2, 3}) {
    const auto count = static_cast<size_t>(size);
    run(*s, {{"x", upload_f32({size}, std::vector<double>(count, 1))}});
  }
  EXPECT_EQ(s->plan_count(), 2u);
}

TEST_P(PlanTest, HostValueThatNobodyReadsAnyMore_IsNoReasonForAnotherPlan) {
  Graph graph(runtime_->registry());
  ValueId value = input(graph, "x", {4});
  for (const char* name : {"first", "second", "third"}) {
    const ValueId shape = *graph.add_input(name, {BP_DTYPE_I64, true, {graph.symbol(name)}});
    value = node(graph, "reshape", {value, shape});
  }
  const Ref<Session> s = session(graph, {value});
  ASSERT_TRUE(s);
  const Ref<Tensor> x = upload_f32({4}, {1, 2, 3, 4});
  const auto upload_ints = [&](const Dims& sizes, const std::vector<double>& ints) {
    return upload(OracleTensor::from_f64(BP_DTYPE_I64, sizes, ints));
  };
  const Ref<Tensor> flat = upload_ints({1}, {4});
  const auto plans_after = [&](const Ref<Tensor>& first) {
    const auto outputs = run(
        *s, {{"x", x}, {"first", first}, {"second", flat}, {"third", upload_ints({2}, {2, 2})}});
    EXPECT_EQ(outputs[0]->sizes(), (Dims{2, 2}));
    return s->plan_count();
  };
  const size_t before = plans_after(upload_ints({2}, {4, 1}));
  // By its first shape, and by what that one makes; from there on the run is as the other.
  EXPECT_EQ(plans_after(upload_ints({2}, {1, 4})), before + 2);
}

TEST_P(PlanTest, MoreShapesThanPlansAreKept_EachGivesItsOwnResult) {
  Graph graph(runtime_->registry());
  const ValueId x = input(graph, "x", {graph.symbol("N")});
  const ValueId y = node(graph, "add", {x, x});
  const Ref<Session> s = session(graph, {y});
  ASSERT_TRUE(s);
  for (int round = 0; round < 2; ++round) {
    for (int64_t size = 1; size < 100; ++size) {
      const std::vector<double> ones(static_cast<size_t>(size), 1);
      const auto outputs = run(*s, {{"x", upload_f32({size}, ones)}});
      ASSERT_EQ(values(outputs[0]), std::vector<double>(ones.size(), 2)) << size;
    }
  }
  EXPECT_EQ(s->plan_count(), 64u);
}

/// Devices without a kernel for what the tests below decompose.
using DecomposedPlanTest = PlanTest;

TEST_P(DecomposedPlanTest, ConstantParts_AreWorkedOutWhenPlanned) {
  // Batch normalization: the square root, the division and the products of its four parameters.
  const auto launches_per_run = [this](bool constant_parameters, std::vector<double>* out_values) {
    Graph graph(runtime_->registry());
    std::vector<ValueId> inputs = {input(graph, "x", {2, 2, 3})};
    std::vector<NamedTensor> named = {
        {"x", upload_f32({2, 2, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})}};
    const std::vector<std::vector<float>> parameters = {{2, 3}, {1, -1}, {0.5, 0.25}, {4, 9}};
    for (size_t i = 0; i < parameters.size(); ++i) {
      const std::string name = "p" + std::to_string(i);
      if (constant_parameters) {
        inputs.push_back(constant(graph, parameters[i], name));
      } else {
        inputs.push_back(input(graph, name, {2}));
        named.emplace_back(name, upload_f32({2}, {parameters[i].begin(), parameters[i].end()}));
      }
    }
    const ValueId y = node(graph, "batch_norm", inputs);
    const Ref<Session> s = session(graph, {y});
    if (!s) return uint64_t{0};
    EXPECT_EQ(s->placement_counts().decomposed, 1u);
    const uint64_t before = device_->counters().launches.load();
    *out_values = values(run(*s, named)[0]);
    return device_->counters().launches.load() - before;
  };
  std::vector<double> folded;
  std::vector<double> computed;
  const uint64_t launches = launches_per_run(true, &folded);
  EXPECT_LT(launches, launches_per_run(false, &computed));
  ASSERT_EQ(folded.size(), 12u);
  ASSERT_EQ(computed.size(), 12u);
  for (size_t i = 0; i < folded.size(); ++i) EXPECT_NEAR(folded[i], computed[i], 1e-5) << i;
  EXPECT_NEAR(folded[0], (1 - 0.5) / 2 * 2 + 1, 1e-4);
  EXPECT_NEAR(folded[3], (4 - 0.25) / 3 * 3 - 1, 1e-4);
}

/// Of a value that is known before the run, and of one that is not.
TEST_P(PlanTest, SizesThatDependOnValues_AreNotTakenForTheirUpperBound) {
  for (const bool known : {true, false}) {
    SCOPED_TRACE(known ? "constant" : "input");
    Graph graph(runtime_->registry());
    const std::vector<float> given = {1, 0, 0, 0, 0, 2};
    const ValueId x = known ? constant(graph, given) : input(graph, "x", {6});
    const ValueId places = node(graph, "non_zero", {x});
    EXPECT_EQ(graph.value(places).type.sizes, (Dims{1, kUnknownDim}));
    const ValueId turned = node(graph, "transpose", {places});
    const ValueId flat = node(graph, "flatten", {turned});
    const Ref<Session> s = session(graph, {turned, flat});
    ASSERT_TRUE(s);
    std::vector<NamedTensor> inputs;
    if (!known) inputs.push_back({"x", upload_f32({6}, {1, 0, 0, 0, 0, 2})});
    const std::vector<Ref<Tensor>> found = run(*s, inputs);
    EXPECT_EQ(found[0]->sizes(), (Dims{2, 1}));
    EXPECT_EQ(values(found[0]), (std::vector<double>{0, 5}));
    EXPECT_EQ(found[1]->sizes(), (Dims{2, 1}));
    EXPECT_EQ(values(found[1]), (std::vector<double>{0, 5}));
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, DecomposedPlanTest, testing::Values("npu:0"), device_test_name);
INSTANTIATE_TEST_SUITE_P(Devices, PlanTest, testing::ValuesIn(tests::device_names()),
                         device_test_name);

/// Fakes: one that cannot copy at all, one that copies aligned tensors only.
class FakePlanTest : public PlanTest {
 protected:
  void SetUp() override {
    RuntimeArgs args = test_runtime_args();
    args.plugin_path = {BP_FAKES_DIR "/good", BP_FAKES_DIR "/odd_kernels"};
    open(args);
  }
};

TEST_P(FakePlanTest, OddInputs_NoKernelCopiesThem_AreMadeContiguousOnTheHost) {
  expect_odd_inputs_kept([&](Graph& graph, ValueId value) {
    const ValueId twice = node(graph, "add", {value, value});
    return node(graph, "sub", {twice, value});  // takes contiguous tensors only
  });
}

TEST_P(FakePlanTest, BackwardsInput_ToAnotherDevice_StaysOnItsBoundary) {
  Graph graph(runtime_->registry());
  const ValueId x = input(graph, "x", {2, 32});
  const ValueId y = node(graph, "exp", {node(graph, "transpose", {x})});
  auto other = runtime_->find_device("odd_kernels:0");
  ASSERT_TRUE(other.ok()) << other.status().to_string();
  std::vector<Device*> fallbacks;
  if (*other != device_) fallbacks.push_back(*other);
  const Ref<Session> s = session(graph, {y}, {}, fallbacks);
  ASSERT_TRUE(s);
  const Ref<Tensor> zeros = upload_f32({65}, std::vector<double>(65, 0.0));
  // Element [0, 0] lies 256 bytes in, the first byte that is read 4.
  const Ref<Tensor> backwards = zeros->view({2, 32}, {-32, -1}, 64);
  EXPECT_EQ(values(run(*s, {{"x", backwards}})[0]), std::vector<double>(64, 1.0));
  EXPECT_EQ(s->placements()[1].kernels, std::vector<std::string>{"exp_on_boundary"});
}

TEST_P(FakePlanTest, AnsweredConstant_IsACopy) {
  Graph graph(runtime_->registry());
  const ValueId x = input(graph, "x", {2});
  const ValueId w = constant(graph, {1, 2});
  const Ref<Session> s = session(graph, {node(graph, "add", {x, w}), w});
  ASSERT_TRUE(s);
  const std::vector<NamedTensor> inputs{{"x", upload_f32({2}, {10, 10})}};
  const auto first = run(*s, inputs);
  const std::vector<Ref<Tensor>> bound{first[1], nullptr};
  run(*s, inputs, {.outputs = bound});
  const auto after = run(*s, inputs);
  EXPECT_EQ(values(after[0]), (std::vector<double>{11, 12}));
  EXPECT_EQ(values(after[1]), (std::vector<double>{1, 2}));
}

/// A chosen device with few kernels, and eight that have the rest.
class ManyDevicesTest : public PlanTest {
 protected:
  void SetUp() override {
    RuntimeArgs args = test_runtime_args();
    args.plugin_path = {BP_FAKES_DIR "/good"};
    args.plugin_options = {{"npu.devices", "8"}};
    open(args);
  }
};

TEST_P(ManyDevicesTest, Session_TakesAsManyAsThereAre) {
  std::vector<Device*> fallbacks;
  for (int i = 7; i >= 0; --i) {
    auto device = runtime_->find_device("npu:" + std::to_string(i));
    ASSERT_TRUE(device.ok()) << device.status().to_string();
    fallbacks.push_back(*device);
  }
  Graph graph(runtime_->registry());
  const ValueId x = input(graph, "x", {3});
  const ValueId squared = node(graph, "mul", {x, x});
  const ValueId y = node(graph, "add", {squared, x});
  const Ref<Session> s = session(graph, {y}, {}, fallbacks);
  ASSERT_TRUE(s);
  const Ref<Tensor> image = upload_f32({3}, {1, -2, 3});
  EXPECT_EQ(values(run(*s, {{"x", image}})[0]), (std::vector<double>{2, 2, 12}));
  EXPECT_EQ(fallbacks[0]->counters().launches.load(), 1u) << "the first that has the kernel";
  for (size_t i = 1; i < fallbacks.size(); ++i) {
    EXPECT_EQ(fallbacks[i]->counters().launches.load(), 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, ManyDevicesTest, testing::Values("good:0"), device_test_name);
// Kernels of these fakes alone say what the tests plan for.
INSTANTIATE_TEST_SUITE_P(Devices, FakePlanTest, testing::Values("good:0", "odd_kernels:0"),
                         device_test_name);

}  // namespace
}  // namespace bp
