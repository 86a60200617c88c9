// SPDX-License-Identifier: Apache-2.0
//
// Writes expressions in other languages. The same expression always gives the same text, at build
// time (bp-exprgen) and at run time. Nothing is contracted, and every operation is a call of a
// vocabulary that the target's skeleton defines, so that one emitter serves every width of vector.
#ifndef BACKPLANE_OPS_EXPR_EMIT_HPP
#define BACKPLANE_OPS_EXPR_EMIT_HPP

#include <string>
#include <string_view>

#include "ops/expr/rows.hpp"

namespace bp::expr {

/// One line in the language itself, with no more parentheses than it needs.
std::string emit_formula(const Expr& expr);

/// The body of a function template over a vector type V, whose parameters have the expression's
/// names: a statement for each node and a return. Numbers are vset<V>(0.5), constants vpi<V>(),
/// operations vadd(a, b), vselect(mask, a, b) and so on with the words of kOps.
std::string emit_vector_body(const Expr& expr, std::string_view indent);

/// All of a row in vector C++: a struct with a template `apply` for each class of types, and one
/// that describes the operator to the skeleton (plugins/cpu/expression.hpp shows what it reads).
/// Errors are compile()'s words.
std::string emit_vector_row(const Row& row, std::string* out_text);

/// The same for a reduction, whose skeleton is plugins/cpu/reduction.hpp.
std::string emit_vector_reduction(const ReductionRow& row, std::string* out_text);

class Words;

/// All of a row in C: its loops, its bp_expression and its launch (sdk/expression/loops.h shows
/// what reads them). `words`: gets what the text calls, to stand before it.
std::string emit_c_row(const Row& row, Words* words, std::string* out_text);
std::string emit_c_reduction(const ReductionRow& row, Words* words, std::string* out_text);

/// The middle of an OpenCL C program for one dtype, between the prelude and the loops of
/// sdk/expression/elementwise.cl or reduction.cl.
std::string emit_opencl_source(const Row& row, std::string_view dtype, std::string* out_text);
std::string emit_opencl_source(const ReductionRow& row, std::string_view dtype,
                               std::string* out_text);
/// All of a row in C that holds these sources: its bp_expression, or bp_reduction, and its plan.
std::string emit_opencl_row(const Row& row, std::string* out_text);
std::string emit_opencl_reduction(const ReductionRow& row, std::string* out_text);
/// A text as a constant of C, line by line.
std::string emit_literal(std::string_view name, std::string_view text);

/// "hard_swish" as "HardSwish".
std::string camel_case(std::string_view name);

}  // namespace bp::expr

#endif
