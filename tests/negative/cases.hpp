// SPDX-License-Identifier: Apache-2.0
//
// Calls that every device must refuse, made from the schemas: a right call of each operator (the
// conformance kit's) with one thing wrong.
#ifndef BACKPLANE_TESTS_NEGATIVE_CASES_HPP
#define BACKPLANE_TESTS_NEGATIVE_CASES_HPP

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sdk/conform/kernels/trial.hpp"

namespace bp::negative {

struct Case {
  std::string id;  // "conv: attribute group = 0"
  const OpSchema* schema = nullptr;
  std::vector<OracleTensor> inputs;  // dtype NONE: absent
  Attributes attributes;
  /// What the words of the error must hold beside the operator's name: "attribute 'group'". Empty:
  /// any argument's name.
  std::string names;
};

using AttributeValue = conform::Setting;

/// A value that no operator with such an attribute takes. Lists of one value for each spatial
/// dimension are written with their first value: the others are 1.
struct AttributeRule {
  std::string_view name;
  std::vector<decltype(conform::Setting::value)> values;
  bool is_spatial = false;
  std::string_view op = {};       // of this operator alone
  std::string_view not_of = {};   // of all but those whose names end so
  std::string_view told_of = {};  // the input that the error names, which contradicts the value
};
/// Whether it is a rule for this attribute.
inline bool is_rule_of(const AttributeRule& rule, std::string_view op, std::string_view attribute) {
  const bool is_left_out = !rule.not_of.empty() && op.ends_with(rule.not_of);
  return rule.name == attribute && (rule.op.empty() || rule.op == op) && !is_left_out;
}
/// Values that are wrong for an input that is read on the host.
struct HostRule {
  std::string_view op;
  std::string_view input;
  std::vector<std::vector<int64_t>> values;
};
/// Sizes that are wrong, and of which input.
struct SizesRule {
  std::string_view op;
  std::string_view input;
  std::vector<Dims> sizes;
};
std::vector<AttributeRule> attribute_rules();
std::vector<HostRule> host_rules();
std::vector<SizesRule> sizes_rules();
/// Attributes of which every value has a meaning.
std::vector<std::string_view> free_attributes();

/// A right call; dtypes f32 where it can be.
conform::Call base_call(const OpSchema& schema);

/// All of them, in the order of the operators.
std::vector<Case> all_cases();

}  // namespace bp::negative

#endif
