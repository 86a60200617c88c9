// SPDX-License-Identifier: Apache-2.0
//
// Every tree that differs from a row's in one node; then a choice among them.
#include "ops/truth/mutants.hpp"

#include <algorithm>
#include <array>
#include <random>

#include "ops/expr/emit.hpp"

namespace bp::truth {
namespace {

using expr::Expr;
using expr::Op;

/// What an operation is exchanged with: those that are mistaken for it. No operation: kName.
struct Exchange {
  Op op;
  std::array<Op, 2> others;
};
constexpr Exchange kExchanges[] = {
    {Op::kAdd, {Op::kSub, Op::kMul}},
    {Op::kSub, {Op::kAdd}},
    {Op::kMul, {Op::kDiv, Op::kAdd}},
    {Op::kDiv, {Op::kMul, Op::kFmod}},
    {Op::kMin, {Op::kMax}},
    {Op::kMax, {Op::kMin}},
    {Op::kAbs, {Op::kNeg, Op::kSign}},
    {Op::kSign, {Op::kAbs}},
    {Op::kFmod, {Op::kDiv}},
    {Op::kPow, {Op::kMul, Op::kFmod}},
    {Op::kFloor, {Op::kCeil, Op::kTrunc}},
    {Op::kCeil, {Op::kFloor, Op::kRoundEven}},
    {Op::kTrunc, {Op::kFloor, Op::kRoundEven}},
    {Op::kRoundEven, {Op::kTrunc, Op::kFloor}},
    {Op::kSqrt, {Op::kRsqrt, Op::kLog}},
    {Op::kRsqrt, {Op::kSqrt}},
    {Op::kExp, {Op::kExpm1, Op::kSinh}},
    {Op::kExpm1, {Op::kExp}},
    {Op::kLog, {Op::kLog1p}},
    {Op::kLog1p, {Op::kLog}},
    {Op::kLog2, {Op::kLog, Op::kLog10}},
    {Op::kLog10, {Op::kLog2}},
    {Op::kSin, {Op::kCos, Op::kTan}},
    {Op::kCos, {Op::kSin}},
    {Op::kTan, {Op::kSin, Op::kAtan}},
    {Op::kAsin, {Op::kAcos, Op::kSin}},
    {Op::kAcos, {Op::kAsin}},
    {Op::kAtan, {Op::kTanh, Op::kAsinh}},
    {Op::kSinh, {Op::kCosh, Op::kExp}},
    {Op::kCosh, {Op::kSinh, Op::kExp}},
    {Op::kTanh, {Op::kErf, Op::kAtan}},
    {Op::kAsinh, {Op::kAcosh, Op::kAtan}},
    {Op::kAcosh, {Op::kAsinh}},
    {Op::kAtanh, {Op::kTanh, Op::kAsin}},
    {Op::kErf, {Op::kTanh}},
    {Op::kAtan2, {Op::kHypot, Op::kFmod}},
    {Op::kHypot, {Op::kAtan2, Op::kMax}},
    {Op::kCopysign, {Op::kMin}},
    {Op::kNextafter, {Op::kCopysign, Op::kMax}},
    {Op::kIsNan, {Op::kIsInf, Op::kIsFinite}},
    {Op::kIsInf, {Op::kIsNan}},
    {Op::kIsFinite, {Op::kIsInf}},
    {Op::kEq, {Op::kNe, Op::kLe}},
    {Op::kNe, {Op::kEq, Op::kLt}},
    {Op::kLt, {Op::kLe, Op::kGt}},
    {Op::kLe, {Op::kLt, Op::kGe}},
    {Op::kGt, {Op::kGe, Op::kLt}},
    {Op::kGe, {Op::kGt, Op::kLe}},
    {Op::kAnd, {Op::kOr}},
    {Op::kOr, {Op::kAnd}},
    {Op::kBitAnd, {Op::kBitOr}},
    {Op::kBitOr, {Op::kBitXor}},
    {Op::kBitXor, {Op::kBitOr}},
    {Op::kBitNot, {Op::kNeg}},
    {Op::kShl, {Op::kShr}},
    {Op::kShr, {Op::kShl}},
    {Op::kLowest, {Op::kHighest}},
    {Op::kHighest, {Op::kLowest}},
    {Op::kPi, {Op::kInf}},
    {Op::kTrue, {Op::kFalse}},
};

/// Whose operands may change places.
bool is_commutative(Op op) {
  constexpr Op kCommutative[] = {Op::kAdd,    Op::kMul,   Op::kMin,    Op::kMax,
                                 Op::kEq,     Op::kNe,    Op::kAnd,    Op::kOr,
                                 Op::kBitAnd, Op::kBitOr, Op::kBitXor, Op::kHypot};
  return std::find(std::begin(kCommutative), std::end(kCommutative), op) != std::end(kCommutative);
}

/// A larger constant; of a fraction the last digit.
std::string changed_number(std::string digits) {
  if (digits.find('.') == std::string::npos) return std::to_string(std::stoull(digits) + 1);
  char& last = digits.back();
  last = last == '9' ? '8' : static_cast<char>(last + 1);
  return digits;
}

/// The part of a tree below a node. What it does not use may stand before it.
Expr part_of(const Expr& tree, uint32_t node) {
  return {{tree.nodes.begin(), tree.nodes.begin() + node + 1}};
}

/// The tree with one of the node's operands in its place.
Expr without_node(const Expr& tree, uint32_t node, uint32_t operand) {
  if (node == tree.root()) return part_of(tree, operand);
  Expr result = tree;
  for (expr::Node& user : result.nodes)
    std::replace(user.args.begin(), user.args.end(), node, operand);
  return result;
}

void add_node(const Expr& tree, uint32_t at, std::span<const expr::Name> names,
              std::vector<Expr>* out) {
  const expr::Node& node = tree.nodes[at];
  const auto changed = [&]() -> expr::Node& {
    out->push_back(tree);
    return out->back().nodes[at];
  };
  for (const Exchange& row : kExchanges) {
    if (row.op != node.op) continue;
    for (const Op other : row.others) {
      if (other != Op::kName) changed().op = other;
    }
  }
  if (node.op == Op::kNumber) {
    expr::Node& number = changed();
    number.text = changed_number(node.text);
    number.number = std::stold(number.text);
  }
  if (node.op == Op::kName) {
    for (const expr::Name& name : names) {
      if (!name.is_type && name.name != node.text) changed().text = name.name;
    }
  }
  if (node.args.size() > 1 && !is_commutative(node.op)) {
    std::vector<uint32_t>& args = changed().args;
    std::swap(args[args.size() - 2], args[args.size() - 1]);
  }
  const size_t first = node.op == Op::kSelect ? 1 : 0;
  for (size_t i = first; i < node.args.size(); ++i) {
    out->push_back(without_node(tree, at, node.args[i]));
  }
}

std::vector<Expr> mutants_of(const Expr& tree, std::span<const expr::Name> names) {
  std::vector<Expr> mutants;
  for (uint32_t at = 0; at <= tree.root(); ++at) add_node(tree, at, names, &mutants);
  return mutants;
}

/// Up to `count`, in an order that is the same with every standard library.
void choose(std::vector<std::string>* texts, size_t count, std::mt19937_64* random) {
  for (size_t i = 0; i < std::min(count, texts->size()); ++i) {
    std::swap((*texts)[i], (*texts)[i + (*random)() % (texts->size() - i)]);
  }
  if (texts->size() > count) texts->resize(count);
}

/// A text, and whether another one in its place compiles.
template <class Compiles>
void add_text(const Mutant& base, std::string_view text, std::span<const expr::Name> names,
              size_t each, std::mt19937_64* random, Compiles compiles, std::vector<Mutant>* out) {
  Expr tree;
  if (!expr::parse(text, &tree).empty()) return;  // bp-exprgen has parsed it
  Mutant mutant = base;
  mutant.original = expr::emit_formula(tree);
  std::vector<std::string> texts;
  for (const Expr& changed : mutants_of(tree, names)) {
    mutant.text = expr::emit_formula(changed);
    const bool is_new = std::find(texts.begin(), texts.end(), mutant.text) == texts.end();
    if (is_new && mutant.text != mutant.original && compiles(mutant)) texts.push_back(mutant.text);
  }
  choose(&texts, each, random);
  for (std::string& chosen : texts) {
    mutant.text = std::move(chosen);
    out->push_back(mutant);
  }
}

/// A type of that class that the row has.
expr::Type element_of(std::span<const std::string_view> dtypes, expr::Class kind) {
  for (const std::string_view dtype : dtypes) {
    const auto type = expr::type_named(dtype);
    if (type && type->kind == kind) return *type;
  }
  return {};
}

void add_row(const expr::Row& row, size_t each, std::mt19937_64* random, std::vector<Mutant>* out) {
  for (const expr::Form& form : row.definition) {
    const expr::Type element = element_of(row.dtypes, form.kind);
    const auto compiles = [&](const Mutant& mutant) {
      Expr tree;
      return expr::compile(MutatedRow(row, mutant).row, expr::FormKind::kDefinition, element, &tree)
          .empty();
    };
    add_text({.op = std::string(row.op), .kind = form.kind, .part = "definition"}, form.text,
             expr::names_of(row, element), each, random, compiles, out);
  }
}

void add_reduction(const expr::ReductionRow& row, size_t each, std::mt19937_64* random,
                   std::vector<Mutant>* out) {
  for (const expr::ReductionForm& form : row.forms) {
    const expr::Type element = element_of(row.dtypes, form.kind);
    const auto compiles = [&](const Mutant& mutant) {
      expr::ReductionTrees trees;
      return expr::compile(MutatedReduction(row, mutant).row, element, &trees).empty();
    };
    expr::ReductionTrees trees;
    if (!expr::compile(row, element, &trees).empty()) continue;
    const auto add = [&](std::string_view part, std::string_view text,
                         const std::vector<expr::Name>& names) {
      add_text({.op = std::string(row.op), .kind = form.kind, .part = std::string(part)}, text,
               names, each, random, compiles, out);
    };
    add("map", form.map, expr::map_names(element));
    add("start", form.start, {});
    add("combine", form.combine, expr::combine_names(trees.accumulator));
    add("finish", form.finish, expr::finish_names(element, trees.accumulator));
  }
}

}  // namespace

std::vector<Mutant> all_mutants(uint64_t seed, size_t each) {
  std::mt19937_64 random(seed);
  std::vector<Mutant> mutants;
  for (const expr::Row& row : expr::all_rows()) add_row(row, each, &random, &mutants);
  for (const expr::ReductionRow& row : expr::all_reductions()) {
    add_reduction(row, each, &random, &mutants);
  }
  return mutants;
}

MutatedRow::MutatedRow(const expr::Row& original, const Mutant& mutant)
    : form{mutant.kind, mutant.text}, row(original) {
  row.definition = {&form, 1};
}

MutatedReduction::MutatedReduction(const expr::ReductionRow& original, const Mutant& mutant)
    : form{}, row(original) {
  for (const expr::ReductionForm& each : original.forms) {
    if (each.kind == mutant.kind) form = each;
  }
  if (mutant.part == "map") form.map = mutant.text;
  if (mutant.part == "start") form.start = mutant.text;
  if (mutant.part == "combine") form.combine = mutant.text;
  if (mutant.part == "finish") form.finish = mutant.text;
  row.forms = {&form, 1};
}

}  // namespace bp::truth
