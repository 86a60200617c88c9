// SPDX-License-Identifier: Apache-2.0
//
// Vector C++: the skeleton decides what V is, a number or a register of them.
#include <algorithm>
#include <cstdio>

#include "ops/expr/emit.hpp"

namespace bp::expr {
namespace {

struct TypeWord {
  std::string_view name;
  std::string_view cpp;
};
constexpr TypeWord kTypeWords[] = {
    {"bool", "bool"},    {"i8", "int8_t"},  {"i16", "int16_t"},  {"i32", "int32_t"},
    {"i64", "int64_t"},  {"u8", "uint8_t"}, {"u16", "uint16_t"}, {"u32", "uint32_t"},
    {"u64", "uint64_t"}, {"f32", "float"},  {"f64", "double"},
};

/// The type of a cast; what is no dtype is the type variable.
std::string_view cast_word(std::string_view name) {
  for (const TypeWord& row : kTypeWords) {
    if (row.name == name) return row.cpp;
  }
  return name;
}

constexpr Class kClasses[] = {Class::kFloat, Class::kSigned, Class::kUnsigned, Class::kBool};

/// Of a class of types, as a part of a C++ name.
std::string_view class_word(Class kind) {
  switch (kind) {
    case Class::kFloat:
      return "Float";
    case Class::kSigned:
      return "Signed";
    case Class::kUnsigned:
      return "Unsigned";
    default:
      return "Bool";
  }
}

std::string number_text(const Node& node) {
  char digits[64];
  if (node.type.kind == Class::kFloat) {
    std::snprintf(digits, sizeof(digits), "%.17g", static_cast<double>(node.number));
    std::string text = digits;
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return text;
  }
  std::snprintf(digits, sizeof(digits), "%.0Lf", node.number);
  return digits;
}

std::string leaf_text(const Node& node) {
  if (node.op == Op::kName) return node.text;
  if (node.op == Op::kNumber) return "vset<V>(" + number_text(node) + ")";
  return "v" + std::string(info(node.op).word) + "<V>()";
}

template <class Forms>
bool has(const Forms& forms, Class kind) {
  return std::any_of(forms.begin(), forms.end(),
                     [kind](const auto& form) { return form.kind == kind; });
}

/// "const M& condition, const V& a": what apply() is given.
std::string parameters_text(const Row& row, bool all_bool, bool* out_has_mask) {
  std::string text;
  *out_has_mask = false;
  const auto add = [&](std::string_view name, bool is_bool) {
    const bool is_mask = is_bool && !all_bool;
    *out_has_mask |= is_mask;
    text += (text.empty() ? "[[maybe_unused]] const " : ", [[maybe_unused]] const ") +
            std::string(is_mask ? "M& " : "V& ") + std::string(name);
  };
  for (const Argument& input : row.inputs) add(input.name, input.is_bool);
  for (const Parameter& parameter : row.parameters) {
    add(parameter.name, parameter.kind == ParameterKind::kBool);
  }
  return text;
}

/// The struct of one class; empty text: the row has no types of it.
std::string class_text(const Row& row, Class kind, std::string* out_text, int64_t* out_cost) {
  Expr expr;
  const Type element{kind, kind == Class::kBool ? uint8_t{8} : uint8_t{0}};
  const std::string error = compile(row, FormKind::kKernel, element, &expr);
  if (!error.empty()) return error;
  bool has_mask = false;
  const std::string parameters = parameters_text(row, kind == Class::kBool, &has_mask);
  *out_text = "// " + emit_formula(expr) + "\nstruct " + camel_case(row.op) +
              std::string(class_word(kind)) + " {\n  template <class V" +
              (has_mask ? ", class M" : "") + ">\n  static auto apply(" + parameters + ") {\n" +
              emit_vector_body(expr, "    ") + "  }\n};\n";
  *out_cost = std::max(*out_cost, cost(expr));
  return {};
}

std::string dtype_list(std::span<const std::string_view> dtypes) {
  std::string text;
  for (const std::string_view dtype : dtypes) {
    std::string macro = "BP_DTYPE_" + std::string(dtype);
    std::transform(macro.begin(), macro.end(), macro.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    text += (text.empty() ? "" : ", ") + macro;
  }
  return text;
}

std::string flags_text(const Row& row) {
  std::string text;
  for (const Argument& input : row.inputs) {
    text += std::string(text.empty() ? "" : ", ") + (input.is_bool ? "true" : "false");
  }
  return text;
}

std::string constants_text(const Row& row) {
  constexpr std::string_view kKinds[] = {"kF64", "kI64", "kBool"};
  std::string text;
  for (const Parameter& parameter : row.parameters) {
    char digits[64];
    std::snprintf(digits, sizeof(digits), "%.17g", parameter.default_value);
    text += (text.empty() ? "{ConstantKind::" : ", {ConstantKind::") +
            std::string(kKinds[static_cast<size_t>(parameter.kind)]) + ", " +
            std::to_string(parameter.offset_bytes) + ", " + digits + "}";
  }
  return text;
}

}  // namespace

std::string camel_case(std::string_view name) {
  std::string result;
  bool upper = true;
  for (const char letter : name) {
    if (letter == '_') {
      upper = true;
      continue;
    }
    result += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(letter))) : letter;
    upper = false;
  }
  return result;
}

std::string emit_vector_body(const Expr& expr, std::string_view indent) {
  std::vector<std::string> texts;
  std::string body;
  for (uint32_t i = 0; i < expr.nodes.size(); ++i) {
    const Node& node = expr.nodes[i];
    if (node.args.empty()) {
      texts.push_back(leaf_text(node));
      continue;
    }
    std::string call = "v" + std::string(info(node.op).word);
    if (node.op == Op::kCast) call += "<" + std::string(cast_word(node.text)) + ">";
    for (size_t k = 0; k < node.args.size(); ++k) {
      call += (k == 0 ? "(" : ", ") + texts[node.args[k]];
    }
    texts.push_back("step" + std::to_string(i));
    if (i < expr.root()) {
      body += std::string(indent) + "const auto " + texts.back() + " = " + call + ");\n";
    } else {
      texts.back() = call + ")";
    }
  }
  return body + std::string(indent) + "return " + texts.back() + ";\n";
}

std::string emit_vector_row(const Row& row, std::string* out_text) {
  const std::string name = camel_case(row.op);
  std::string structs;
  std::string aliases;
  int64_t row_cost = 1;
  for (const Class kind : kClasses) {
    const std::string word(class_word(kind));
    if (!has(row.definition, kind)) {
      aliases += "  using " + word + " = void;\n";
      continue;
    }
    std::string text;
    const std::string error = class_text(row, kind, &text, &row_cost);
    if (!error.empty()) return error;
    structs += text;
    aliases += "  using " + word + " = " + name + word + ";\n";
  }
  *out_text = structs + "struct " + name + " {\n  static constexpr std::string_view kOp = \"" +
              std::string(row.op) + "\";\n  static constexpr std::string_view kName = \"" +
              std::string(row.op) + "_loop\";\n  static constexpr uint64_t kDtypes =\n" +
              "      sdk::dtypes({" + dtype_list(row.dtypes) + "});\n" +
              "  static constexpr std::array<bool, " + std::to_string(row.inputs.size()) +
              "> kInputIsBool{" + flags_text(row) + "};\n" +
              "  static constexpr bool kGivesBool = " + (row.gives_bool ? "true" : "false") +
              ";\n  static constexpr std::array<Constant, " +
              std::to_string(row.parameters.size()) + "> kConstants{{" + constants_text(row) +
              "}};\n  static constexpr int64_t kCost = " + std::to_string(row_cost) + ";\n" +
              aliases + "};\n\n";
  return {};
}

namespace {

/// What a skeleton may have better code for than the expressions.
std::string_view folding_word(const ReductionTrees& trees) {
  if (emit_formula(trees.map) != "x") return "kOther";
  const std::string combine = emit_formula(trees.combine);
  if (combine == "a + b") return "kSum";
  return combine == "max(a, b)" ? "kLargest" : "kOther";
}

std::string function_text(std::string_view head, const Expr& expr) {
  return "  template <class V, class T>\n  static auto " + std::string(head) + " {\n" +
         emit_vector_body(expr, "    ") + "  }\n";
}

}  // namespace

std::string emit_vector_reduction(const ReductionRow& row, std::string* out_text) {
  const std::string name = camel_case(row.op);
  std::string structs;
  std::string aliases;
  int64_t row_cost = 1;
  for (const Class kind : kClasses) {
    const std::string word(class_word(kind));
    aliases += "  using " + word + " = " + (has(row.forms, kind) ? name + word : "void") + ";\n";
    if (!has(row.forms, kind)) continue;
    ReductionTrees trees;
    const Type element{kind, kind == Class::kBool ? uint8_t{8} : uint8_t{0}};
    const std::string error = compile(row, element, &trees);
    if (!error.empty()) return error;
    structs +=
        "struct " + name + word +
        " {\n  static constexpr Folding kFolding = Folding::" + std::string(folding_word(trees)) +
        ";\n" + function_text("map([[maybe_unused]] const V& x)", trees.map) +
        function_text("start()", trees.start) +
        function_text("combine(const V& a, const V& b)", trees.combine) +
        function_text("finish(const V& a, [[maybe_unused]] const V& count)", trees.finish) + "};\n";
    row_cost = std::max(row_cost, cost(trees.map) + cost(trees.combine) - 1);
  }
  *out_text = structs + "struct " + name + " {\n  static constexpr std::string_view kOp = \"" +
              std::string(row.op) + "\";\n  static constexpr std::string_view kName = \"" +
              std::string(row.op) + "_loop\";\n  static constexpr uint64_t kDtypes =\n" +
              "      sdk::dtypes({" + dtype_list(row.dtypes) + "});\n" +
              "  static constexpr bool kChooses = " + (row.chooses ? "true" : "false") +
              ";\n  static constexpr int64_t kCost = " + std::to_string(row_cost) +
              ";\n  using Attributes = bp_attrs_" + std::string(row.op) + ";\n" + aliases +
              "};\n\n";
  return {};
}

}  // namespace bp::expr
