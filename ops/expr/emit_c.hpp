// SPDX-License-Identifier: Apache-2.0
//
// What emitted C and emitted OpenCL C share: both call the words of
// sdk/include/backplane/sdk/expression/words.h, which are families of functions for each type.
#ifndef BACKPLANE_OPS_EXPR_EMIT_C_HPP
#define BACKPLANE_OPS_EXPR_EMIT_C_HPP

#include <set>
#include <span>
#include <string>
#include <string_view>

#include "ops/expr/expr.hpp"
#include "ops/expr/rows.hpp"

namespace bp::expr {

/// Of a type with a width: "int8_t".
std::string_view c_type(Type type);

/// The lines that make the words which expressions call. They stand before what calls them.
class Words {
 public:
  void add(const Expr& expr);
  /// A line for each family.
  std::string text() const;

 private:
  std::set<std::string> lines_;
};

struct CParameter {
  std::string name;
  Type type;
};

/// A function of the expression's names; every node has a type with a width.
std::string emit_c_function(const Expr& expr, std::string_view name,
                            std::span<const CParameter> parameters);

/// Inputs, then numeric attributes.
std::vector<CParameter> c_parameters(const Row& row, Type element);

/// map, start, combine and finish as functions <prefix>map and so on.
std::string emit_c_functions(const ReductionTrees& trees, Type element, std::string_view prefix);

/// The dtypes of emitted kernels in the order of their codes, behind code 0.
std::span<const std::string_view> c_dtypes();
/// "BP_DTYPE_BIT(BP_DTYPE_F32) | ...".
std::string dtype_mask_text(std::span<const std::string_view> dtypes);

/// What both languages say about a row: its parameters, and bp_expression up to them.
std::string row_head_text(const Row& row);

/// One entry of kKernels. plan: its name and those of the functions that go with it.
struct KernelFunctions {
  std::string launch;
  std::string plan;            // empty: there is none
  size_t in_place_inputs = 0;  // the first so many inputs may have their memory overwritten
};
std::string kernel_text(std::string_view op, std::string_view suffix,
                        const KernelFunctions& functions);
/// The masks of kernel_text().
std::string masks_text(std::string_view op, std::span<const std::string_view> dtypes);

}  // namespace bp::expr

#endif
