// SPDX-License-Identifier: Apache-2.0
//
// Nodes are copied one by one into a new tree: each as what it is worth, if that is a constant or
// one of its arguments, as the equal node that is there already, or as it is.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "ops/expr/expr.hpp"
#include "ops/expr/interpret.hpp"

namespace bp::expr {
namespace {

class Simplifier {
 public:
  explicit Simplifier(const Expr& from) : from_(from) {}

  Expr run() {
    for (const Node& node : from_.nodes) {
      Node copy = node;
      for (uint32_t& arg : copy.args) arg = moved_[arg];
      moved_.push_back(worth(std::move(copy)));
    }
    return reached(moved_.back());
  }

 private:
  const Node& arg(const Node& node, size_t i) const { return to_[node.args[i]]; }
  bool is_one(const Node& node) const { return node.op == Op::kNumber && node.number == 1; }
  bool is_zero(const Node& node) const { return node.op == Op::kNumber && node.number == 0; }

  uint32_t worth(Node node) {
    if (const auto same = argument_it_is(node)) return *same;
    fold(&node);
    const auto found = std::find(to_.begin(), to_.end(), node);
    if (found != to_.end()) return static_cast<uint32_t>(found - to_.begin());
    to_.push_back(std::move(node));
    return static_cast<uint32_t>(to_.size() - 1);
  }

  /// nullopt: none of them. x + 0 is not among these: -0 + 0 is 0.
  std::optional<uint32_t> argument_it_is(const Node& node) const {
    const auto twice = [&]() -> std::optional<uint32_t> {
      if (arg(node, 0).op == node.op) return arg(node, 0).args[0];
      return std::nullopt;
    };
    switch (node.op) {
      case Op::kMul:
        if (is_one(arg(node, 0))) return node.args[1];
        [[fallthrough]];
      case Op::kDiv:
        if (is_one(arg(node, 1))) return node.args[0];
        return std::nullopt;
      case Op::kSub:
        if (is_zero(arg(node, 1))) return node.args[0];
        return std::nullopt;
      case Op::kNeg:
      case Op::kNot:
      case Op::kBitNot:
        return twice();
      case Op::kSelect:
        if (arg(node, 0).op == Op::kTrue || node.args[1] == node.args[2]) return node.args[1];
        if (arg(node, 0).op == Op::kFalse) return node.args[2];
        return std::nullopt;
      default:
        return std::nullopt;
    }
  }

  /// Floats alone: what an integer is worth depends on its width, which may be open.
  void fold(Node* node) const {
    if (node->args.empty() || node->type.kind != Class::kFloat) return;
    if (node->op == Op::kNextafter) return;  // another one in each width
    Expr part;
    for (const uint32_t index : node->args) {
      const Node& leaf = to_[index];
      if (leaf.op != Op::kNumber && leaf.op != Op::kPi) return;
      part.nodes.push_back(leaf);
    }
    part.nodes.push_back(*node);
    for (uint32_t i = 0; i < node->args.size(); ++i) part.nodes.back().args[i] = i;
    part.nodes.back().type.bits = 0;  // in long double whatever the width: it is not rounded yet
    const Value value = Program(part, {}).run({});
    if (!std::isfinite(value.number) || std::signbit(value.number)) return;
    char digits[64];
    std::snprintf(digits, sizeof(digits), "%.21Lg", value.number);
    *node = {.op = Op::kNumber, .type = node->type, .text = digits, .number = value.number};
  }

  /// The nodes that `root` needs, which is the last of them.
  Expr reached(uint32_t root) const {
    std::vector<bool> needed(to_.size(), false);
    needed[root] = true;
    for (size_t i = root + size_t{1}; i-- > 0;) {
      if (!needed[i]) continue;
      for (const uint32_t index : to_[i].args) needed[index] = true;
    }
    Expr result;
    std::vector<uint32_t> places(to_.size(), 0);
    for (size_t i = 0; i <= root; ++i) {
      if (!needed[i]) continue;
      places[i] = static_cast<uint32_t>(result.nodes.size());
      result.nodes.push_back(to_[i]);
      for (uint32_t& index : result.nodes.back().args) index = places[index];
    }
    return result;
  }

  const Expr& from_;
  std::vector<Node> to_;
  std::vector<uint32_t> moved_;
};

}  // namespace

void simplify(Expr* expr) { *expr = Simplifier(*expr).run(); }

}  // namespace bp::expr
