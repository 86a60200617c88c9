// SPDX-License-Identifier: Apache-2.0
//
// Models of 3 to 12 random nodes from all operators, on every device against the oracle: calls that
// the kit tries kernels with, chained where a result can be another's input. What no node reads is
// an output, so that no node is dead.
#include <cstring>
#include <optional>
#include <random>
#include <set>

#include "core/base/dtype.hpp"
#include "sdk/conform/kernels/trial.hpp"
#include "tests/integration/device_fixture.hpp"
#include "tests/near_elements.hpp"

namespace bp {
namespace {

using conform::Call;
using conform::DtypeChoice;
using conform::Recipe;
using conform::Shot;

constexpr uint32_t kModelCount = 200;
constexpr size_t kFewestNodes = 3;
constexpr size_t kMostNodes = 12;
constexpr size_t kLinkNodes = 5;  // of a call's first linked input: reshape, mul, add, gather, it
constexpr int64_t kMostElements = 4096;

/// What jumps where its input changes a little, or divides by how little it differs, takes values
/// that no arithmetic was done on.
constexpr std::string_view kJumping[] = {"ceil",  "floor",  "hardmax",         "mod",
                                         "round", "sign",   "top_k",           "trunc",
                                         "fmod",  "shrink", "thresholded_relu"};

struct Made {
  ValueId id;
  OracleTensor value;
};

bool all_finite(const OracleTensor& tensor) {
  const auto values = tensor.to_f64();
  return std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); });
}

/// A model while it grows; each value is known, by the oracle.
class CallChain {
 public:
  CallChain(const OpRegistry& registry, uint32_t seed)
      : registry_(registry), graph_(registry), random_(seed) {}

  size_t node_count() const { return graph_.nodes().size(); }
  /// Results that other calls read.
  size_t link_count() const { return link_count_; }
  const std::vector<OracleTensor>& inputs() const { return inputs_; }
  const std::vector<OracleTensor>& expected() const { return expected_; }

  /// A random call of the operator that fits; false: there is none.
  bool add(const OpSchema& schema) {
    const Recipe* recipe = conform::find_recipe(schema.name);
    if (recipe == nullptr) return false;
    std::vector<const Shot*> shots;
    for (const auto& variant : recipe->variants) {
      for (const Shot& shot : variant.shots) shots.push_back(&shot);
    }
    std::shuffle(shots.begin(), shots.end(), random_);
    auto choices = conform::dtype_choices(schema);
    std::erase_if(choices, [recipe](const conform::DtypeChoice& dtypes) {
      return recipe->takes != nullptr && !recipe->takes(dtypes.variables.front(), dtypes.named);
    });
    for (const Shot* shot : shots) {
      const auto call =
          conform::make_call(schema, *recipe, *shot, pick(choices), conform::Pass::kPrecision,
                             static_cast<uint32_t>(random_()));
      EXPECT_TRUE(call.ok()) << call.status().to_string();
      if (call.ok() && is_small(*call)) return add_call(*call);
    }
    return false;
  }

  Graph finish() {
    std::vector<ValueId> outputs;
    std::vector<std::string> names;
    for (const Made& made : pool_) {
      if (is_read(made.id)) continue;
      outputs.push_back(made.id);
      names.push_back("output" + std::to_string(names.size()));
      expected_.push_back(made.value);
    }
    EXPECT_TRUE(graph_.set_outputs(outputs, names).ok());
    return std::move(graph_);
  }

 private:
  /// f32 alone, as most models have it, or any choice.
  DtypeChoice pick(const std::vector<DtypeChoice>& choices) {
    const auto plain = std::find_if(choices.begin(), choices.end(), [](const DtypeChoice& choice) {
      return !choice.variables.empty() && choice.variables[0] == BP_DTYPE_F32;
    });
    if (plain != choices.end() && random_() % 2 == 0) return *plain;
    return choices[random_() % choices.size()];
  }
  static bool is_small(const Call& call) {
    const auto small = [](const Dims& sizes) {
      const int64_t count = all_known(sizes) ? element_count(sizes) : 0;
      return count > 0 && count <= kMostElements;
    };
    const bool inputs =
        std::all_of(call.inputs.begin(), call.inputs.end(), [&](const OracleTensor& input) {
          return input.dtype == BP_DTYPE_NONE || small(input.sizes);
        });
    return inputs && std::all_of(call.output_types.begin(), call.output_types.end(),
                                 [&](const TensorType& type) { return small(type.sizes); });
  }
  bool is_read(ValueId id) const {
    return std::any_of(graph_.nodes().begin(), graph_.nodes().end(), [&](const Node& node) {
      return std::count(node.inputs.begin(), node.inputs.end(), id) > 0;
    });
  }
  static bool jumps(const Call& call) {
    const auto* const end = std::end(kJumping);
    return std::find(std::begin(kJumping), end, call.schema->name) != end ||
           std::any_of(call.output_types.begin(), call.output_types.end(),
                       [](const TensorType& type) { return !is_float_dtype(type.dtype); });
  }

  bool add_call(const Call& call) {
    std::vector<Made> inputs;
    const Made* source = jumps(call) ? nullptr : linkable();
    size_t room = kMostNodes - node_count() - 1;
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      const OracleTensor& value = call.inputs[i];
      const bool on_host = call.schema->input(i).host != HostNeed::kNone;
      const size_t cost = scaled_ ? 1 : kLinkNodes - 1;
      if (value.dtype == BP_DTYPE_NONE) {
        inputs.push_back({kNoValue, value});
      } else if (on_host || (i > 0 && random_() % 4 == 0)) {
        inputs.push_back({constant(value), value});
      } else if (source != nullptr && value.dtype == BP_DTYPE_F32 && room >= cost) {
        if (!scaled_) {
          scaled_ = scale(*source);
          ++link_count_;
        }
        inputs.push_back(spread(*scaled_, value.sizes));
        room -= cost;
      } else {
        inputs.push_back(input(value));
      }
    }
    scaled_.reset();
    return apply(call.schema->name, inputs, call.attributes, /*keep=*/true).has_value();
  }

  /// The newest result that can be another's input: its values differ, and all are numbers.
  const Made* linkable() const {
    for (auto made = pool_.rbegin(); made != pool_.rend(); ++made) {
      if (made->value.dtype != BP_DTYPE_F32 || !all_finite(made->value)) continue;
      const auto values = made->value.to_f64();
      if (values.empty()) continue;
      const auto [low, high] = std::minmax_element(values.begin(), values.end());
      const double largest = std::max(std::fabs(*low), std::fabs(*high));
      if (largest > 1e-6 && largest < 1e30 && *high - *low > 0.1 * largest) return &*made;
    }
    return nullptr;
  }
  /// In a row, between 1/4 and 3/4: where every function of numbers is tame.
  std::optional<Made> scale(const Made& source) {
    const auto values = source.value.to_f64();
    double largest = 0;
    for (const double value : values) largest = std::max(largest, std::fabs(value));
    const OracleTensor all = OracleTensor::from_i64(BP_DTYPE_I64, {1}, std::vector<int64_t>{-1});
    const auto row = apply("reshape", {source, {constant(all), all}});
    if (!row) return std::nullopt;
    const auto product = apply("mul", {*row, number(0.25 / largest)});
    return product ? apply("add", {*product, number(0.5)}) : std::nullopt;
  }
  /// The row's values over and over, in those sizes.
  Made spread(const Made& row, const Dims& sizes) {
    std::vector<int64_t> places(static_cast<size_t>(element_count(sizes)));
    const auto count = static_cast<size_t>(element_count(row.value.sizes));
    const size_t first = random_() % count;
    for (size_t i = 0; i < places.size(); ++i) {
      places[i] = static_cast<int64_t>((first + i) % count);
    }
    const OracleTensor indices = OracleTensor::from_i64(BP_DTYPE_I64, sizes, places);
    const auto made = apply("gather", {row, {constant(indices), indices}});
    EXPECT_TRUE(made.has_value());
    return made.value_or(Made{kNoValue, {}});
  }

  Made number(double value) {
    const OracleTensor scalar =
        OracleTensor::from_f64(BP_DTYPE_F32, {1}, std::vector<double>{value});
    return {constant(scalar), scalar};
  }
  ValueId constant(const OracleTensor& value) {
    void* data = nullptr;
    auto tensor = HostTensor::allocate(value.dtype, value.sizes, &data);
    EXPECT_TRUE(tensor.ok());
    std::memcpy(data, value.bytes.data(), value.bytes.size());
    const auto id = graph_.add_constant("", std::move(*tensor));
    EXPECT_TRUE(id.ok()) << id.status().to_string();
    return id.ok() ? *id : kNoValue;
  }
  Made input(const OracleTensor& value) {
    const auto id = graph_.add_input("input" + std::to_string(inputs_.size()),
                                     {value.dtype, true, value.sizes});
    EXPECT_TRUE(id.ok()) << id.status().to_string();
    inputs_.push_back(value);
    return {id.ok() ? *id : kNoValue, value};
  }
  std::optional<Made> apply(std::string_view op, const std::vector<Made>& inputs,
                            Attributes attributes = {}, bool keep = false) {
    const OpSchema& schema = registry_.schema(*registry_.find(op));
    std::vector<ValueId> ids;
    std::vector<OracleTensor> values;
    for (const Made& each : inputs) {
      ids.push_back(each.id);
      values.push_back(each.value);
    }
    std::vector<OracleTensor> results;
    const Status known = evaluate(schema, values, attributes.data(), &results);
    const auto made = graph_.op_outputs(op, ids, std::move(attributes));
    EXPECT_TRUE(known.ok() && made.ok()) << known.to_string() << "; " << made.status().to_string();
    if (!known.ok() || !made.ok()) return std::nullopt;
    for (size_t i = 0; keep && i < results.size(); ++i) pool_.push_back({(*made)[i], results[i]});
    return Made{(*made)[0], results[0]};
  }

  const OpRegistry& registry_;
  Graph graph_;
  std::mt19937 random_;
  std::vector<Made> pool_;  // results of calls
  std::optional<Made> scaled_;
  size_t link_count_ = 0;
  std::vector<OracleTensor> inputs_;
  std::vector<OracleTensor> expected_;
};

class RandomCallsTest : public DeviceTest {
 protected:
  void run(const Graph& graph, const CallChain& chain) {
    const Ref<Session> s = session(graph);
    ASSERT_TRUE(s);
    std::vector<NamedTensor> named;
    for (size_t i = 0; i < chain.inputs().size(); ++i) {
      named.emplace_back(s->inputs()[i].name, upload(chain.inputs()[i]));
    }
    auto outputs = s->run(named);
    ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
    for (size_t i = 0; i < chain.expected().size(); ++i) {
      near_.expect(download((*outputs)[i]), chain.expected()[i], "output " + std::to_string(i));
    }
  }

  tests::NearElements near_{tests::largest_size};  // of it, links keep errors as small
};

TEST_P(RandomCallsTest, EveryOperator_MatchesOracle) {
  const OpRegistry& registry = runtime_->registry();
  std::vector<OpId> all;
  for (OpId id = 0; id < registry.size(); ++id) {
    if (conform::find_recipe(registry.schema(id).name) != nullptr) all.push_back(id);
  }
  std::mt19937 random(7);
  std::vector<OpId> waiting;
  std::set<OpId> tried;
  size_t link_count = 0;
  for (uint32_t seed = 1; seed <= kModelCount; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    CallChain chain(registry, seed);
    const size_t target = kFewestNodes + random() % (kMostNodes - kFewestNodes + 1);
    while (chain.node_count() < target) {
      if (waiting.empty()) {
        waiting = all;
        std::shuffle(waiting.begin(), waiting.end(), random);
      }
      if (chain.add(registry.schema(waiting.back()))) tried.insert(waiting.back());
      waiting.pop_back();
    }
    const Graph graph = chain.finish();
    link_count += chain.link_count();
    ASSERT_GE(graph.nodes().size(), kFewestNodes);
    ASSERT_LE(graph.nodes().size(), kMostNodes);
    Graph pruned = graph;
    pruned.remove_dead();
    ASSERT_EQ(pruned.nodes().size(), graph.nodes().size()) << "a node is dead";
    run(graph, chain);
    if (HasFailure()) {
      ADD_FAILURE() << graph.to_string();
      return;
    }
  }
  EXPECT_EQ(tried.size(), all.size()) << "operators that no model has";
  EXPECT_GE(link_count, kModelCount / 2) << "calls stand side by side";
  near_.print("random calls on " + GetParam());
}

INSTANTIATE_TEST_SUITE_P(Devices, RandomCallsTest, testing::ValuesIn(tests::device_names()),
                         device_test_name);

}  // namespace
}  // namespace bp
