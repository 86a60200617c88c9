// SPDX-License-Identifier: Apache-2.0
//
// Random models on every device against the oracle. Each holds every kind of operator below at
// least once, in random order, and whatever no later operator reads is an output: no node is dead.
#include <algorithm>
#include <cstring>
#include <random>

#include "tests/integration/device_fixture.hpp"

namespace bp {
namespace {

constexpr int64_t kSide = 4;
const Dims kSquare{kSide, kSide};
constexpr std::string_view kKinds[] = {
    "add",        "sub",        "mul",     "div",        "max",       "relu",      "sqrt",
    "reciprocal", "exp",        "softmax", "matmul",     "conv",      "max_pool",  "gather",
    "gemm",       "reduce_sum", "reshape", "reduce_max", "transpose", "batch_norm"};

/// Makes one model. Values of the pool are squares between 0.01 and some hundreds, which stay so
/// however they are combined: steps that would grow them take softmax's answer.
class ModelMaker {
 public:
  ModelMaker(const OpRegistry& registry, uint32_t seed)
      : registry_(registry), graph_(registry), random_(seed) {
    for (const char* name : {"x", "y", "z"}) {
      pool_.push_back(check(graph_.add_input(name, {BP_DTYPE_F32, true, kSquare})));
      inputs_.push_back(numbers(kSquare));
    }
  }

  void add_steps(size_t extra_count) {
    std::vector<std::string_view> kinds(std::begin(kKinds), std::end(kKinds));
    for (size_t i = 0; i < extra_count; ++i) kinds.push_back(kKinds[random_() % std::size(kKinds)]);
    std::shuffle(kinds.begin(), kinds.end(), random_);
    for (const std::string_view kind : kinds) pool_.push_back(step(kind));
  }

  Graph finish() {
    std::vector<ValueId> outputs;
    std::vector<std::string> names;
    for (ValueId id = 0; id < graph_.values().size(); ++id) {
      if (graph_.value(id).producer == kNoNode || is_read(id)) continue;
      outputs.push_back(id);
      names.push_back("output" + std::to_string(names.size()));
    }
    EXPECT_TRUE(graph_.set_outputs(outputs, names).ok());
    return std::move(graph_);
  }
  const std::vector<OracleTensor>& inputs() const { return inputs_; }

 private:
  static ValueId check(const Result<ValueId>& made) {
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return made.ok() ? *made : kNoValue;
  }
  bool is_read(ValueId id) const {
    return std::any_of(graph_.nodes().begin(), graph_.nodes().end(), [&](const Node& node) {
      return std::count(node.inputs.begin(), node.inputs.end(), id) > 0;
    });
  }
  OracleTensor numbers(const Dims& sizes) {
    std::uniform_real_distribution<double> uniform(0.5, 2.0);
    std::vector<double> values(static_cast<size_t>(element_count(sizes)));
    for (double& value : values) value = uniform(random_);
    return OracleTensor::from_f64(BP_DTYPE_F32, sizes, values);
  }
  ValueId constant(const OracleTensor& value) {
    void* data = nullptr;
    auto tensor = HostTensor::allocate(value.dtype, value.sizes, &data);
    EXPECT_TRUE(tensor.ok());
    std::memcpy(data, value.bytes.data(), value.bytes.size());
    return check(graph_.add_constant("", std::move(*tensor)));
  }
  ValueId integers(const Dims& sizes, const std::vector<int64_t>& values) {
    return constant(OracleTensor::from_i64(BP_DTYPE_I64, sizes, values));
  }
  Attributes attributes(std::string_view op) const {
    return Attributes(registry_.schema(*registry_.find(op)));
  }
  Attributes with(std::string_view op, std::string_view name, std::vector<int64_t> list) const {
    Attributes set = attributes(op);
    EXPECT_TRUE(set.set_i64s(name, list).ok());
    return set;
  }
  ValueId op(std::string_view name, std::vector<ValueId> inputs) {
    return check(graph_.op(name, inputs));
  }
  ValueId op(std::string_view name, std::vector<ValueId> inputs, Attributes attributes) {
    return check(graph_.op(name, inputs, std::move(attributes)));
  }
  ValueId any() { return pool_[random_() % pool_.size()]; }
  /// Between 0 and 1, a row's sum 1.
  ValueId squashed() { return op("softmax", {any()}); }
  /// Between 1 and 2.
  ValueId raised() { return op("add", {squashed(), constant(ones({1}))}); }
  static OracleTensor ones(const Dims& sizes) {
    return OracleTensor::from_f64(
        BP_DTYPE_F32, sizes, std::vector<double>(static_cast<size_t>(element_count(sizes)), 1.0));
  }
  ValueId shaped(ValueId value, const std::vector<int64_t>& sizes) {
    return op("reshape", {value, integers({static_cast<int64_t>(sizes.size())}, sizes)});
  }
  ValueId as_image(ValueId value) { return shaped(value, {1, 1, kSide, kSide}); }
  ValueId as_square(ValueId value) { return shaped(value, {kSide, kSide}); }

  ValueId step(std::string_view kind) {
    if (kind == "add" || kind == "sub" || kind == "max") return op(kind, {squashed(), any()});
    if (kind == "mul") return op(kind, {squashed(), any()});
    if (kind == "div") return op(kind, {any(), raised()});
    if (kind == "relu") return op(kind, {any()});
    if (kind == "sqrt" || kind == "exp") return op(kind, {squashed()});
    if (kind == "reciprocal") return op(kind, {raised()});
    if (kind == "softmax") return squashed();
    if (kind == "transpose") return op(kind, {any()});
    if (kind == "matmul") return op(kind, {squashed(), any()});
    if (kind == "gemm") return op(kind, {squashed(), any(), constant(numbers({kSide}))});
    if (kind == "reshape") return shaped(op("transpose", {any()}), {kSide, kSide});
    if (kind == "gather") return op(kind, {any(), integers({kSide}, {3, 0, -1, 2})});
    return step_of_images(kind);
  }

  ValueId step_of_images(std::string_view kind) {
    if (kind == "conv") {
      const ValueId weights = constant(numbers({1, 1, 3, 3}));
      return as_square(op(kind, {as_image(squashed()), weights}, with(kind, "pads", {1, 1, 1, 1})));
    }
    if (kind == "max_pool") {
      Attributes set = with(kind, "pads", {1, 1, 1, 1});
      EXPECT_TRUE(set.set_i64s("kernel_shape", std::vector<int64_t>{3, 3}).ok());
      return as_square(op(kind, {as_image(any())}, std::move(set)));
    }
    if (kind == "batch_norm") {
      std::vector<ValueId> inputs{as_image(any())};
      for (int i = 0; i < 4; ++i) inputs.push_back(constant(numbers({1})));
      return as_square(op(kind, inputs));
    }
    // A reduction, brought back to a square by broadcasting.
    const ValueId reduced = op(kind, {any()}, with(kind, "axes", {1}));
    return op("mul", {squashed(), reduced});
  }

  const OpRegistry& registry_;
  Graph graph_;
  std::mt19937 random_;
  std::vector<ValueId> pool_;
  std::vector<OracleTensor> inputs_;
};

class RandomModelTest : public DeviceTest {};

TEST_P(RandomModelTest, EveryKindOfOperator_NoDeadNode_MatchesOracle) {
  for (uint32_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ModelMaker maker(runtime_->registry(), seed);
    maker.add_steps(20);
    const Graph graph = maker.finish();
    for (const std::string_view kind : kKinds) {
      EXPECT_TRUE(std::any_of(graph.nodes().begin(), graph.nodes().end(),
                              [&](const Node& node) { return node.op == op(kind); }))
          << kind << " does not occur";
    }
    Graph pruned = graph;
    pruned.remove_dead();
    EXPECT_EQ(pruned.nodes().size(), graph.nodes().size()) << "a node is dead";
    expect_oracle(graph, maker.inputs());
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, RandomModelTest, testing::ValuesIn(tests::device_names()),
                         device_test_name);

}  // namespace
}  // namespace bp
