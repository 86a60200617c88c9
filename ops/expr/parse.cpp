// SPDX-License-Identifier: Apache-2.0
//
// A recursive descent over the text, with the precedence of C.
#include <cctype>
#include <cstdlib>

#include "ops/expr/expr.hpp"

namespace bp::expr {
namespace {

constexpr std::string_view kCastPrefix = "cast_";

class Parser {
 public:
  Parser(std::string_view text, Expr* expr) : text_(text), expr_(expr) {}

  std::string run() {
    binary(1);
    skip_spaces();
    if (error_.empty() && at_ < text_.size()) fail("expected an operator or the end");
    return error_;
  }

 private:
  uint32_t fail(const std::string& words) {
    if (!error_.empty()) return 0;
    const std::string found =
        at_ < text_.size() ? "'" + std::string(1, text_[at_]) + "'" : "the end";
    error_ = words + ", found " + found + " (at " + std::to_string(at_) + ")";
    return 0;
  }
  uint32_t add(Node node) {
    expr_->nodes.push_back(std::move(node));
    return expr_->root();
  }

  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool take(std::string_view symbol) {
    skip_spaces();
    if (text_.substr(at_, symbol.size()) != symbol) return false;
    at_ += symbol.size();
    return true;
  }

  /// The longest symbol of a binary operator that stands here: << before <, && before &.
  const OpInfo* binary_here() {
    skip_spaces();
    const OpInfo* longest = nullptr;
    for (size_t i = 0; i < kOpCount; ++i) {
      const OpInfo& row = info(static_cast<Op>(i));
      if (row.arity != 2 || row.symbol.empty()) continue;
      if (text_.substr(at_, row.symbol.size()) != row.symbol) continue;
      if (longest == nullptr || row.symbol.size() > longest->symbol.size()) longest = &row;
    }
    return longest;
  }

  /// Operators of this precedence and above, to the left.
  uint32_t binary(int least) {
    if (++depth_ > kMaxDepth) return fail("expected less than 64 levels");
    uint32_t left = unary();
    for (const OpInfo* row = binary_here(); error_.empty() && row != nullptr; row = binary_here()) {
      if (row->precedence < least) break;
      at_ += row->symbol.size();
      const uint32_t right = binary(row->precedence + 1);
      left = add({.op = row->op, .args = {left, right}});
    }
    --depth_;
    return left;
  }

  uint32_t unary() {
    if (++depth_ > kMaxDepth) return fail("expected less than 64 levels");
    uint32_t result = 0;
    skip_spaces();
    if (take("-")) {
      result = add({.op = Op::kNeg, .args = {unary()}});
    } else if (take("!")) {
      result = add({.op = Op::kNot, .args = {unary()}});
    } else if (take("~")) {
      result = add({.op = Op::kBitNot, .args = {unary()}});
    } else {
      result = primary();
    }
    --depth_;
    return result;
  }

  uint32_t primary() {
    if (!error_.empty()) return 0;
    if (take("(")) {
      const uint32_t inside = binary(1);
      return take(")") ? inside : fail("expected ')'");
    }
    if (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) {
      return number();
    }
    const std::string_view word = this->word();
    if (word.empty()) return fail("expected a number, a name or '('");
    return take("(") ? call(word) : leaf(word);
  }

  uint32_t number() {
    const size_t begin = at_;
    const auto digits = [this] {
      while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    };
    digits();
    if (at_ < text_.size() && text_[at_] == '.') {
      ++at_;
      digits();
    }
    if (at_ < text_.size() && text_[at_] == 'e') {
      ++at_;
      if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) ++at_;
      digits();
    }
    const std::string digits_found(text_.substr(begin, at_ - begin));
    char* end = nullptr;
    const long double value = std::strtold(digits_found.c_str(), &end);
    if (*end != '\0') return fail("expected digits");
    return add({.op = Op::kNumber, .text = digits_found, .number = value});
  }

  std::string_view word() {
    const size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_')) {
      ++at_;
    }
    return text_.substr(begin, at_ - begin);
  }

  uint32_t leaf(std::string_view word) {
    for (size_t i = static_cast<size_t>(Op::kTrue); i < kOpCount; ++i) {
      const OpInfo& row = info(static_cast<Op>(i));
      if (row.signature == Signature::kLeaf && row.word == word) return add({.op = row.op});
    }
    return add({.op = Op::kName, .text = std::string(word)});
  }

  const OpInfo* function_called(std::string_view word) {
    for (size_t i = 0; i < kOpCount; ++i) {
      const OpInfo& row = info(static_cast<Op>(i));
      const bool is_function = row.arity > 0 && row.symbol.empty() && row.op != Op::kCast;
      if (is_function && row.word == word) return &row;
    }
    return word.substr(0, kCastPrefix.size()) == kCastPrefix ? &info(Op::kCast) : nullptr;
  }

  uint32_t call(std::string_view word) {
    const OpInfo* function = function_called(word);
    if (function == nullptr) return fail("expected a function, not '" + std::string(word) + "'");
    Node node{.op = function->op};
    if (node.op == Op::kCast) node.text = word.substr(kCastPrefix.size());
    for (uint8_t i = 0; i < function->arity; ++i) {
      node.args.push_back(binary(1));
      if (!take(i + 1 < function->arity ? "," : ")")) {
        return fail("'" + std::string(word) + "' has " + std::to_string(function->arity) +
                    " arguments: expected '" + (i + 1 < function->arity ? "," : ")") + "'");
      }
    }
    return add(std::move(node));
  }

  std::string_view text_;
  Expr* expr_;
  size_t at_ = 0;
  int depth_ = 0;
  std::string error_;
};

}  // namespace

std::string parse(std::string_view text, Expr* out_expr) {
  out_expr->nodes.clear();
  if (text.size() > kMaxTextBytes) {
    return "expected at most " + std::to_string(kMaxTextBytes) + " bytes, found " +
           std::to_string(text.size());
  }
  return Parser(text, out_expr).run();
}

}  // namespace bp::expr
