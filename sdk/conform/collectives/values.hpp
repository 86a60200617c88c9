// SPDX-License-Identifier: Apache-2.0
//
// What ranks send, and what their values are together. Values are a function of seed, rank and
// place alone, so that a failure can be repeated. The reference is its own code: integers in 64
// bits, floats in long double.
#ifndef BACKPLANE_SDK_CONFORM_COLLECTIVES_VALUES_HPP
#define BACKPLANE_SDK_CONFORM_COLLECTIVES_VALUES_HPP

#include <cstdint>
#include <span>
#include <string_view>

#include "backplane/collective.h"
#include "sdk/conform/checks.hpp"

namespace bp::conform {

/// Dtypes whose elements are whole bytes: what blocks can be made of.
inline constexpr uint32_t kMovedDtypes[] = {
    BP_DTYPE_BOOL,     BP_DTYPE_I8,     BP_DTYPE_I16,        BP_DTYPE_I32,        BP_DTYPE_I64,
    BP_DTYPE_U8,       BP_DTYPE_U16,    BP_DTYPE_U32,        BP_DTYPE_U64,        BP_DTYPE_F16,
    BP_DTYPE_BF16,     BP_DTYPE_F32,    BP_DTYPE_F64,        BP_DTYPE_C64,        BP_DTYPE_C128,
    BP_DTYPE_F8E4M3FN, BP_DTYPE_F8E5M2, BP_DTYPE_F8E4M3FNUZ, BP_DTYPE_F8E5M2FNUZ, BP_DTYPE_F8E8M0};

/// Integers and floats, whose combination the contract says.
bool can_be_reduced(uint32_t dtype, uint32_t reduction);
bool is_real_float(uint32_t dtype);  // of any width, with a sign
/// "sum".
std::string_view reduction_name(uint32_t reduction);
uint64_t element_bytes(uint32_t dtype);

/// What the elements are like.
enum class Elements {
  kExact,  // floats: whole numbers or powers of two, so that any order gives the same value
  kFull,   // floats: full mantissas
};

/// How ranks' elements are combined.
struct Combination {
  uint32_t dtype;
  uint32_t reduction;
  Elements elements;
  uint32_t rank_count;
};

/// What one rank sends. Integers have all bits.
Bytes make_elements(const Combination& how, uint64_t seed, uint32_t rank, uint64_t count);

/// That `found` is what `sent`, as many elements of each rank, are together: integers bit by bit,
/// floats exactly where each order gives the same, else within a bound for each element: a rounding
/// to the dtype and one in f32 for each hop between ranks, of the sum of what was added.
void expect_combined(Checks& checks, std::string_view what, const Combination& how,
                     std::span<const Bytes> sent, std::span<const std::byte> found);

/// One element as a number. Dtypes: floats of any width.
double load_real(uint32_t dtype, const std::byte* data, uint64_t index);

}  // namespace bp::conform

#endif
