// SPDX-License-Identifier: Apache-2.0
//
// The rows of ops/defs that have expressions, as data: rows.cpp is generated from them. The oracle,
// bp-exprgen and the conformance kit read them here and nowhere else.
#ifndef BACKPLANE_OPS_EXPR_ROWS_HPP
#define BACKPLANE_OPS_EXPR_ROWS_HPP

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ops/expr/expr.hpp"

namespace bp::expr {

/// An input, of the row's one type variable T or a bool.
struct Argument {
  std::string_view name;
  bool is_bool;
};

enum class ParameterKind : uint8_t { kF64, kI64, kBool };

/// An attribute that expressions may name: a constant of T, or a bool.
struct Parameter {
  std::string_view name;
  ParameterKind kind;
  uint32_t offset_bytes;  // in bp_attrs_<op>, where it takes 8
  double default_value;
};

/// The text for one class of T.
struct Form {
  Class kind;
  std::string_view text;
};

/// What the conformance kit tries it with; words are those of FillKind (fill.hpp).
struct Cases {
  std::span<const std::string_view> exact;    // empty: whole numbers give no exact results
  std::span<const std::string_view> precise;  // the last one repeats
  bool either_zero;                           // the sign of a zero result is not told
  uint32_t least_different;                   // results that a case must show
};

struct Row {
  std::string_view op;
  uint32_t id;
  std::span<const std::string_view> dtypes;  // of T
  std::span<const Argument> inputs;
  bool gives_bool;  // else T
  std::span<const Parameter> parameters;
  std::span<const Form> definition;
  std::span<const Form> kernel;  // as many, for the same classes
  // How far a kernel's float may be from the exact one, in units in the last place; f16 and bf16
  // have their own. 0: correctly rounded.
  double ulps;
  double half_ulps;
  bool near_input;  // units of the input nearest to 0 where that is larger than the result
  Cases cases;
};

/// What a reduction does for one class of T. The accumulator has the type that `map` gives.
struct ReductionForm {
  Class kind;
  std::string_view map;      // of x
  std::string_view start;    // what is over nothing
  std::string_view combine;  // of a and b, in any order
  std::string_view finish;   // of a, and of count, how many there were
};

/// A reduction over the attribute axes.
struct ReductionRow {
  std::string_view op;
  uint32_t id;
  std::string_view family;
  std::span<const std::string_view> dtypes;
  std::span<const ReductionForm> forms;
  bool chooses;  // it only chooses among its elements, so that results are exact
  std::string_view exact;
  std::string_view precise;
  std::string_view special;
  size_t least_different;
};

/// By id. Static data.
std::span<const Row> all_rows();
std::span<const ReductionRow> all_reductions();
/// nullptr: no such row.
const ReductionRow* find_reduction(std::string_view op);
/// nullptr: no such row.
const Row* find_row(std::string_view op);

enum class FormKind : uint8_t { kDefinition, kKernel };

/// The row's names: inputs, then parameters, then T, where `element` stands for it.
std::vector<Name> names_of(const Row& row, Type element);
/// The row's expression for that type: parsed, checked and simplified. Errors name operator, form
/// and class: "operator 'gelu', kernel for float: ...".
std::string compile(const Row& row, FormKind kind, Type element, Expr* out_expr);

/// The expressions of a reduction, and the type of its accumulator.
struct ReductionTrees {
  Type accumulator;
  Expr map;
  Expr start;
  Expr combine;
  Expr finish;
};
/// The names of each, for Program.
std::vector<Name> map_names(Type element);
std::vector<Name> combine_names(Type accumulator);
std::vector<Name> finish_names(Type element, Type accumulator);
/// As compile() for a row.
std::string compile(const ReductionRow& row, Type element, ReductionTrees* out_trees);

}  // namespace bp::expr

#endif
