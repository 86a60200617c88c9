// SPDX-License-Identifier: Apache-2.0
//
// Finding the rule of an ONNX operator. The rules are generated from the rows of ops/defs, which
// were checked against the schema history of ONNX 1.23 (operator sets 7 to 28); set 6 is adapted
// to 7 (opset6.hpp).
#include <algorithm>
#include <string>
#include <vector>

#include "core/base/options.hpp"
#include "ops/onnx/node_import.hpp"
#include "ops/onnx/opset6.hpp"

namespace bp::onnx {

const OpRule* find_rule(std::string_view op_type, int64_t opset) {
  opset = std::max(opset, kOldestRules);
  for (const OpRule& rule : all_rules()) {
    if (rule.onnx == op_type && opset >= rule.since && opset <= rule.until) return &rule;
  }
  return nullptr;
}

Status no_rule(std::string_view op_type) {
  const std::span<const OpRule> rules = all_rules();
  std::vector<std::string> names;
  for (const OpRule& rule : rules) {
    if (names.empty() || names.back() != rule.onnx) names.emplace_back(rule.onnx);
  }
  const auto first = std::find_if(rules.begin(), rules.end(),
                                  [&](const OpRule& rule) { return rule.onnx == op_type; });
  if (first != rules.end()) {
    return Status(BP_UNSUPPORTED,
                  "the operator exists since opset " + std::to_string(first->since));
  }
  // Of short names another operator is always near: If is no Erf that somebody mistyped.
  constexpr size_t kShort = 4;
  const auto near =
      op_type.size() > kShort ? nearest_match(op_type, names) : std::optional<std::string>();
  return Status(BP_UNSUPPORTED,
                "the operator is not known; " +
                    (near ? "nearest is '" + *near + "'"
                          : "operators.md of the documentation lists those that are"));
}

}  // namespace bp::onnx
