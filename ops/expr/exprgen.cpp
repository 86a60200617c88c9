// SPDX-License-Identifier: Apache-2.0
//
// bp-exprgen: writes the kernels of all rows with expressions. A row that is wrong fails the build
// here, by name.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ops/expr/emit.hpp"

namespace bp::expr {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

/// A file that stays the same is left alone, so that nothing is compiled again.
bool write_if_changed(const std::string& path, const std::string& text) {
  std::ifstream old(path, std::ios::binary);
  const std::string before{std::istreambuf_iterator<char>(old), std::istreambuf_iterator<char>()};
  if (old && before == text) return true;
  std::ofstream file(path, std::ios::binary);
  file << text;
  return static_cast<bool>(file.flush());
}

int fail(const std::string& words) {
  std::cerr << "bp-exprgen: " << words << "\n";
  return kFailed;
}

/// The text of one kernel file: the expressions and the loops over vectors of floats for each
/// instruction set, the kernels once.
std::string vector_file_text(const std::string& file, const std::string& structs,
                             const std::vector<std::string>& names) {
  std::string rows;
  std::string kernels;
  for (size_t i = 0; i < names.size(); ++i) {
    rows += "      vector_rows_of<" + names[i] + ">(),\n";
    kernels += "    expression_kernel<HWY_NAMESPACE::" + names[i] + ", vector_rows, " +
               std::to_string(i) + ">(),\n";
  }
  return "// SPDX-License-Identifier: Apache-2.0\n//\n// Made by bp-exprgen from ops/defs; edits "
         "are lost. A part of the elementwise kernels.\n#undef HWY_TARGET_INCLUDE\n#define "
         "HWY_TARGET_INCLUDE \"" +
         file +
         ".cpp\"\n#include \"hwy/foreach_target.h\"\n#include \"hwy/highway.h\"\n\n"
         "#include \"expression-inl.hpp\"\n\nHWY_BEFORE_NAMESPACE();\nnamespace "
         "bp::cpu::HWY_NAMESPACE {\nnamespace {\n\n" +
         structs + "const VectorRows* rows() {\n  static constexpr VectorRows kRows[] = {\n" +
         rows +
         "  };\n  return kRows;\n}\n\n}  // namespace\n}  // namespace "
         "bp::cpu::HWY_NAMESPACE\nHWY_AFTER_NAMESPACE();\n\n#if HWY_ONCE\nnamespace bp::cpu "
         "{\nnamespace {\n\nHWY_EXPORT(rows);\n\nconst VectorRows* vector_rows() { return "
         "HWY_DYNAMIC_DISPATCH(rows)(); }\n\nconstexpr bp_kernel kKernels[] = {\n" +
         kernels + "};\n\n}  // namespace\n\nBP_SDK_KERNELS(" + file +
         ", kKernels);\n\n}  // namespace bp::cpu\n#endif\n";
}

/// FOLDER/expressions_<i>.cpp for i below COUNT, between which the rows are divided by id: each is
/// a kernel file of the plugin whose skeleton is "expression-inl.hpp".
int write_vector(const std::string& folder, int count) {
  for (int i = 0; i < count; ++i) {
    const std::string file = "expressions_" + std::to_string(i);
    std::string structs;
    std::vector<std::string> names;
    for (const Row& row : all_rows()) {
      if (row.id % static_cast<uint32_t>(count) != static_cast<uint32_t>(i)) continue;
      std::string text;
      const std::string error = emit_vector_row(row, &text);
      if (!error.empty()) return fail(error);
      structs += text;
      names.push_back(camel_case(row.op));
    }
    const std::string path = folder + "/" + file + ".cpp";
    if (!write_if_changed(path, vector_file_text(file, structs, names))) {
      return fail(path + ": cannot be written");
    }
  }
  return 0;
}

/// FOLDER/reductions.cpp: the reductions, a kernel file of the plugin whose skeleton is
/// "reduction.hpp".
int write_reductions(const std::string& folder) {
  std::string structs;
  std::string kernels;
  std::set<std::string> headers = {"reduction.hpp"};
  for (const ReductionRow& row : all_reductions()) {
    std::string text;
    const std::string error = emit_vector_reduction(row, &text);
    if (!error.empty()) return fail(error);
    structs += text;
    kernels += "    reduction_kernel<" + camel_case(row.op) + ">(),\n";
    headers.insert("backplane/ops/" + std::string(row.family) + ".h");
  }
  std::string text =
      "// SPDX-License-Identifier: Apache-2.0\n//\n// Made by bp-exprgen from ops/defs; edits are "
      "lost. The reductions.\n";
  for (const std::string& header : headers) text += "#include \"" + header + "\"\n";
  text += "\nnamespace bp::cpu {\nnamespace {\n\n" + structs +
          "constexpr bp_kernel kKernels[] = {\n" + kernels + "};\n\n}  // namespace\n\n" +
          "BP_SDK_KERNELS(reductions, kKernels);\n\n}  // namespace bp::cpu\n";
  const std::string path = folder + "/reductions.cpp";
  return write_if_changed(path, text) ? 0 : fail(path + ": cannot be written");
}

/// Definitions are used by the oracle only, so no emitter sees them.
int check_definitions() {
  for (const Row& row : all_rows()) {
    for (const Form& form : row.definition) {
      Expr expr;
      const uint8_t bits = form.kind == Class::kBool ? 8 : 64;
      const std::string error = compile(row, FormKind::kDefinition, {form.kind, bits}, &expr);
      if (!error.empty()) return fail(error);
    }
  }
  return 0;
}

int usage() {
  std::cerr << "bp-exprgen cpu FOLDER COUNT: writes FOLDER/expressions_0.cpp to "
               "expressions_<COUNT - 1>.cpp and FOLDER/reductions.cpp, kernels in vector C++\n";
  return kUsage;
}

}  // namespace
}  // namespace bp::expr

int main(int argc, char** argv) {
  if (argc != 4 || std::string_view(argv[1]) != "cpu") return bp::expr::usage();
  const int count = std::atoi(argv[3]);
  if (count < 1) return bp::expr::usage();
  if (const int failed = bp::expr::check_definitions(); failed != 0) return failed;
  if (const int failed = bp::expr::write_vector(argv[2], count); failed != 0) return failed;
  return bp::expr::write_reductions(argv[2]);
}
