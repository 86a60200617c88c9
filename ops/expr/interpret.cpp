// SPDX-License-Identifier: Apache-2.0
//
// One function for each class of numbers, and the walk.
#include "ops/expr/interpret.hpp"

#include <cmath>
#include <limits>

namespace bp::expr {
namespace {

/// The low bits of a word, as a number of the type.
uint64_t wrapped(uint64_t word, Type type) {
  if (type.bits >= 64) return word;
  const unsigned unused = 64u - type.bits;
  if (type.kind == Class::kUnsigned) return word << unused >> unused;
  return static_cast<uint64_t>(static_cast<int64_t>(word << unused) >> unused);
}

uint64_t lowest_of(Type type) {
  return type.kind == Class::kUnsigned ? 0 : ~uint64_t{0} << (type.bits - 1);
}
uint64_t highest_of(Type type) {
  const unsigned digits = type.kind == Class::kUnsigned ? type.bits : type.bits - 1u;
  return ~uint64_t{0} >> (64u - digits);
}

/// Whether a < b.
bool is_less(uint64_t a, uint64_t b, Type type) {
  if (type.kind != Class::kSigned) return a < b;
  return static_cast<int64_t>(a) < static_cast<int64_t>(b);
}
bool is_negative(uint64_t word, Type type) {
  return type.kind == Class::kSigned && static_cast<int64_t>(word) < 0;
}

/// Toward zero; by 0: 0, and for what is left too. The smallest by -1 wraps.
uint64_t quotient(uint64_t a, uint64_t b, Type type) {
  if (b == 0) return 0;
  if (type.kind == Class::kUnsigned) return a / b;
  if (b == ~uint64_t{0}) return uint64_t{0} - a;
  return static_cast<uint64_t>(static_cast<int64_t>(a) / static_cast<int64_t>(b));
}
uint64_t remainder_of(uint64_t a, uint64_t b, Type type) {
  return b == 0 ? 0 : a - b * quotient(a, b, type);
}

/// By squaring, and wrapping. The power by a negative number is the quotient 1 / a^n.
uint64_t power(uint64_t a, uint64_t n, Type type) {
  const bool inverts = is_negative(n, type);
  if (inverts && a != 1 && a != ~uint64_t{0}) return 0;
  uint64_t result = 1;
  // 1 and -1 are their own inverses; only whether n is odd matters.
  for (uint64_t rest = inverts ? n & 1 : n; rest != 0; rest >>= 1) {
    if ((rest & 1) != 0) result = wrapped(result * a, type);
    a = wrapped(a * a, type);
  }
  return result;
}

/// Amounts from the width on leave nothing but the sign.
uint64_t shifted(Op op, uint64_t a, uint64_t amount, Type type) {
  const bool is_far = is_negative(amount, type) || amount >= type.bits;
  if (op == Op::kShl) return is_far ? 0 : a << amount;
  if (!is_far) {
    return type.kind == Class::kUnsigned ? a >> amount
                                         : static_cast<uint64_t>(static_cast<int64_t>(a) >> amount);
  }
  return is_negative(a, type) ? ~uint64_t{0} : 0;
}

uint64_t integer_result(Op op, uint64_t a, uint64_t b, Type type) {
  switch (op) {
    case Op::kAdd:
      return a + b;
    case Op::kSub:
      return a - b;
    case Op::kMul:
      return a * b;
    case Op::kDiv:
      return quotient(a, b, type);
    case Op::kNeg:
      return uint64_t{0} - a;
    case Op::kMin:
      return is_less(b, a, type) ? b : a;
    case Op::kMax:
      return is_less(a, b, type) ? b : a;
    case Op::kAbs:
      return is_negative(a, type) ? uint64_t{0} - a : a;
    case Op::kSign:
      return is_negative(a, type) ? ~uint64_t{0} : a != 0 ? 1 : 0;
    case Op::kFmod:
      return remainder_of(a, b, type);
    case Op::kPow:
      return power(a, b, type);
    case Op::kBitAnd:
      return a & b;
    case Op::kBitOr:
      return a | b;
    case Op::kBitXor:
      return a ^ b;
    case Op::kBitNot:
      return ~a;
    default:
      return shifted(op, a, b, type);
  }
}

template <class F>
F larger(F a, F b) {
  if (a != a) return a;
  return b != b || b > a ? b : a;
}

template <class F>
F sign_of(F a) {
  if (a != a) return a;
  return a > 0 ? F{1} : a < 0 ? F{-1} : F{0};
}

template <class F>
F basic_result(Op op, F a, F b) {
  switch (op) {
    case Op::kAdd:
      return a + b;
    case Op::kSub:
      return a - b;
    case Op::kMul:
      return a * b;
    case Op::kDiv:
      return a / b;
    case Op::kNeg:
      return -a;
    case Op::kMin:
      return -larger(-a, -b);
    case Op::kMax:
      return larger(a, b);
    case Op::kAbs:
      return std::fabs(a);
    case Op::kSign:
      return sign_of(a);
    case Op::kFmod:
      return std::fmod(a, b);
    case Op::kPow:
      return std::pow(a, b);
    case Op::kFloor:
      return std::floor(a);
    case Op::kCeil:
      return std::ceil(a);
    case Op::kTrunc:
      return std::trunc(a);
    case Op::kRoundEven:
      return std::nearbyint(a);  // nobody changes the rounding mode in this process
    case Op::kSqrt:
      return std::sqrt(a);
    case Op::kAtan2:
      return std::atan2(a, b);
    case Op::kHypot:
      return std::hypot(a, b);
    default:
      return std::copysign(a, b);
  }
}

template <class F>
F function_result(Op op, F a) {
  switch (op) {
    case Op::kRsqrt:
      return 1 / std::sqrt(a);
    case Op::kExp:
      return std::exp(a);
    case Op::kExpm1:
      return std::expm1(a);
    case Op::kLog:
      return std::log(a);
    case Op::kLog1p:
      return std::log1p(a);
    case Op::kLog2:
      return std::log2(a);
    case Op::kLog10:
      return std::log10(a);
    case Op::kSin:
      return std::sin(a);
    case Op::kCos:
      return std::cos(a);
    case Op::kTan:
      return std::tan(a);
    case Op::kAsin:
      return std::asin(a);
    case Op::kAcos:
      return std::acos(a);
    case Op::kAtan:
      return std::atan(a);
    case Op::kSinh:
      return std::sinh(a);
    case Op::kCosh:
      return std::cosh(a);
    case Op::kTanh:
      return std::tanh(a);
    case Op::kAsinh:
      return std::asinh(a);
    case Op::kAcosh:
      return std::acosh(a);
    case Op::kAtanh:
      return std::atanh(a);
    default:
      return std::erf(a);
  }
}

bool is_function(Op op) { return op >= Op::kRsqrt && op <= Op::kErf; }

/// The next float of the type itself: a longer one has others between.
long double next_of(long double a, long double b, Type type) {
  if (type.bits == 32) return std::nextafter(static_cast<float>(a), static_cast<float>(b));
  return std::nextafter(static_cast<double>(a), static_cast<double>(b));
}

/// What rounds, and is rounded correctly everywhere.
bool is_rounded_once(Op op) {
  return op == Op::kAdd || op == Op::kSub || op == Op::kMul || op == Op::kDiv || op == Op::kSqrt;
}

long double constant_float(const Node& node) {
  constexpr long double kInfinity = std::numeric_limits<long double>::infinity();
  switch (node.op) {
    case Op::kPi:
      return std::acos(-1.0L);
    case Op::kNan:
      return std::numeric_limits<long double>::quiet_NaN();
    case Op::kLowest:
      return -kInfinity;
    case Op::kNumber:
      return node.number;
    default:
      return kInfinity;
  }
}

Value constant(const Node& node) {
  const Type type = node.type;
  if (node.op == Op::kTrue) return {.bits = 1};
  if (node.op == Op::kFalse) return {};
  if (type.kind == Class::kFloat) return {.number = constant_float(node)};
  if (node.op == Op::kLowest) return {.bits = lowest_of(type)};
  if (node.op == Op::kHighest) return {.bits = highest_of(type)};
  if (node.op == Op::kBits) return {.bits = type.bits};
  return {.bits = wrapped(static_cast<uint64_t>(node.number), type)};
}

bool asked(Op op, const Value& a, const Value& b, Type type) {
  const bool is_float = type.kind == Class::kFloat;
  const bool less = is_float ? a.number < b.number : is_less(a.bits, b.bits, type);
  const bool equal = is_float ? a.number == b.number : a.bits == b.bits;
  const bool more = is_float ? a.number > b.number : is_less(b.bits, a.bits, type);
  switch (op) {
    case Op::kIsNan:
      return std::isnan(a.number);
    case Op::kIsInf:
      return std::isinf(a.number);
    case Op::kIsFinite:
      return std::isfinite(a.number);
    case Op::kEq:
      return equal;
    case Op::kNe:
      return !equal;
    case Op::kLt:
      return less;
    case Op::kLe:
      return less || equal;
    case Op::kGt:
      return more;
    case Op::kGe:
      return more || equal;
    case Op::kAnd:
      return (a.bits & b.bits) != 0;
    case Op::kOr:
      return (a.bits | b.bits) != 0;
    default:
      return a.bits == 0;
  }
}

bool is_asked(Op op) { return op >= Op::kIsNan && op <= Op::kNot; }

uint64_t saturated(long double number, Type type) {
  if (std::isnan(number)) return 0;
  const long double whole = std::trunc(number);
  const long double low = type.kind == Class::kUnsigned
                              ? 0
                              : static_cast<long double>(static_cast<int64_t>(lowest_of(type)));
  const long double high = static_cast<long double>(highest_of(type));
  if (whole <= low) return lowest_of(type);
  if (whole >= high) return highest_of(type);
  return whole < 0 ? static_cast<uint64_t>(static_cast<int64_t>(whole))
                   : static_cast<uint64_t>(whole);
}

}  // namespace

Value convert(const Value& value, Type from, Type to) {
  const bool from_float = from.kind == Class::kFloat;
  if (to.kind == Class::kBool) {
    return {.bits = (from_float ? value.number != 0 : value.bits != 0) ? uint64_t{1} : uint64_t{0}};
  }
  if (to.kind != Class::kFloat) {
    return {.bits = from_float ? saturated(value.number, to) : wrapped(value.bits, to)};
  }
  if (from_float) return {.number = value.number};
  return {.number = from.kind == Class::kSigned
                        ? static_cast<long double>(static_cast<int64_t>(value.bits))
                        : static_cast<long double>(value.bits)};
}

Program::Program(const Expr& expr, std::span<const Name> names)
    : nodes_(expr.nodes), places_(expr.nodes.size()), results_(expr.nodes.size()) {
  size_t roundings = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (node.op == Op::kName) {
      while (names[places_[i]].is_type || names[places_[i]].name != node.text) ++places_[i];
    }
    const bool is_float = node.type.kind == Class::kFloat;
    roundings += is_float && is_rounded_once(node.op) ? 1 : 0;
    roundings +=
        is_float && (is_function(node.op) || node.op == Op::kPow || node.op == Op::kAtan2 ||
                     node.op == Op::kHypot || node.op == Op::kFma || node.op == Op::kCast)
            ? 2
            : 0;
  }
  in_f64_ = roundings == 1 && type() == Type{Class::kFloat, 64};
}

template <class F>
Value Program::walk(std::span<const Value> values) {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    const auto arg = [&](size_t k) -> const Value& {
      return results_[node.args[node.args.size() > k ? k : 0]];
    };
    Value& result = results_[i];
    if (node.op == Op::kName) {
      result = values[places_[i]];
    } else if (node.args.empty()) {
      result = constant(node);
    } else if (node.op == Op::kSelect) {
      result = arg(0).bits != 0 ? arg(1) : arg(2);
    } else if (node.op == Op::kCast) {
      result = convert(arg(0), nodes_[node.args[0]].type, node.type);
    } else if (is_asked(node.op)) {
      const bool answer = asked(node.op, arg(0), arg(1), nodes_[node.args[0]].type);
      result = {.bits = answer ? uint64_t{1} : uint64_t{0}};
    } else if (node.type.kind != Class::kFloat) {
      result = {
          .bits = wrapped(integer_result(node.op, arg(0).bits, arg(1).bits, node.type), node.type)};
    } else if (node.op == Op::kFma) {
      result = {.number = std::fma(arg(0).number, arg(1).number, arg(2).number)};
    } else if (node.op == Op::kNextafter) {
      result = {.number = next_of(arg(0).number, arg(1).number, node.type)};
    } else if (is_function(node.op)) {
      result = {.number = function_result(node.op, static_cast<F>(arg(0).number))};
    } else {
      result = {.number = basic_result(node.op, static_cast<F>(arg(0).number),
                                       static_cast<F>(arg(1).number))};
    }
  }
  return results_.back();
}

Value Program::run(std::span<const Value> values) {
  return in_f64_ ? walk<double>(values) : walk<long double>(values);
}

}  // namespace bp::expr
