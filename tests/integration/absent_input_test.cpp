// SPDX-License-Identifier: Apache-2.0
//
// A decomposed operator whose absent input stands before one that is there: the parts of the
// decomposition have no value for it, so places in the call and in the parts differ.
#include "tests/integration/device_fixture.hpp"

namespace bp {
namespace {

Status infer_affine(const InferContext& context, std::span<TensorType> out) {
  out[0].sizes = context.inputs[0].sizes;
  return {};
}

Status decompose_affine(const InferContext& context, GraphBuilder* graph) {
  ValueId result = kNoValue;
  const char* const operators[] = {nullptr, "mul", "add"};
  for (size_t i = 0; i < context.inputs.size(); ++i) {
    if (context.inputs[i].dtype == BP_DTYPE_NONE) continue;
    BP_TRY_ASSIGN(const ValueId x, graph->add_input("x" + std::to_string(i), context.inputs[i]));
    const ValueId both[] = {result, x};
    if (i == 0) {
      result = x;
    } else {
      BP_TRY_ASSIGN(result, graph->op(operators[i], both, {}));
    }
  }
  return graph->set_outputs({result}, {"y"});
}

/// Leaves the absent input out of the parts' places, as an author might who has not read the rule.
Status decompose_short(const InferContext& context, GraphBuilder* graph) {
  BP_TRY_ASSIGN(const ValueId x, graph->add_input("x", context.inputs[0]));
  return graph->set_outputs({x}, {"y"});
}

constexpr TypeVar kT[] = {{"T", BP_DTYPE_BIT(BP_DTYPE_F32)}};
constexpr ArgSchema argument(std::string_view name, uint32_t id, bool optional) {
  return {name, id, 1, 0, BP_DTYPE_NONE, -1, optional, false, HostNeed::kNone};
}
constexpr ArgSchema kIn[] = {argument("x", 1, false), argument("scale", 2, true),
                             argument("shift", 3, true)};
constexpr ArgSchema kOut[] = {argument("y", 1, false)};

/// affine: y = x * scale + shift; short: a decomposition that breaks the rule.
Status register_with_affine(OpRegistry* registry) {
  BP_TRY(register_ops(registry));
  OpSchema schema{};
  schema.version = 1;
  schema.type_vars = kT;
  schema.inputs = kIn;
  schema.outputs = kOut;
  schema.infer = infer_affine;
  schema.name = "affine";
  schema.id = 60'000;
  schema.decompose = decompose_affine;
  BP_TRY(registry->add(schema));
  schema.name = "short";
  schema.id = 60'001;
  schema.decompose = decompose_short;
  return registry->add(schema);
}

class AbsentInputTest : public DeviceTest {
 protected:
  void SetUp() override {
    RuntimeArgs args = test_runtime_args();
    args.register_ops = register_with_affine;
    open(args);
  }

  /// y = affine(x, -, shift), where shift is an input or a constant.
  std::vector<double> planned(bool is_constant) {
    Graph graph(runtime_->registry());
    const TensorType type{BP_DTYPE_F32, true, {3}};
    const ValueId x = *graph.add_input("x", type);
    std::vector<NamedTensor> given{{"x", upload_f32({3}, {1, 2, 3})}};
    ValueId shift = kNoValue;
    if (is_constant) {
      void* data = nullptr;
      HostTensor tensor = *HostTensor::allocate(BP_DTYPE_F32, Dims{3}, &data);
      for (int i = 0; i < 3; ++i) static_cast<float*>(data)[i] = static_cast<float>(10 * (i + 1));
      shift = *graph.add_constant("shift", std::move(tensor));
    } else {
      shift = *graph.add_input("shift", type);
      given.emplace_back("shift", upload_f32({3}, {10, 20, 30}));
    }
    const ValueId inputs[] = {x, kNoValue, shift};
    const auto y = graph.op("affine", inputs);
    EXPECT_TRUE(y.ok() && graph.set_outputs({*y}, {"y"}).ok());
    const auto outputs = session(std::move(graph))->run(given);
    EXPECT_TRUE(outputs.ok()) << outputs.status().to_string();
    return outputs.ok() ? values((*outputs)[0]) : std::vector<double>();
  }

  const std::vector<double> expected_ = {11, 22, 33};
};

TEST_P(AbsentInputTest, EagerCall_AbsentInTheMiddle_TheNextIsNotTakenForIt) {
  const Ref<Tensor> x = upload_f32({3}, {1, 2, 3});
  const Ref<Tensor> shift = upload_f32({3}, {10, 20, 30});
  EXPECT_EQ(values(must_call("affine", {x, nullptr, shift})), expected_);
  EXPECT_EQ(values(must_call("affine", {x, shift, x})), (std::vector<double>{11, 42, 93}));
}

TEST_P(AbsentInputTest, Plan_AbsentInTheMiddle_TheNextIsNotTakenForIt) {
  EXPECT_EQ(planned(false), expected_);
}

TEST_P(AbsentInputTest, Plan_ConstantBehindAnAbsentOne_IsFoldedInItsPlace) {
  EXPECT_EQ(planned(true), expected_);
}

TEST_P(AbsentInputTest, DecompositionWithFewerInputs_IsRefusedByName) {
  const Ref<Tensor> x = upload_f32({3}, {1, 2, 3});
  const auto output = try_call("short", {x, nullptr, x});
  ASSERT_FALSE(output.ok());
  EXPECT_EQ(output.status().code(), BP_INTERNAL);
  EXPECT_NE(output.status().message().find("its decomposition has 1 inputs, the call 2"),
            std::string::npos)
      << output.status().to_string();
}

INSTANTIATE_TEST_SUITE_P(Devices, AbsentInputTest, testing::ValuesIn(tests::device_names()),
                         device_test_name);

}  // namespace
}  // namespace bp
