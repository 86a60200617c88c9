// SPDX-License-Identifier: Apache-2.0
//
// The files of a target: what bp-exprgen writes, as texts. A caller at run time gets the same ones.
#ifndef BACKPLANE_OPS_EXPR_EMIT_FILES_HPP
#define BACKPLANE_OPS_EXPR_EMIT_FILES_HPP

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bp::expr {

struct File {
  std::string name;
  std::string text;
};

/// A file of skeletons that a target holds as text.
struct Skeletons {
  std::string layout;       // layout.h
  std::string words;        // words.h
  std::string memory;       // memory.cl
  std::string elementwise;  // elementwise.cl
  std::string reduction;    // reduction.cl
};

/// Vector C++ for plugins/cpu: expressions_<i>.cpp for i below `count`, between which the rows are
/// divided by id, and reductions.cpp. Errors are compile()'s words.
std::string emit_cpu_files(int count, std::vector<File>* out_files);

/// Kernels in the common subset of C and C++, `suffix` "c" or "cpp": expressions_<i>.<suffix> and
/// reductions.<suffix>. `header` has the launch; sdk/expression/launch.h is one.
std::string emit_c_files(int count, std::string_view suffix, std::string_view header,
                         std::vector<File>* out_files);

/// Kernels as OpenCL C in the same subset: expressions_opencl.<suffix>. `header` declares
/// bp_expression_supports, bp_expression_plan, bp_reduction_plan, bp_expression_plan_free,
/// bp_expression_launch, bp_expression_state_create and bp_expression_state_destroy.
std::string emit_opencl_files(const Skeletons& skeletons, std::string_view suffix,
                              std::string_view header, std::vector<File>* out_files);

}  // namespace bp::expr

#endif
