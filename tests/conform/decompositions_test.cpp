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
#include "tests/expect_near.hpp"

namespace bp::conform {
namespace {

constexpr tests::NearShares kShares{.single = 1e-5, .half = 1e-2};
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
bool check_call(const Call& call, std::set<std::string>* parts) {
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
    tests::expect_near(found[i], expected[i], kShares, what + ", output " + std::to_string(i));
  }
  return true;
}

/// Of all calls, which between them take every way through the decomposition.
std::set<std::string> parts_found(const OpSchema& schema) {
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
      if (call.ok() && check_call(*call, &parts)) ++count;
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
  for (const auto& row : description.at("operators")) {
    if (!row.at("decompose").get<bool>()) continue;
    const auto op = registry().find(row.at("name").get<std::string>());
    ASSERT_TRUE(op.has_value());
    // What never has a kernel has no recipe; that others have one is a case of the kit.
    if (find_recipe(registry().schema(*op).name) == nullptr) continue;
    ++count;
    const auto& parts = row.at("parts");
    const std::set<std::string> expected(parts.begin(), parts.end());
    const std::set<std::string> found = parts_found(registry().schema(*op));
    if (!found.empty()) EXPECT_EQ(found, expected) << row.at("name");
  }
  EXPECT_GE(count, kFewestDecompositions);
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
