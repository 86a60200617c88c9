// SPDX-License-Identifier: Apache-2.0
//
// Expressions: what an elementwise operator computes, written once in its row of ops/defs. From a
// text to a tree (parse), a tree with types (check), a smaller one (simplify); interpret.hpp
// computes it, emit.hpp writes it in other languages. The build tool bp-exprgen, the oracle and the
// conformance kit link this library; it needs nothing but the standard library, so that a vendor's
// build can have it too.
//
// The language. Operators with the precedence of C: + - * / (integers wrap, x / 0 is 0) and
// -x; == != < <= > >= give a bool; && || ! take bools; & | ^ ~ << >> take integers. Functions:
// see kOps in expr.cpp. Constants: decimal numbers, true, false, pi, nan, inf, lowest and highest
// (the ends of the type's order: infinities, or the smallest and largest integer), bits (width of
// an integer type), cast_<type>(x). All else is a name: an input or a numeric attribute.
// There is no contraction: a product and a sum are two roundings unless fma() is written.
#ifndef BACKPLANE_OPS_EXPR_EXPR_HPP
#define BACKPLANE_OPS_EXPR_EXPR_HPP

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bp::expr {

enum class Class : uint8_t { kNone, kBool, kSigned, kUnsigned, kFloat };

/// bits 0: of any width, for code that is written once for all types of a class.
struct Type {
  Class kind = Class::kNone;
  uint8_t bits = 0;

  bool operator==(const Type&) const = default;
  bool is_integer() const { return kind == Class::kSigned || kind == Class::kUnsigned; }
};
/// "f32", "i8", "bool"; with bits 0 "float", "signed", "unsigned".
std::string type_name(Type type);
/// The other way; nullopt: no such type. f16 and bf16 are f32 here: halves are computed in it.
std::optional<Type> type_named(std::string_view name);

enum class Op : uint8_t {
  // leaves
  kName,
  kNumber,
  kTrue,
  kFalse,
  kPi,
  kNan,
  kInf,
  kLowest,
  kHighest,
  kBits,
  // numbers
  kAdd,
  kSub,
  kMul,
  kDiv,
  kNeg,
  kMin,
  kMax,
  kAbs,
  kSign,
  kFmod,
  kPow,
  // floats
  kFloor,
  kCeil,
  kTrunc,
  kRoundEven,
  kSqrt,
  kRsqrt,
  kExp,
  kExpm1,
  kLog,
  kLog1p,
  kLog2,
  kLog10,
  kSin,
  kCos,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kTanh,
  kAsinh,
  kAcosh,
  kAtanh,
  kErf,
  kAtan2,
  kHypot,
  kCopysign,
  kNextafter,
  kFma,
  // questions
  kIsNan,
  kIsInf,
  kIsFinite,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  // bools and integers
  kAnd,
  kOr,
  kNot,
  kBitAnd,
  kBitOr,
  kBitXor,
  kBitNot,
  kShl,
  kShr,
  kSelect,
  kCast,
};
inline constexpr size_t kOpCount = static_cast<size_t>(Op::kCast) + 1;

/// What arguments an operation takes and what it gives.
enum class Signature : uint8_t {
  kLeaf,
  kNumbers,   // any number type, the same for all; gives it
  kFloats,    // the same for floats only
  kIntegers,  // ... for integers only
  kQuestion,  // a float; gives a bool
  kOrder,     // two numbers of one type; gives a bool
  kEquality,  // two of one type, bools too; gives a bool
  kLogic,     // bools
  kChoice,    // a bool and two of one type; gives that
  kConversion,
};

struct OpInfo {
  Op op;
  std::string_view symbol;  // of an operator between or before its arguments; empty: a function
  std::string_view word;    // the function's name, in the language and in emitted code
  uint8_t arity;
  Signature signature;
  /// Binary operators: C's precedence, higher binds tighter. 0: none.
  uint8_t precedence;
  /// About how many additions it takes.
  uint8_t cost;
};
const OpInfo& info(Op op);

/// Arguments stand before what uses them, so that a walk along the nodes computes them all.
struct Node {
  Op op = Op::kNumber;
  Type type = {};
  std::vector<uint32_t> args = {};
  std::string text = {};   // kName: the name; kNumber: its digits; kCast: the type's name
  long double number = 0;  // kNumber

  bool operator==(const Node&) const = default;
};

struct Expr {
  std::vector<Node> nodes;
  uint32_t root() const { return static_cast<uint32_t>(nodes.size() - 1); }
};

inline constexpr size_t kMaxTextBytes = 4096;
inline constexpr int kMaxDepth = 64;

/// Empty: fine; else what is wrong and where: "expected ')', found end (at 7)".
std::string parse(std::string_view text, Expr* out_expr);

/// What a free name stands for. is_type: the name after cast_ ("T").
struct Name {
  std::string_view name;
  Type type;
  bool is_type = false;
};
/// Gives every node its type. `result`: what constants alone become, and what must come out; kNone:
/// whatever comes out. Errors name the operation and the types that it has and takes, or the name
/// that is not known.
std::string check(Expr* expr, std::span<const Name> names, Type result);

/// Of a checked one: constants are computed, x * 1, --x, !!x and the like become x, equal parts
/// become one node, unused ones go. The values stay the same, for NaN, infinities and -0 too.
void simplify(Expr* expr);

/// Names in the order in which they first stand there.
std::vector<std::string> free_names(const Expr& expr);
/// In additions, at least 1.
int64_t cost(const Expr& expr);

}  // namespace bp::expr

#endif
