// SPDX-License-Identifier: Apache-2.0
//
// Rows as kernels in C, and in OpenCL C. Half types are f32 between memory and memory.
#include <algorithm>
#include <functional>

#include "ops/expr/emit.hpp"
#include "ops/expr/emit_c.hpp"

namespace bp::expr {
namespace {

constexpr Type kF32{Class::kFloat, 32};
constexpr Type kF64{Class::kFloat, 64};

/// A bool in memory is a byte.
std::string memory_type(Type type) {
  return type.kind == Class::kBool ? "uint8_t" : std::string(c_type(type));
}

/// `entry(dtype)` for each dtype of a table by their codes; NULL for those that are not there.
std::string table_text(std::span<const std::string_view> dtypes,
                       const std::function<std::string(std::string_view)>& entry) {
  std::string text = "    {NULL";
  for (const std::string_view dtype : c_dtypes()) {
    const bool is_there = std::find(dtypes.begin(), dtypes.end(), dtype) != dtypes.end();
    text += ",\n     " + (is_there ? entry(dtype) : "NULL");
  }
  return text + "}";
}

/// The dtypes without those whose code is another one's too.
std::vector<Type> computed_types(std::span<const std::string_view> dtypes) {
  std::vector<Type> types;
  for (const std::string_view dtype : dtypes) {
    const Type type = *type_named(dtype);
    if (std::find(types.begin(), types.end(), type) == types.end()) types.push_back(type);
  }
  return types;
}

std::string typed_name(std::string_view op, Type type) {
  return std::string(op) + "_" + type_name(type);
}

/// The loop of one type, over contiguous elements.
std::string c_loop_text(const Row& row, Type element) {
  const std::string function = typed_name(row.op, element);
  std::string text = "static void " + function + "_loop(const bp_expression_block* block) {\n";
  std::string arguments;
  const std::vector<CParameter> parameters = c_parameters(row, element);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Type type = parameters[i].type;
    std::string name = "in" + std::to_string(i);
    if (i < row.inputs.size()) {
      text += "  const " + memory_type(type) + "* " + name + " = (const " + memory_type(type) +
              "*)block->inputs[" + std::to_string(i) + "];\n";
      name += type.kind == Class::kBool ? "[i] != 0" : "[i]";
    } else {
      text += "  const " + std::string(c_type(type)) + " " + name + " = BP_CONSTANT_" +
              type_name(type) + "(block->constants[" + std::to_string(i - row.inputs.size()) +
              "]);\n";
    }
    arguments += (i == 0 ? "" : ", ") + name;
  }
  const std::string result = row.gives_bool ? "uint8_t" : memory_type(element);
  return text + "  " + result + "* out = (" + result +
         "*)block->y;\n  const int64_t count = block->count;\n"
         "  for (int64_t i = 0; i < count; ++i) out[i] = (" +
         result + ")" + function + "(" + arguments + ");\n}\n";
}

/// An axis is known when the attributes are read. What is NULL is told by the function that is
/// called next.
std::string axes_text(std::string_view op, std::string_view attributes) {
  const std::string type = "bp_attrs_" + std::string(op);
  return "  " + type + " attributes = " + type + "_defaults();\n  if (" + std::string(attributes) +
         " != NULL)\n    bp_sdk_read_attributes(&attributes, sizeof attributes, " +
         std::string(attributes) + "->attributes);\n";
}

constexpr std::string_view kPlanHead =
    "(bp_device* device, const bp_kernel_query* query,\n"
    "    bp_plan_info* out_info, bp_kernel_plan** out_plan) {\n";

/// What loads and stores elements of the types that need no conversion.
std::string memory_lines(std::span<const std::string_view> dtypes) {
  std::string text;
  for (const std::string_view dtype : dtypes) {
    const Type type = *type_named(dtype);
    const bool is_plain = type.kind != Class::kBool && type_name(type) == dtype;
    if (!is_plain) continue;
    text += "BP_MEMORY_WORDS(" + std::string(dtype) + ", " + std::string(c_type(type)) + ")\n";
  }
  return text;
}

}  // namespace

std::string emit_c_row(const Row& row, Words* words, std::string* out_text) {
  std::string text;
  for (const Type element : computed_types(row.dtypes)) {
    Expr expr;
    const std::string error = compile(row, FormKind::kKernel, element, &expr);
    if (!error.empty()) return error;
    words->add(expr);
    const std::string name = typed_name(row.op, element);
    text += "/* " + emit_formula(expr) + " */\n" +
            emit_c_function(expr, name, c_parameters(row, element)) + c_loop_text(row, element);
  }
  const std::string op(row.op);
  const auto entry = [&](std::string_view dtype) {
    return typed_name(row.op, *type_named(dtype)) + "_loop";
  };
  *out_text = text + row_head_text(row) + table_text(row.dtypes, entry) +
              ",\n    NULL, {NULL}, NULL, NULL, NULL};\n" + masks_text(row.op, row.dtypes) +
              "static bp_status launch_" + op +
              "(const bp_launch_args* args) {\n  return bp_expression_launch(args, &" + op +
              "_expression);\n}\n\n";
  return {};
}

std::string emit_c_reduction(const ReductionRow& row, Words* words, std::string* out_text) {
  std::string text;
  for (const Type element : computed_types(row.dtypes)) {
    // A plain f32 sum of a million values loses half of its digits.
    const Type computed = element == kF32 && !row.chooses ? kF64 : element;
    ReductionTrees trees;
    const std::string error = compile(row, computed, &trees);
    if (!error.empty()) return error;
    for (const Expr* expr : {&trees.map, &trees.start, &trees.combine, &trees.finish}) {
      words->add(*expr);
    }
    const std::string name = typed_name(row.op, element);
    text += "/* " + emit_formula(trees.map) + "; " + emit_formula(trees.combine) + "; " +
            emit_formula(trees.finish) + " */\n" + emit_c_functions(trees, computed, name + "_") +
            "BP_REDUCTION_LOOPS(" + name + ", " + memory_type(element) + ", " +
            std::string(c_type(computed)) + ", " + std::string(c_type(trees.accumulator)) + ")\n";
  }
  const std::string op(row.op);
  const auto entry = [&](std::string_view dtype) {
    return "&" + typed_name(row.op, *type_named(dtype)) + "_loops";
  };
  *out_text = text + "static const bp_reduction " + op + "_reduction = {\n    \"" + op + "\",\n" +
              table_text(row.dtypes, entry) + ",\n    NULL, {NULL}, NULL, NULL, NULL};\n" +
              masks_text(row.op, row.dtypes) + "static bp_status launch_" + op +
              "(const bp_launch_args* args) {\n" + axes_text(row.op, "args") +
              "  return bp_reduction_launch(args, &" + op + "_reduction, attributes.axes);\n}\n\n";
  return {};
}

std::string emit_opencl_source(const Row& row, std::string_view dtype, std::string* out_text) {
  const Type element = *type_named(dtype);
  Expr expr;
  const std::string error = compile(row, FormKind::kKernel, element, &expr);
  if (!error.empty()) return error;
  Words words;
  words.add(expr);
  const std::string_view result = row.gives_bool ? "bool" : dtype;
  std::string arguments;
  const std::vector<CParameter> parameters = c_parameters(row, element);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::string at = std::to_string(i);
    arguments += i == 0 ? "" : ", ";
    if (i < row.inputs.size()) {
      const std::string_view type = row.inputs[i].is_bool ? "bool" : dtype;
      arguments += "BP_AT(" + std::string(type) + ", " + at + ", i" + at + ")";
    } else {
      arguments += "BP_CONSTANT_" + type_name(parameters[i].type) + "(layout.constants[" +
                   std::to_string(i - row.inputs.size()) + "])";
    }
  }
  *out_text = "// " + std::string(row.op) + ", " + std::string(dtype) + ": " + emit_formula(expr) +
              "\n" + words.text() + memory_lines({&dtype, 1}) +
              emit_c_function(expr, "bp_apply", parameters) + "#define BP_KERNEL(form) " +
              std::string(row.op) + "_##form\n#define BP_INPUT_COUNT " +
              std::to_string(row.inputs.size()) + "\n#define BP_ITEM(i, i0, i1, i2) \\\n  BP_PUT(" +
              std::string(result) + ", i, bp_apply(" + arguments + "))\n";
  return {};
}

std::string emit_opencl_source(const ReductionRow& row, std::string_view dtype,
                               std::string* out_text) {
  const Type element = *type_named(dtype);
  ReductionTrees trees;
  const std::string error = compile(row, element, &trees);
  if (!error.empty()) return error;
  Words words;
  for (const Expr* expr : {&trees.map, &trees.start, &trees.combine, &trees.finish}) {
    words.add(*expr);
  }
  const std::string sum(c_type(trees.accumulator));
  const std::string type(dtype);
  *out_text = "// " + std::string(row.op) + ", " + type + ": " + emit_formula(trees.map) + "; " +
              emit_formula(trees.combine) + "; " + emit_formula(trees.finish) + "\n" +
              words.text() + memory_lines({&dtype, 1}) + emit_c_functions(trees, element, "bp_") +
              "#define BP_KERNEL(form) " + std::string(row.op) +
              "_##form\n#define BP_ACCUMULATOR " + sum + "\n#define BP_MAP(i) bp_map(BP_AT(" +
              type + ", 0, i))\n#define BP_FINISH(i, a, count) BP_PUT(" + type +
              ", i, bp_finish(a, (" + sum + ")(count)))\n";
  return {};
}

namespace {

/// The texts of all dtypes, and the table of them.
template <class AnyRow>
std::string opencl_sources(const AnyRow& row, std::string* out_literals, std::string* out_table) {
  out_literals->clear();
  for (const std::string_view dtype : row.dtypes) {
    std::string source;
    const std::string error = emit_opencl_source(row, dtype, &source);
    if (!error.empty()) return error;
    *out_literals +=
        emit_literal(std::string(row.op) + "_" + std::string(dtype) + "_source", source);
  }
  *out_table = table_text(row.dtypes, [&](std::string_view dtype) {
    return std::string(row.op) + "_" + std::string(dtype) + "_source";
  });
  return {};
}

}  // namespace

std::string emit_opencl_row(const Row& row, std::string* out_text) {
  std::string literals;
  std::string table;
  const std::string error = opencl_sources(row, &literals, &table);
  if (!error.empty()) return error;
  const std::string op(row.op);
  *out_text = literals + row_head_text(row) + "    {NULL}, bp_prelude,\n" + table +
              ",\n    bp_elementwise, \"" + op + "_dense\", \"" + op + "_strided\"};\n" +
              masks_text(row.op, row.dtypes) + "static bp_status plan_" + op +
              std::string(kPlanHead) +
              "  return bp_expression_plan(device, query, out_info, out_plan, &" + op +
              "_expression);\n}\n\n";
  return {};
}

std::string emit_opencl_reduction(const ReductionRow& row, std::string* out_text) {
  std::string literals;
  std::string table;
  const std::string error = opencl_sources(row, &literals, &table);
  if (!error.empty()) return error;
  const std::string op(row.op);
  *out_text = literals + "static const bp_reduction " + op + "_reduction = {\n    \"" + op +
              "\",\n    {NULL}, bp_prelude,\n" + table + ",\n    bp_reduction_text, \"" + op +
              "_one_by_one\", \"" + op + "_by_groups\"};\n" + masks_text(row.op, row.dtypes) +
              "static bp_status plan_" + op + std::string(kPlanHead) + axes_text(row.op, "query") +
              "  return bp_reduction_plan(device, query, out_info, out_plan, &" + op +
              "_reduction,\n                           attributes.axes);\n}\n\n";
  return {};
}

std::string emit_literal(std::string_view name, std::string_view text) {
  std::string result = "static const char " + std::string(name) + "[] =\n    \"";
  for (size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    if (letter == '\n') {
      result += i + 1 < text.size() ? "\\n\"\n    \"" : "\\n";
      continue;
    }
    if (letter == '"' || letter == '\\') result += '\\';
    result += letter;
  }
  return result + "\";\n";
}

}  // namespace bp::expr
