// SPDX-License-Identifier: Apache-2.0
#include "ops/expr/emit.hpp"

namespace bp::expr {
namespace {

constexpr int kUnaryPrecedence = 11;
constexpr int kTightest = 12;

struct Text {
  std::string words;
  int precedence;  // of the operator outside
};

std::string inside(const Text& text, int least) {
  return text.precedence < least ? "(" + text.words + ")" : text.words;
}

Text text_of(const Expr& expr, uint32_t index) {
  const Node& node = expr.nodes[index];
  const OpInfo& row = info(node.op);
  if (node.op == Op::kName || node.op == Op::kNumber) return {node.text, kTightest};
  if (node.args.empty()) return {std::string(row.word), kTightest};
  if (row.precedence > 0) {
    const std::string left = inside(text_of(expr, node.args[0]), row.precedence);
    const std::string right = inside(text_of(expr, node.args[1]), row.precedence + 1);
    return {left + " " + std::string(row.symbol) + " " + right, row.precedence};
  }
  if (!row.symbol.empty()) {
    return {std::string(row.symbol) + inside(text_of(expr, node.args[0]), kUnaryPrecedence),
            kUnaryPrecedence};
  }
  std::string words(row.word);
  if (node.op == Op::kCast) words += "_" + node.text;
  for (size_t i = 0; i < node.args.size(); ++i) {
    words += (i == 0 ? "(" : ", ") + text_of(expr, node.args[i]).words;
  }
  return {words + ")", kTightest};
}

}  // namespace

std::string emit_formula(const Expr& expr) { return text_of(expr, expr.root()).words; }

}  // namespace bp::expr
