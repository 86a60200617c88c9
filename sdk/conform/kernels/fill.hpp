// SPDX-License-Identifier: Apache-2.0
//
// The values that kernels are given. They are a function of seed and place alone, so that a failure
// can be repeated. Exact fills are whole numbers and powers of two: every order of a sum gives the
// same bits, so that results are compared bit by bit.
#ifndef BACKPLANE_SDK_CONFORM_KERNELS_FILL_HPP
#define BACKPLANE_SDK_CONFORM_KERNELS_FILL_HPP

#include <cstdint>

#include "ops/oracle/oracle_tensor.hpp"

namespace bp::conform {

enum class FillKind {
  kSum,      // whole numbers; the sum of two is exact in the dtype
  kProduct,  // whole numbers; the product of two is exact
  kTerm,     // whole numbers up to 30: sums of products are exact in f32
  kSquare,   // squares of whole numbers up to 15
  kPower,    // powers of two from 1 to 8, both signs
  kPositivePower,
  kFull,          // full mantissas, exponents from -4 to 3, both signs; integers: all bits
  kPositive,      // the same without signs
  kWide,          // the same with exponents from -2 to 13, for what cuts fractions off
  kExponent,      // full mantissas within [-4, 4]: what softmax is asked for
  kSweep,         // every other one the same, the others from where exp is tiny to where it is inf
  kHalfZero,      // every other value is 0, by chance
  kFew,           // 1 or 2, by chance; bool: three of four are true
  kOdd,           // two of five are NaN, two an infinity, the others kFull
  kUnit,          // full mantissas within [-1, 1]
  kAboveOne,      // full mantissas from 1 to 2^12
  kMagnitude,     // full mantissas without signs, exponents of half the dtype's range round 0
  kAngle,         // full mantissas within [-2000, 2000], a half of them within [-4, 4]
  kFactor,        // 1/2, 1 and 2, both signs: products are exact; integers: odd
  kInfiniteLane,  // kTerm, but for a NaN and infinities, far apart
  kSmall,         // whole numbers from 0 to the dtype's width; bool: one of eight is true
  kTame,          // kExponent; integers: kTerm
  kMinusInfinity,
  kRising,         // whole numbers that do not fall, each twice: value i / 2, up to 100
  kSpecialRow,     // infinities, NaN, zeros, the largest, subnormals: value i / n
  kSpecialColumn,  // ... value i % n; together all pairs
  kSpecialLane,    // kTerm, but for a NaN, infinities and the largest, far apart
  kIndex,          // -extent to extent - 1
  kBadIndex,       // the same, but for some that are out of range, near and far
};

struct Fill {
  FillKind kind = FillKind::kFull;
  int64_t extent = 0;  // of the dimension that kIndex and kBadIndex point into
};

/// How many special values there are.
int64_t special_count();
OracleTensor make_values(uint32_t dtype, const Dims& sizes, const Fill& fill, uint32_t seed);

/// Digits of a float's mantissa, with the hidden one.
int float_digits(uint32_t dtype);
double float_max(uint32_t dtype);
double float_min_normal(uint32_t dtype);

}  // namespace bp::conform

#endif
