// SPDX-License-Identifier: Apache-2.0
#include "ops/expr/emit_files.hpp"

#include <set>

#include "ops/expr/emit.hpp"
#include "ops/expr/emit_c.hpp"

namespace bp::expr {
namespace {

constexpr std::string_view kCppHead =
    "// SPDX-License-Identifier: Apache-2.0\n//\n// Made by bp-exprgen from ops/defs; edits are "
    "lost. ";
constexpr std::string_view kCHead =
    "/* SPDX-License-Identifier: Apache-2.0\n *\n * Made by bp-exprgen from ops/defs; edits are "
    "lost. ";
constexpr std::string_view kAnyStrides =
    "static const bp_arg_rule bp_any_strides_rule = {sizeof(bp_arg_rule), 0, BP_STRIDES_ANY, 0};\n"
    "static const bp_arg_rule* const bp_any_strides[] = {&bp_any_strides_rule};\n\n";

/// Whether file `index` of `count` has the row.
bool is_in(const Row& row, int index, int count) {
  return row.id % static_cast<uint32_t>(count) == static_cast<uint32_t>(index);
}

/// The expressions and the loops over vectors of floats for each instruction set, the kernels once.
std::string cpu_file_text(const std::string& file, const std::string& structs,
                          const std::vector<std::string>& names) {
  std::string rows;
  std::string kernels;
  for (size_t i = 0; i < names.size(); ++i) {
    rows += "      vector_rows_of<" + names[i] + ">(),\n";
    kernels += "    expression_kernel<HWY_NAMESPACE::" + names[i] + ", vector_rows, " +
               std::to_string(i) + ">(),\n";
  }
  return std::string(kCppHead) +
         "A part of the elementwise kernels.\n#undef HWY_TARGET_INCLUDE\n#define "
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

std::string includes_text(const std::set<std::string>& headers) {
  std::string text;
  for (const std::string& header : headers) text += "#include \"" + header + "\"\n";
  return text;
}

/// The attribute structs of the reductions.
std::set<std::string> reduction_headers() {
  std::set<std::string> headers;
  for (const ReductionRow& row : all_reductions()) {
    headers.insert("backplane/ops/" + std::string(row.family) + ".h");
  }
  return headers;
}

std::string emit_cpu_reductions(std::vector<File>* out_files) {
  std::string structs;
  std::string kernels;
  for (const ReductionRow& row : all_reductions()) {
    std::string text;
    const std::string error = emit_vector_reduction(row, &text);
    if (!error.empty()) return error;
    structs += text;
    kernels += "    reduction_kernel<" + camel_case(row.op) + ">(),\n";
  }
  std::set<std::string> headers = reduction_headers();
  headers.insert("reduction.hpp");
  out_files->push_back({"reductions.cpp", std::string(kCppHead) + "The reductions.\n" +
                                              includes_text(headers) +
                                              "\nnamespace bp::cpu {\nnamespace {\n\n" + structs +
                                              "constexpr bp_kernel kKernels[] = {\n" + kernels +
                                              "};\n\n}  // namespace\n\nBP_SDK_KERNELS(reductions, "
                                              "kKernels);\n\n}  // namespace bp::cpu\n"});
  return {};
}

/// A kernel file in C: `text` calls `words`.
File c_file(const std::string& stem, std::string_view suffix, std::set<std::string> headers,
            const std::string& text, const std::string& kernels) {
  headers.insert("backplane/sdk/kernels.h");
  return {stem + "." + std::string(suffix),
          std::string(kCHead) + "*/\n" + includes_text(headers) + "\n" + std::string(kAnyStrides) +
              text + "static const bp_kernel kKernels[] = {\n" + kernels + "};\nBP_SDK_KERNELS(" +
              stem + ", kKernels);\n"};
}

std::set<std::string> c_headers(std::string_view header) {
  return {std::string(header), "backplane/sdk/expression/loops.h",
          "backplane/sdk/expression/words.h"};
}

}  // namespace

std::string emit_cpu_files(int count, std::vector<File>* out_files) {
  for (int i = 0; i < count; ++i) {
    const std::string file = "expressions_" + std::to_string(i);
    std::string structs;
    std::vector<std::string> names;
    for (const Row& row : all_rows()) {
      if (!is_in(row, i, count)) continue;
      std::string text;
      const std::string error = emit_vector_row(row, &text);
      if (!error.empty()) return error;
      structs += text;
      names.push_back(camel_case(row.op));
    }
    out_files->push_back({file + ".cpp", cpu_file_text(file, structs, names)});
  }
  return emit_cpu_reductions(out_files);
}

std::string emit_c_files(int count, std::string_view suffix, std::string_view header,
                         std::vector<File>* out_files) {
  for (int i = 0; i < count; ++i) {
    Words words;
    std::string rows;
    std::string kernels;
    for (const Row& row : all_rows()) {
      if (!is_in(row, i, count)) continue;
      std::string text;
      const std::string error = emit_c_row(row, &words, &text);
      if (!error.empty()) return error;
      rows += text;
      kernels += kernel_text(row.op, "_c",
                             {.launch = "launch_" + std::string(row.op),
                              .plan = "",
                              .in_place_inputs = row.inputs.size()});
    }
    out_files->push_back(c_file("expressions_" + std::to_string(i), suffix, c_headers(header),
                                words.text() + "\n" + rows, kernels));
  }
  Words words;
  std::string rows;
  std::string kernels;
  for (const ReductionRow& row : all_reductions()) {
    std::string text;
    const std::string error = emit_c_reduction(row, &words, &text);
    if (!error.empty()) return error;
    rows += text;
    kernels += kernel_text(row.op, "_c", {.launch = "launch_" + std::string(row.op), .plan = ""});
  }
  std::set<std::string> headers = reduction_headers();
  headers.merge(c_headers(header));
  out_files->push_back(
      c_file("reductions", suffix, std::move(headers), words.text() + "\n" + rows, kernels));
  return {};
}

std::string emit_opencl_files(const Skeletons& skeletons, std::string_view suffix,
                              std::string_view header, std::vector<File>* out_files) {
  std::string rows =
      emit_literal("bp_prelude", skeletons.layout + skeletons.words + skeletons.memory) +
      emit_literal("bp_elementwise", skeletons.elementwise) +
      emit_literal("bp_reduction_text", skeletons.reduction) + "\n";
  std::string kernels;
  const auto add = [&](std::string_view op, const std::string& text, size_t in_place_inputs) {
    rows += text;
    kernels += kernel_text(op, "_opencl",
                           {.launch = "bp_expression_launch",
                            .plan = "plan_" + std::string(op),
                            .in_place_inputs = in_place_inputs});
  };
  std::string text;
  for (const Row& row : all_rows()) {
    const std::string error = emit_opencl_row(row, &text);
    if (!error.empty()) return error;
    add(row.op, text, row.inputs.size());
  }
  for (const ReductionRow& row : all_reductions()) {
    const std::string error = emit_opencl_reduction(row, &text);
    if (!error.empty()) return error;
    add(row.op, text, 0);
  }
  std::set<std::string> headers = reduction_headers();
  headers.insert(std::string(header));
  headers.insert("backplane/sdk/expression.h");
  out_files->push_back(c_file("expressions_opencl", suffix, std::move(headers), rows, kernels));
  return {};
}

}  // namespace bp::expr
