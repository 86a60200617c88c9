// SPDX-License-Identifier: Apache-2.0
//
// An operator of any number of inputs, which no table of fixed width can describe: natively on the
// fake, whose kernel takes contiguous inputs only, and decomposed or on the host elsewhere.
#include "tests/integration/device_fixture.hpp"

namespace bp {
namespace {

constexpr int64_t kInputs = 70;

Status infer_alternate(const InferContext& context, std::span<TensorType> out) {
  out[0].sizes = context.inputs[0].sizes;
  return {};
}

Status decompose_alternate(const InferContext& context, GraphBuilder* graph) {
  ValueId sum = kNoValue;
  for (size_t i = 0; i < context.inputs.size(); ++i) {
    BP_TRY_ASSIGN(const ValueId x, graph->add_input("x" + std::to_string(i), context.inputs[i]));
    if (i == 0) {
      sum = x;
      continue;
    }
    const ValueId both[] = {sum, x};
    BP_TRY_ASSIGN(sum, graph->op(i % 2 == 0 ? "add" : "sub", both, {}));
  }
  return graph->set_outputs({sum}, {"y"});
}

constexpr TypeVar kT[] = {{"T", BP_DTYPE_BIT(BP_DTYPE_F32)}};
constexpr ArgSchema kIn[] = {{"x", 1, 1, 0, BP_DTYPE_NONE, -1, false, true, HostNeed::kNone}};
constexpr ArgSchema kOut[] = {{"y", 1, 1, 0, BP_DTYPE_NONE, -1, false, false, HostNeed::kNone}};

/// y = x0 - x1 + x2 - ...
Status register_with_alternate(OpRegistry* registry) {
  BP_TRY(register_ops(registry));
  OpSchema schema{};
  schema.name = "alternate";
  schema.id = 60'000;
  schema.version = 1;
  schema.type_vars = kT;
  schema.inputs = kIn;
  schema.outputs = kOut;
  schema.infer = infer_alternate;
  schema.decompose = decompose_alternate;
  return registry->add(schema);
}

class VariadicTest : public DeviceTest {
 protected:
  void SetUp() override {
    RuntimeArgs args = test_runtime_args();
    args.register_ops = register_with_alternate;
    args.plugin_path = {BP_FAKES_DIR "/odd_kernels"};
    open(args);
    if (IsSkipped()) return;
    std::vector<double> row(6);
    for (int64_t i = 0; i < kInputs; ++i) {
      for (size_t k = 0; k < row.size(); ++k) row[k] = static_cast<double>(i * i) + double(k) * 100;
      inputs_.push_back(must_call("transpose", {upload_f32({2, 3}, row)}));
      ASSERT_FALSE(inputs_.back()->contiguous());
      for (size_t k = 0; k < row.size(); ++k) {
        expected_[k % 3 * 2 + k / 3] += i % 2 == 0 ? row[k] : -row[k];
      }
    }
  }

  std::vector<Ref<Tensor>> inputs_;
  std::vector<double> expected_ = std::vector<double>(6);
};

TEST_P(VariadicTest, EagerCall_ManyStridedInputs_EachIsReadRight) {
  EXPECT_EQ(values(must_call("alternate", inputs_)), expected_);
  EXPECT_EQ(values(must_call("alternate", inputs_)), expected_) << "and again, by the cache";
}

TEST_P(VariadicTest, Plan_ManyStridedInputs_EachIsReadRight) {
  Graph graph(runtime_->registry());
  std::vector<ValueId> turned;
  std::vector<NamedTensor> given;
  for (int64_t i = 0; i < kInputs; ++i) {
    const std::string name = "x" + std::to_string(i);
    auto x = graph.add_input(name, {BP_DTYPE_F32, true, {3, 2}});
    ASSERT_TRUE(x.ok());
    turned.push_back(*x);
    given.emplace_back(name, inputs_[static_cast<size_t>(i)]);
  }
  auto y = graph.op("alternate", turned);
  ASSERT_TRUE(y.ok()) << y.status().to_string();
  ASSERT_TRUE(graph.set_outputs({*y}, {"y"}).ok());
  auto session = Session::create(*runtime_, std::move(graph), {.device = device_, .dims = {}});
  ASSERT_TRUE(session.ok()) << session.status().to_string();
  auto outputs = (*session)->run(given);
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  EXPECT_EQ(values((*outputs)[0]), expected_);
}

INSTANTIATE_TEST_SUITE_P(Devices, VariadicTest,
                         testing::ValuesIn(tests::device_names({"odd_kernels"})), device_test_name);

}  // namespace
}  // namespace bp
