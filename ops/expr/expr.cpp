// SPDX-License-Identifier: Apache-2.0
//
// The table of operations, and what is asked of a tree.
#include "ops/expr/expr.hpp"

#include <algorithm>
#include <array>

namespace bp::expr {
namespace {

constexpr uint8_t kCheap = 1;
constexpr uint8_t kSlow = 4;   // a division, a root
constexpr uint8_t kLong = 16;  // a series

constexpr auto kNumbers = Signature::kNumbers;
constexpr auto kFloats = Signature::kFloats;
constexpr auto kIntegers = Signature::kIntegers;

// In the order of Op.
constexpr OpInfo kOps[] = {
    {Op::kName, "", "name", 0, Signature::kLeaf, 0, 0},
    {Op::kNumber, "", "set", 0, Signature::kLeaf, 0, 0},
    {Op::kTrue, "", "true", 0, Signature::kLeaf, 0, 0},
    {Op::kFalse, "", "false", 0, Signature::kLeaf, 0, 0},
    {Op::kPi, "", "pi", 0, Signature::kLeaf, 0, 0},
    {Op::kNan, "", "nan", 0, Signature::kLeaf, 0, 0},
    {Op::kInf, "", "inf", 0, Signature::kLeaf, 0, 0},
    {Op::kLowest, "", "lowest", 0, Signature::kLeaf, 0, 0},
    {Op::kHighest, "", "highest", 0, Signature::kLeaf, 0, 0},
    {Op::kBits, "", "bits", 0, Signature::kLeaf, 0, 0},

    {Op::kAdd, "+", "add", 2, kNumbers, 9, kCheap},
    {Op::kSub, "-", "sub", 2, kNumbers, 9, kCheap},
    {Op::kMul, "*", "mul", 2, kNumbers, 10, kCheap},
    {Op::kDiv, "/", "div", 2, kNumbers, 10, kSlow},
    {Op::kNeg, "-", "neg", 1, kNumbers, 0, kCheap},
    {Op::kMin, "", "min", 2, kNumbers, 0, kCheap},
    {Op::kMax, "", "max", 2, kNumbers, 0, kCheap},
    {Op::kAbs, "", "abs", 1, kNumbers, 0, kCheap},
    {Op::kSign, "", "sign", 1, kNumbers, 0, kCheap},
    {Op::kFmod, "", "fmod", 2, kNumbers, 0, kLong},
    {Op::kPow, "", "pow", 2, kNumbers, 0, 2 * kLong},

    {Op::kFloor, "", "floor", 1, kFloats, 0, kCheap},
    {Op::kCeil, "", "ceil", 1, kFloats, 0, kCheap},
    {Op::kTrunc, "", "trunc", 1, kFloats, 0, kCheap},
    {Op::kRoundEven, "", "round_even", 1, kFloats, 0, kCheap},
    {Op::kSqrt, "", "sqrt", 1, kFloats, 0, kSlow},
    {Op::kRsqrt, "", "rsqrt", 1, kFloats, 0, 2 * kSlow},
    {Op::kExp, "", "exp", 1, kFloats, 0, kLong},
    {Op::kExpm1, "", "expm1", 1, kFloats, 0, kLong},
    {Op::kLog, "", "log", 1, kFloats, 0, kLong},
    {Op::kLog1p, "", "log1p", 1, kFloats, 0, kLong},
    {Op::kLog2, "", "log2", 1, kFloats, 0, kLong},
    {Op::kLog10, "", "log10", 1, kFloats, 0, kLong},
    {Op::kSin, "", "sin", 1, kFloats, 0, kLong},
    {Op::kCos, "", "cos", 1, kFloats, 0, kLong},
    {Op::kTan, "", "tan", 1, kFloats, 0, kLong},
    {Op::kAsin, "", "asin", 1, kFloats, 0, kLong},
    {Op::kAcos, "", "acos", 1, kFloats, 0, kLong},
    {Op::kAtan, "", "atan", 1, kFloats, 0, kLong},
    {Op::kSinh, "", "sinh", 1, kFloats, 0, kLong},
    {Op::kCosh, "", "cosh", 1, kFloats, 0, kLong},
    {Op::kTanh, "", "tanh", 1, kFloats, 0, kLong},
    {Op::kAsinh, "", "asinh", 1, kFloats, 0, kLong},
    {Op::kAcosh, "", "acosh", 1, kFloats, 0, kLong},
    {Op::kAtanh, "", "atanh", 1, kFloats, 0, kLong},
    {Op::kErf, "", "erf", 1, kFloats, 0, kLong},
    {Op::kAtan2, "", "atan2", 2, kFloats, 0, kLong},
    {Op::kHypot, "", "hypot", 2, kFloats, 0, kLong},
    {Op::kCopysign, "", "copysign", 2, kFloats, 0, kCheap},
    {Op::kNextafter, "", "nextafter", 2, kFloats, 0, kSlow},
    {Op::kFma, "", "fma", 3, kFloats, 0, kSlow},

    {Op::kIsNan, "", "is_nan", 1, Signature::kQuestion, 0, kCheap},
    {Op::kIsInf, "", "is_inf", 1, Signature::kQuestion, 0, kCheap},
    {Op::kIsFinite, "", "is_finite", 1, Signature::kQuestion, 0, kCheap},
    {Op::kEq, "==", "eq", 2, Signature::kEquality, 6, kCheap},
    {Op::kNe, "!=", "ne", 2, Signature::kEquality, 6, kCheap},
    {Op::kLt, "<", "lt", 2, Signature::kOrder, 7, kCheap},
    {Op::kLe, "<=", "le", 2, Signature::kOrder, 7, kCheap},
    {Op::kGt, ">", "gt", 2, Signature::kOrder, 7, kCheap},
    {Op::kGe, ">=", "ge", 2, Signature::kOrder, 7, kCheap},

    {Op::kAnd, "&&", "and", 2, Signature::kLogic, 2, kCheap},
    {Op::kOr, "||", "or", 2, Signature::kLogic, 1, kCheap},
    {Op::kNot, "!", "not", 1, Signature::kLogic, 0, kCheap},
    {Op::kBitAnd, "&", "bit_and", 2, kIntegers, 5, kCheap},
    {Op::kBitOr, "|", "bit_or", 2, kIntegers, 3, kCheap},
    {Op::kBitXor, "^", "bit_xor", 2, kIntegers, 4, kCheap},
    {Op::kBitNot, "~", "bit_not", 1, kIntegers, 0, kCheap},
    {Op::kShl, "<<", "shl", 2, kIntegers, 8, kCheap},
    {Op::kShr, ">>", "shr", 2, kIntegers, 8, kCheap},
    {Op::kSelect, "", "select", 3, Signature::kChoice, 0, kCheap},
    {Op::kCast, "", "cast", 1, Signature::kConversion, 0, kCheap},
};
static_assert(std::size(kOps) == kOpCount);

struct TypeName {
  std::string_view name;
  Type type;
};
// The first of a type is its name.
constexpr TypeName kTypes[] = {
    {"bool", {Class::kBool, 8}},     {"i8", {Class::kSigned, 8}},
    {"i16", {Class::kSigned, 16}},   {"i32", {Class::kSigned, 32}},
    {"i64", {Class::kSigned, 64}},   {"u8", {Class::kUnsigned, 8}},
    {"u16", {Class::kUnsigned, 16}}, {"u32", {Class::kUnsigned, 32}},
    {"u64", {Class::kUnsigned, 64}}, {"f32", {Class::kFloat, 32}},
    {"f64", {Class::kFloat, 64}},    {"f16", {Class::kFloat, 32}},
    {"bf16", {Class::kFloat, 32}},   {"float", {Class::kFloat, 0}},
    {"signed", {Class::kSigned, 0}}, {"unsigned", {Class::kUnsigned, 0}},
};

}  // namespace

const OpInfo& info(Op op) { return kOps[static_cast<size_t>(op)]; }

std::string type_name(Type type) {
  for (const TypeName& row : kTypes) {
    if (row.type == type) return std::string(row.name);
  }
  return "no type";
}

std::optional<Type> type_named(std::string_view name) {
  for (const TypeName& row : kTypes) {
    if (row.name == name) return row.type;
  }
  return std::nullopt;
}

std::vector<std::string> free_names(const Expr& expr) {
  std::vector<std::string> names;
  for (const Node& node : expr.nodes) {
    const bool is_new = std::find(names.begin(), names.end(), node.text) == names.end();
    if (node.op == Op::kName && is_new) names.push_back(node.text);
  }
  return names;
}

int64_t cost(const Expr& expr) {
  int64_t sum = 0;
  for (const Node& node : expr.nodes) sum += info(node.op).cost;
  return std::max<int64_t>(sum, 1);
}

}  // namespace bp::expr
