// SPDX-License-Identifier: Apache-2.0
//
// What ranks put in, and what must come out: integers and movements to the bit, floating point to
// the bit where every order of sums gives the same bits, else within a bound of a sum with more
// digits.
#ifndef BACKPLANE_TESTS_CCL_ORACLE_HPP
#define BACKPLANE_TESTS_CCL_ORACLE_HPP

#include <cstddef>
#include <string>
#include <vector>

#include "tests/ccl/case.hpp"

namespace bp::ccl::cases {

using Bytes = std::vector<std::byte>;

/// The elements of a rank's contribution from `first` on.
void fill_input(const Case& c, uint32_t rank, uint64_t first, uint64_t count, std::byte* out);
Bytes input_of(const Case& c, uint32_t rank);

/// Empty: right. Else the first element that is wrong, with both values.
std::string judge(const Case& c, uint32_t rank, const std::byte* found);

/// Empty: both are right, and differ by what two orders of sums may, else in nothing. `ours` was
/// judged before.
std::string compare(const Case& c, uint32_t rank, const std::byte* ours, const std::byte* theirs);

/// Results are kept of these, in files "NUMBER.RANK.out": of what is not refused, and has a dtype
/// that other libraries have too (not f16, bf16, 8-bit floating point and scales).
bool is_kept(const Case& c);
/// Who keeps what this rank receives: one for all, where all receive the same.
uint32_t keeper_of(const Case& c, uint32_t rank);

/// How far from `reference` a result may be: unit roundoff of the dtype times |reference|, and
/// 4 sqrt(p) times that times the sum of the magnitudes. Each hop rounds to the dtype.
long double bound_of(const Case& c, long double reference, long double magnitudes);

/// A number that tells contents apart.
uint64_t digest(const Bytes& bytes);

}  // namespace bp::ccl::cases

#endif
