// SPDX-License-Identifier: Apache-2.0
//
// Computes expressions by a walk along their nodes: what the oracle believes. It shares nothing
// with emitted code. Floats are long double, so that a result is rounded to its dtype once;
// integers are exact and wrap in their own width.
#ifndef BACKPLANE_OPS_EXPR_INTERPRET_HPP
#define BACKPLANE_OPS_EXPR_INTERPRET_HPP

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ops/expr/expr.hpp"

namespace bp::expr {

/// One number. Integers are extended to 64 bits by their sign; a bool is 0 or 1.
struct Value {
  long double number = 0;
  uint64_t bits = 0;
};

/// A checked expression, ready to be computed for many values. Any thread may use a copy.
class Program {
 public:
  /// Names in the order in which run() gets their values. Every type has its width.
  Program(const Expr& expr, std::span<const Name> names);

  /// The type of the result.
  Type type() const { return nodes_.back().type; }
  /// values: one for each name.
  Value run(std::span<const Value> values);

 private:
  template <class F>
  Value walk(std::span<const Value> values);

  std::vector<Node> nodes_;
  std::vector<size_t> places_;  // of each node that is a name
  std::vector<Value> results_;
  // One operation that IEEE 754 rounds correctly is done in f64 itself: by way of long double it
  // would be rounded twice.
  bool in_f64_ = false;
};

/// Of a type with a width; what a cast makes of a value.
Value convert(const Value& value, Type from, Type to);

}  // namespace bp::expr

#endif
