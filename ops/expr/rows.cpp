// SPDX-License-Identifier: Apache-2.0
//
// From a row to a tree.
#include "ops/expr/rows.hpp"

namespace bp::expr {

const Row* find_row(std::string_view op) {
  for (const Row& row : all_rows()) {
    if (row.op == op) return &row;
  }
  return nullptr;
}

std::vector<Name> names_of(const Row& row, Type element) {
  constexpr Type kBool{Class::kBool, 8};
  std::vector<Name> names;
  for (const Argument& input : row.inputs) {
    names.push_back({.name = input.name, .type = input.is_bool ? kBool : element});
  }
  for (const Parameter& parameter : row.parameters) {
    const bool is_bool = parameter.kind == ParameterKind::kBool;
    names.push_back({.name = parameter.name, .type = is_bool ? kBool : element});
  }
  names.push_back({.name = "T", .type = element, .is_type = true});
  return names;
}

std::string compile(const Row& row, FormKind kind, Type element, Expr* out_expr) {
  const bool is_kernel = kind == FormKind::kKernel;
  const std::string where =
      "operator '" + std::string(row.op) + "', " + (is_kernel ? "kernel" : "definition") + " for " +
      type_name({element.kind, element.kind == Class::kBool ? element.bits : uint8_t{0}}) + ": ";
  for (const Form& form : is_kernel ? row.kernel : row.definition) {
    if (form.kind != element.kind) continue;
    std::string words = parse(form.text, out_expr);
    const Type result = row.gives_bool ? Type{Class::kBool, 8} : element;
    if (words.empty()) words = check(out_expr, names_of(row, element), result);
    if (!words.empty()) return where + words;
    simplify(out_expr);
    return {};
  }
  return where + "there is none";
}

}  // namespace bp::expr
