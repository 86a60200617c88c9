// SPDX-License-Identifier: Apache-2.0
//
// Every decomposition, with the calls that the kit tries kernels with: it uses the parts that its
// row names, which vendors read, and gives what the operator itself gives. Both through the oracle,
// the decomposed graph node by node with every intermediate result rounded, as devices do it.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "core/base/dtype.hpp"
#include "core/graph/graph.hpp"
#include "ops/expr/rows.hpp"
#include "ops/oracle/oracle.hpp"
#include "ops/register.hpp"
#include "sdk/conform/kernels/trial.hpp"
#include "tests/near_elements.hpp"

namespace bp::conform {
namespace {

constexpr size_t kFewestDecompositions = 39;
// Beside elementwise operators and reductions, whose kernels are emitted.
constexpr size_t kMostPrimitives = 48;

const OpRegistry& registry() {
  static const OpRegistry* const kRegistry = [] {
    auto* made = new OpRegistry;
    EXPECT_TRUE(register_ops(made).ok());
    return made;
  }();
  return *kRegistry;
}

Status decompose(const Call& call, Graph* graph) {
  std::vector<TensorType> types;
  std::vector<const void*> host_data;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const OracleTensor& input = call.inputs[i];
    types.push_back({.dtype = input.dtype, .has_rank = true, .sizes = input.sizes});
    const bool on_host = call.schema->input(i).host != HostNeed::kNone;
    host_data.push_back(on_host ? input.bytes.data() : nullptr);
  }
  return call.schema->decompose(
      {.inputs = types, .host_data = host_data, .attributes = call.attributes.data()}, graph);
}

/// Notes the parts of one call, and compares its results. False: the decomposition refuses it.
bool check_call(const Call& call, tests::NearElements* near, std::set<std::string>* parts) {
  Graph graph(registry());
  const Status made = decompose(call, &graph);
  if (made.code() == BP_UNSUPPORTED) return false;
  const std::string what = call.words();
  EXPECT_TRUE(made.ok()) << what << ": " << made.to_string();
  if (!made.ok()) return false;
  EXPECT_TRUE(graph.verify().ok()) << what << ": " << graph.verify().to_string();
  for (const Node& node : graph.nodes()) {
    const OpSchema& part = registry().schema(node.op);
    if (part.constant) continue;
    EXPECT_TRUE(part.primitive || part.view != nullptr) << what << ": " << part.name;
    parts->emplace(part.name);
  }
  std::vector<OracleTensor> present;
  for (const OracleTensor& input : call.inputs) {
    if (input.dtype != BP_DTYPE_NONE) present.push_back(input);
  }
  std::vector<OracleTensor> found;
  const Status composed = evaluate_graph(graph, present, &found);
  EXPECT_TRUE(composed.ok()) << what << ": " << composed.to_string();
  std::vector<OracleTensor> expected;
  const Status direct = evaluate(*call.schema, call.inputs, call.attributes.data(), &expected);
  EXPECT_TRUE(direct.ok()) << what << ": " << direct.to_string();
  if (!composed.ok() || !direct.ok()) return true;
  EXPECT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < found.size() && i < expected.size(); ++i) {
    near->expect(found[i], expected[i], what + ", output " + std::to_string(i));
  }
  return true;
}

/// How near results are: of plain values, and of the largest numbers among others.
struct Errors {
  tests::NearElements plain{tests::largest_size};
  tests::NearElements special{tests::usual_size};
};

/// Of all calls, which between them take every way through the decomposition.
std::set<std::string> parts_found(const OpSchema& schema, Errors* errors) {
  const Recipe& recipe = *find_recipe(schema.name);
  std::set<std::string> parts;
  size_t count = 0;
  for (const DtypeChoice& dtypes : dtype_choices(schema)) {
    if (dtypes.is_further) continue;
    std::vector<Shot> shots;
    for (const Variant& variant : recipe.variants) {
      shots.insert(shots.end(), variant.shots.begin(), variant.shots.end());
    }
    if (dtypes.has_float()) {
      shots.insert(shots.end(), recipe.inexact.begin(), recipe.inexact.end());
    }
    const auto check = [&](const Shot& shot, Pass pass) {
      const auto call = make_call(schema, recipe, shot, dtypes, pass);
      EXPECT_TRUE(call.ok()) << schema.name << ": " << call.status().to_string();
      tests::NearElements& near = pass == Pass::kSpecial ? errors->special : errors->plain;
      if (call.ok() && check_call(*call, &near, &parts)) ++count;
    };
    for (const Shot& shot : shots) check(shot, Pass::kPrecision);
    if (!dtypes.has_float()) continue;
    for (const Shot& shot : recipe.specials) check(shot, Pass::kSpecial);
  }
  // Of some, a recipe has no attributes that make it another call of itself: auto_pad.
  const bool is_own_part = schema.primitive && schema.decompose != nullptr;
  EXPECT_TRUE(count > 0 || is_own_part)
      << schema.name << ": its decomposition takes no call of its recipe";
  return parts;
}

TEST(Decompositions_OfEveryOperator, UseTheirPartsAndAgreeWithTheOracle) {
  const auto description = nlohmann::json::parse(std::ifstream(BP_OPS_JSON));
  size_t count = 0;
  Errors errors;
  for (const auto& row : description.at("operators")) {
    if (!row.at("decompose").get<bool>()) continue;
    const auto op = registry().find(row.at("name").get<std::string>());
    ASSERT_TRUE(op.has_value());
    // What never has a kernel has no recipe; that others have one is a case of the kit.
    if (find_recipe(registry().schema(*op).name) == nullptr) continue;
    ++count;
    const auto& parts = row.at("parts");
    const std::set<std::string> expected(parts.begin(), parts.end());
    const std::set<std::string> found = parts_found(registry().schema(*op), &errors);
    if (!found.empty()) EXPECT_EQ(found, expected) << row.at("name");
  }
  EXPECT_GE(count, kFewestDecompositions);
  errors.plain.print("decompositions, plain values");
  errors.special.print("decompositions, special values");
}

/// The operator by its decomposition, of x f32[2, 4, 7, 9] which is `value` throughout, with a
/// scale of 1 and a bias of 0.
std::vector<double> normalized_constant(std::string_view name, double value) {
  const OpSchema& schema = registry().schema(*registry().find(name));
  const auto all = [](const Dims& sizes, double number) {
    const std::vector<double> values(static_cast<size_t>(element_count(sizes)), number);
    return OracleTensor::from_f64(BP_DTYPE_F32, sizes, values);
  };
  const Dims factors{name == "layer_norm" ? 9 : 4};
  std::vector<OracleTensor> inputs = {all({2, 4, 7, 9}, value)};
  if (name != "mean_variance_norm") inputs.insert(inputs.end(), {all(factors, 1), all(factors, 0)});
  Call call;
  call.schema = &schema;
  call.inputs = inputs;
  call.attributes = Attributes(schema);
  if (name == "group_norm") EXPECT_TRUE(call.attributes.set_i64("num_groups", 2).ok());
  Graph graph(registry());
  const Status made = decompose(call, &graph);
  EXPECT_TRUE(made.ok()) << made.to_string();
  std::vector<OracleTensor> outputs;
  EXPECT_TRUE(evaluate_graph(graph, inputs, &outputs).ok());
  return outputs.empty() ? std::vector<double>() : outputs[0].to_f64();
}

// In f32 the mean of so many times 1000.7 is another number, and the variance is next to nothing.
TEST(Decompositions_OfNormalizations, EqualValues_AreZero) {
  for (const std::string_view name :
       {"layer_norm", "instance_norm", "group_norm", "mean_variance_norm"}) {
    const std::vector<double> y = normalized_constant(name, 1000.7);
    ASSERT_EQ(y.size(), 2U * 4 * 7 * 9) << name;
    for (const double value : y) ASSERT_NEAR(value, 0, 1e-5) << name;
  }
}

/// The names between backquotes in the rows of the page's table.
std::set<std::string> primitives_on_page() {
  std::ifstream page(BP_OPERATORS_PAGE);
  std::set<std::string> names;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| `")) continue;
    for (size_t begin = line.find('`'); begin != line.npos;) {
      const size_t end = line.find('`', begin + 1);
      if (end == line.npos) break;
      names.insert(line.substr(begin + 1, end - begin - 1));
      begin = line.find('`', end + 1);
    }
  }
  return names;
}

TEST(Primitives, ThoseToWriteByHand_AreFewAndOnThePage) {
  std::set<std::string> names;
  for (const OpSchema& schema : all_schemas()) {
    const bool is_emitted =
        expr::find_row(schema.name) != nullptr || expr::find_reduction(schema.name) != nullptr;
    if (schema.primitive && !is_emitted) names.emplace(schema.name);
  }
  EXPECT_LE(names.size(), kMostPrimitives);
  EXPECT_EQ(names, primitives_on_page());
}

}  // namespace
}  // namespace bp::conform
