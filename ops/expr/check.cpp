// SPDX-License-Identifier: Apache-2.0
//
// Types from the leaves to the root. Constants have none of their own: they become what stands
// beside them.
#include <algorithm>
#include <cmath>

#include "ops/expr/expr.hpp"

namespace bp::expr {
namespace {

constexpr Type kBool{Class::kBool, 8};

bool admits(Signature signature, Type type) {
  switch (signature) {
    case Signature::kNumbers:
    case Signature::kOrder:
      return type.kind != Class::kBool;
    case Signature::kFloats:
    case Signature::kQuestion:
      return type.kind == Class::kFloat;
    case Signature::kIntegers:
      return type.is_integer();
    case Signature::kLogic:
      return type.kind == Class::kBool;
    default:
      return true;
  }
}

/// Why a constant cannot have the type; empty: it can.
std::string misfit(const Node& node, Type type) {
  const std::string as = " as a constant of type " + type_name(type);
  const bool is_float = type.kind == Class::kFloat;
  switch (node.op) {
    case Op::kNumber:
      if (type.kind == Class::kBool) return node.text + as;
      return is_float || std::trunc(node.number) == node.number ? "" : node.text + as;
    case Op::kPi:
    case Op::kNan:
    case Op::kInf:
      return is_float ? "" : std::string(info(node.op).word) + as;
    case Op::kBits:
      return type.is_integer() ? "" : "bits" + as;
    case Op::kLowest:
    case Op::kHighest:
      return type.kind == Class::kBool ? std::string(info(node.op).word) + as : "";
    default:
      return "";
  }
}

class Checker {
 public:
  Checker(Expr* expr, std::span<const Name> names) : nodes_(expr->nodes), names_(names) {}

  std::string run(Type result) {
    for (uint32_t i = 0; i < nodes_.size() && error_.empty(); ++i) visit(i);
    if (!error_.empty()) return error_;
    const uint32_t root = static_cast<uint32_t>(nodes_.size() - 1);
    if (nodes_[root].type.kind == Class::kNone) {
      if (result.kind == Class::kNone) return "constants alone have no type";
      settle(root, result);
    }
    if (error_.empty() && result.kind != Class::kNone && nodes_[root].type != result) {
      return "it gives " + type_name(nodes_[root].type) + ", expected " + type_name(result);
    }
    return error_;
  }

 private:
  Type& type_of(uint32_t index) { return nodes_[index].type; }
  void fail(const std::string& words) {
    if (error_.empty()) error_ = words;
  }

  const Name* find(std::string_view name, bool is_type) const {
    for (const Name& row : names_) {
      if (row.name == name && row.is_type == is_type) return &row;
    }
    return nullptr;
  }

  /// The type of the arguments from `first` on, which all have one; kNone: constants alone.
  Type common(const Node& node, size_t first) {
    Type found;
    for (size_t i = first; i < node.args.size(); ++i) {
      const Type type = type_of(node.args[i]);
      if (type.kind == Class::kNone) continue;
      if (found.kind != Class::kNone && !(found == type)) {
        fail("'" + spelling(node) + "' of " + type_name(found) + " and " + type_name(type));
      }
      found = type;
    }
    return found;
  }
  static std::string spelling(const Node& node) {
    const OpInfo& row = info(node.op);
    return std::string(row.symbol.empty() ? row.word : row.symbol);
  }
  void require(const Node& node, Type type) {
    if (admits(info(node.op).signature, type)) return;
    fail("'" + spelling(node) + "' does not take " + type_name(type));
  }

  /// A node whose type was open gets it, and with it what it is made of.
  void settle(uint32_t index, Type type) {
    Node& node = nodes_[index];
    if (node.type.kind != Class::kNone) return;
    node.type = type;
    if (node.args.empty()) {
      const std::string words = misfit(node, type);
      if (!words.empty()) fail(words);
      return;
    }
    require(node, type);
    for (size_t i = node.op == Op::kSelect ? 1 : 0; i < node.args.size(); ++i) {
      settle(node.args[i], type);
    }
  }

  void visit_leaf(Node* node) {
    if (node->op == Op::kTrue || node->op == Op::kFalse) node->type = kBool;
    if (node->op != Op::kName) return;
    const Name* name = find(node->text, false);
    if (name == nullptr) return fail("'" + node->text + "' is no input and no numeric attribute");
    node->type = name->type;
  }

  void visit_cast(Node* node) {
    const Name* name = find(node->text, true);
    const auto fixed = type_named(node->text);
    if (name == nullptr && !fixed) return fail("cast_" + node->text + ": no such type");
    if (type_of(node->args[0]).kind == Class::kNone) return fail("a cast of a constant");
    node->type = name != nullptr ? name->type : *fixed;
  }

  void visit(uint32_t index) {
    Node& node = nodes_[index];
    const Signature signature = info(node.op).signature;
    if (signature == Signature::kLeaf) return visit_leaf(&node);
    if (signature == Signature::kConversion) return visit_cast(&node);
    const bool is_choice = signature == Signature::kChoice;
    if (is_choice && !(type_of(node.args[0]) == kBool)) {
      return fail("'select' chooses by " + type_name(type_of(node.args[0])) + ", expected bool");
    }
    const Type type = common(node, is_choice ? 1 : 0);
    if (!error_.empty()) return;
    const bool asks = signature == Signature::kOrder || signature == Signature::kEquality ||
                      signature == Signature::kQuestion;
    if (type.kind == Class::kNone) {
      if (asks) fail("'" + spelling(node) + "' of constants alone");
      return;
    }
    require(node, type);
    for (size_t i = is_choice ? 1 : 0; i < node.args.size(); ++i) settle(node.args[i], type);
    node.type = asks ? kBool : type;
  }

  std::vector<Node>& nodes_;
  std::span<const Name> names_;
  std::string error_;
};

}  // namespace

std::string check(Expr* expr, std::span<const Name> names, Type result) {
  return Checker(expr, names).run(result);
}

}  // namespace bp::expr
