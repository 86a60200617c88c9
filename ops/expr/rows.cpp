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

namespace {

/// "float" for all floats.
std::string class_name(Type type) {
  return type_name({type.kind, type.kind == Class::kBool ? uint8_t{8} : uint8_t{0}});
}

}  // namespace

std::string compile(const Row& row, FormKind kind, Type element, Expr* out_expr) {
  const bool is_kernel = kind == FormKind::kKernel;
  const std::string where = "operator '" + std::string(row.op) + "', " +
                            (is_kernel ? "kernel" : "definition") + " for " + class_name(element) +
                            ": ";
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

const ReductionRow* find_reduction(std::string_view op) {
  for (const ReductionRow& row : all_reductions()) {
    if (row.op == op) return &row;
  }
  return nullptr;
}

std::vector<Name> map_names(Type element) {
  return {{.name = "x", .type = element}, {.name = "T", .type = element, .is_type = true}};
}
std::vector<Name> combine_names(Type accumulator) {
  return {{.name = "a", .type = accumulator}, {.name = "b", .type = accumulator}};
}
std::vector<Name> finish_names(Type element, Type accumulator) {
  return {{.name = "a", .type = accumulator},
          {.name = "count", .type = accumulator},
          {.name = "T", .type = element, .is_type = true}};
}

namespace {

/// Parsed, checked and simplified.
std::string make(std::string_view text, const std::vector<Name>& names, Type result, Expr* out) {
  std::string words = parse(text, out);
  if (words.empty()) words = check(out, names, result);
  if (words.empty()) simplify(out);
  return words;
}

}  // namespace

std::string compile(const ReductionRow& row, Type element, ReductionTrees* out_trees) {
  const std::string where = "operator '" + std::string(row.op) + "', ";
  for (const ReductionForm& form : row.forms) {
    if (form.kind != element.kind) continue;
    std::string words = make(form.map, map_names(element), {}, &out_trees->map);
    if (!words.empty()) return where + "map: " + words;
    const Type accumulator = out_trees->map.nodes.back().type;
    out_trees->accumulator = accumulator;
    words = make(form.start, {}, accumulator, &out_trees->start);
    if (!words.empty()) return where + "start: " + words;
    words = make(form.combine, combine_names(accumulator), accumulator, &out_trees->combine);
    if (!words.empty()) return where + "combine: " + words;
    words = make(form.finish, finish_names(element, accumulator), element, &out_trees->finish);
    return words.empty() ? words : where + "finish: " + words;
  }
  return where + "there is none for " + class_name(element);
}

}  // namespace bp::expr
