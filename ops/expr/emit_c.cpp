// SPDX-License-Identifier: Apache-2.0
//
// C, as OpenCL C has it too: a statement for each node, which calls the word of its type.
#include "ops/expr/emit_c.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace bp::expr {
namespace {

constexpr std::string_view kDtypes[] = {"bool", "i8",  "i16", "i32",  "i64", "u8", "u16",
                                        "u32",  "u64", "f16", "bf16", "f32", "f64"};

bool is_float(Type type) { return type.kind == Class::kFloat; }

/// Both languages have hexadecimal numbers as wide as they need to be.
std::string integer_text(uint64_t bits, Type type) {
  if (type.bits < 64) bits &= (uint64_t{1} << type.bits) - 1;
  char digits[32];
  std::snprintf(digits, sizeof(digits), bits > 9 ? "0x%llx" : "%llu",
                static_cast<unsigned long long>(bits));
  return "(" + std::string(c_type(type)) + ")" + digits;
}

std::string float_text(long double number, Type type) {
  char digits[64];
  if (type.bits == 32) {
    std::snprintf(digits, sizeof(digits), "%.9g", static_cast<double>(static_cast<float>(number)));
  } else {
    std::snprintf(digits, sizeof(digits), "%.17g", static_cast<double>(number));
  }
  std::string text = digits;
  if (text == "inf") return "(" + std::string(c_type(type)) + ")INFINITY";
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text + (type.bits == 32 ? "f" : "");
}

uint64_t highest_bits(Type type) {
  const uint64_t ones = UINT64_MAX >> (64 - type.bits);
  return type.kind == Class::kSigned ? ones >> 1 : ones;
}
uint64_t lowest_bits(Type type) { return type.kind == Class::kSigned ? highest_bits(type) + 1 : 0; }

std::string c_leaf_text(const Node& node) {
  const std::string type(c_type(node.type));
  switch (node.op) {
    case Op::kName:
      return node.text;
    case Op::kTrue:
    case Op::kFalse:
      return std::string(info(node.op).word);
    case Op::kNumber:
      return is_float(node.type) ? float_text(node.number, node.type)
                                 : integer_text(static_cast<uint64_t>(node.number), node.type);
    case Op::kPi:
      return float_text(std::acos(-1.0L), node.type);
    case Op::kNan:
      return "(" + type + ")NAN";
    case Op::kInf:
      return "(" + type + ")INFINITY";
    case Op::kLowest:
      return is_float(node.type) ? "(" + type + ")-INFINITY"
                                 : integer_text(lowest_bits(node.type), node.type);
    case Op::kHighest:
      return is_float(node.type) ? "(" + type + ")INFINITY"
                                 : integer_text(highest_bits(node.type), node.type);
    default:
      return integer_text(node.type.bits, node.type);
  }
}

/// "select_f32"; of a question the type is that of what is asked about.
std::string word_of(const Expr& expr, const Node& node) {
  const OpInfo& row = info(node.op);
  const bool asks = row.signature == Signature::kQuestion || row.signature == Signature::kOrder ||
                    row.signature == Signature::kEquality;
  const bool takes_first = asks || node.op == Op::kCast;
  std::string word = "bp_" + std::string(row.word) + "_";
  word += type_name(takes_first ? expr.nodes[node.args[0]].type : node.type);
  return node.op == Op::kCast ? word + "_" + type_name(node.type) : word;
}

std::string family_line(Type type) {
  const std::string name = type_name(type);
  const std::string arguments = "(" + name + ", " + std::string(c_type(type));
  switch (type.kind) {
    case Class::kBool:
      return "BP_BOOL_WORDS" + arguments + ")";
    case Class::kFloat:
      return "BP_FLOAT_WORDS" + arguments + ")";
    default:
      return (type.kind == Class::kSigned ? "BP_SIGNED_WORDS" : "BP_UNSIGNED_WORDS") + arguments +
             (type.bits == 64 ? ", uint64_t)" : ", uint32_t)");
  }
}

std::string cast_line(Type from, Type to) {
  const std::string source = type_name(from) + ", " + std::string(c_type(from));
  if (to.kind == Class::kBool) return "BP_CAST_BOOL_WORD(" + source + ")";
  const std::string pair = source + ", " + type_name(to) + ", " + std::string(c_type(to));
  if (!is_float(from) || is_float(to)) return "BP_CAST_WORD(" + pair + ")";
  // A power of two, which every float type has.
  const long double above = std::ldexp(1.0L, to.kind == Class::kSigned ? to.bits - 1 : to.bits);
  return "BP_CAST_SATURATED_WORD(" + pair + ", " + integer_text(lowest_bits(to), to) + ", " +
         integer_text(highest_bits(to), to) + ", " + float_text(above, {Class::kFloat, 32}) + ")";
}

}  // namespace

std::string_view c_type(Type type) {
  switch (type.kind) {
    case Class::kBool:
      return "bool";
    case Class::kFloat:
      return type.bits == 64 ? "double" : "float";
    case Class::kSigned:
      return type.bits == 8    ? "int8_t"
             : type.bits == 16 ? "int16_t"
             : type.bits == 32 ? "int32_t"
                               : "int64_t";
    default:
      return type.bits == 8    ? "uint8_t"
             : type.bits == 16 ? "uint16_t"
             : type.bits == 32 ? "uint32_t"
                               : "uint64_t";
  }
}

void Words::add(const Expr& expr) {
  for (const Node& node : expr.nodes) {
    lines_.insert(family_line(node.type));
    if (node.op == Op::kCast) lines_.insert(cast_line(expr.nodes[node.args[0]].type, node.type));
  }
}

std::string Words::text() const {
  std::string text;
  for (const std::string& line : lines_) text += line + "\n";
  return text;
}

std::string emit_c_function(const Expr& expr, std::string_view name,
                            std::span<const CParameter> parameters) {
  std::string heads;
  for (const CParameter& parameter : parameters) {
    heads +=
        (heads.empty() ? "" : ", ") + std::string(c_type(parameter.type)) + " " + parameter.name;
  }
  std::vector<std::string> texts;
  std::string body;
  // What the expression leaves out is not warned about.
  for (const CParameter& parameter : parameters) {
    const auto used = free_names(expr);
    if (std::find(used.begin(), used.end(), parameter.name) == used.end()) {
      body += "  (void)" + parameter.name + ";\n";
    }
  }
  for (uint32_t i = 0; i < expr.nodes.size(); ++i) {
    const Node& node = expr.nodes[i];
    if (node.args.empty()) {
      texts.push_back(c_leaf_text(node));
      continue;
    }
    std::string call = word_of(expr, node);
    for (size_t k = 0; k < node.args.size(); ++k) {
      call += (k == 0 ? "(" : ", ") + texts[node.args[k]];
    }
    texts.push_back(i < expr.root() ? "step" + std::to_string(i) : call + ")");
    if (i == expr.root()) continue;
    body +=
        "  const " + std::string(c_type(node.type)) + " " + texts.back() + " = " + call + ");\n";
  }
  return "BP_WORD " + std::string(c_type(expr.nodes.back().type)) + " " + std::string(name) + "(" +
         (heads.empty() ? "void" : heads) + ") {\n" + body + "  return " + texts.back() + ";\n}\n";
}

std::vector<CParameter> c_parameters(const Row& row, Type element) {
  std::vector<CParameter> parameters;
  for (const Name& name : names_of(row, element)) {
    if (!name.is_type) parameters.push_back({std::string(name.name), name.type});
  }
  return parameters;
}

std::string emit_c_functions(const ReductionTrees& trees, Type element, std::string_view prefix) {
  const std::string begin(prefix);
  const Type sum = trees.accumulator;
  const CParameter map[] = {{"x", element}};
  const CParameter combine[] = {{"a", sum}, {"b", sum}};
  const CParameter finish[] = {{"a", sum}, {"count", sum}};
  return emit_c_function(trees.map, begin + "map", map) +
         emit_c_function(trees.start, begin + "start", {}) +
         emit_c_function(trees.combine, begin + "combine", combine) +
         emit_c_function(trees.finish, begin + "finish", finish);
}

std::span<const std::string_view> c_dtypes() { return kDtypes; }

std::string dtype_mask_text(std::span<const std::string_view> dtypes) {
  std::string text;
  for (const std::string_view dtype : dtypes) {
    std::string code(dtype);
    std::transform(code.begin(), code.end(), code.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    text += (text.empty() ? "BP_DTYPE_BIT(BP_DTYPE_" : " | BP_DTYPE_BIT(BP_DTYPE_") + code + ")";
  }
  return text;
}

std::string row_head_text(const Row& row) {
  constexpr std::string_view kKinds[] = {"BP_PARAMETER_F64", "BP_PARAMETER_I64",
                                         "BP_PARAMETER_BOOL"};
  uint32_t bools = 0;
  for (size_t i = 0; i < row.inputs.size(); ++i) bools |= (row.inputs[i].is_bool ? 1u : 0u) << i;
  std::string parameters;
  for (const Parameter& parameter : row.parameters) {
    parameters += "    {" + std::string(kKinds[static_cast<size_t>(parameter.kind)]) + ", " +
                  std::to_string(parameter.offset_bytes) + ", " +
                  float_text(parameter.default_value, {Class::kFloat, 64}) + "},\n";
  }
  const std::string name(row.op);
  const std::string table = parameters.empty() ? "NULL" : name + "_parameters";
  if (!parameters.empty()) {
    parameters = "static const bp_expression_parameter " + table + "[] = {\n" + parameters + "};\n";
  }
  return parameters + "static const bp_expression " + name + "_expression = {\n    \"" + name +
         "\", " + std::to_string(row.inputs.size()) + ", " + std::to_string(bools) + ", " +
         (row.gives_bool ? "1" : "0") + ", " + std::to_string(row.parameters.size()) + ", " +
         table + ",\n";
}

std::string masks_text(std::string_view op, std::span<const std::string_view> dtypes) {
  return "static const uint64_t " + std::string(op) + "_masks[] = {" + dtype_mask_text(dtypes) +
         "};\n";
}

std::string kernel_text(std::string_view op, std::string_view suffix,
                        const KernelFunctions& functions) {
  const std::string name(op);
  const std::string title = name + std::string(suffix);
  const bool plans = !functions.plan.empty();
  return "    {.struct_size = sizeof(bp_kernel),\n     .flags = BP_EXPRESSION_KERNEL_FLAGS,\n"
         "     .name = {\"" +
         title + "\", " + std::to_string(title.size()) + "},\n     .op = {\"" + name + "\", " +
         std::to_string(name.size()) +
         "},\n     .version_min = 1,\n     .version_max = 1,\n     .op_since = 1,\n"
         "     .dtype_masks = " +
         name +
         "_masks,\n     .dtype_mask_count = 1,\n     .arg_rule_count = 1,\n"
         "     .arg_rules = bp_any_strides,\n" +
         (plans ? "     .depends_on = BP_DEPENDS_SIZES_BIT | BP_DEPENDS_STRIDES_BIT,\n"
                  "     .supports = bp_expression_supports,\n     .plan = " +
                      functions.plan + ",\n     .plan_free = bp_expression_plan_free,\n"
                : "") +
         "     .launch = " + functions.launch +
         (plans ? ",\n     .state_create = bp_expression_state_create,\n     .state_destroy = "
                  "bp_expression_state_destroy"
                : "") +
         (functions.in_place_inputs > 0
              ? ",\n     .in_place_inputs = " +
                    std::to_string((uint64_t{1} << functions.in_place_inputs) - 1)
              : "") +
         "},\n";
}

}  // namespace bp::expr
