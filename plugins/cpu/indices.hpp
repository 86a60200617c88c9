// SPDX-License-Identifier: Apache-2.0
//
// What kernels do with indices that a model brings: count negative ones from the end, clamp those
// that are out of range, so that none makes a kernel touch what is not its own, and report the
// first bad one through the fault word.
#ifndef BACKPLANE_PLUGINS_CPU_INDICES_HPP
#define BACKPLANE_PLUGINS_CPU_INDICES_HPP

#include <algorithm>
#include <cstdint>

#include "kernel_support.hpp"

namespace bp::cpu {

/// Where the bad indices of one launch are told.
struct FaultReport {
  bp_fault_word* word;  // nullptr: the launch has none
  uint64_t op_seq;
  uint32_t input;  // which holds the indices

  static FaultReport of(const bp_launch_args& args, uint32_t input) {
    return {args.fault.handle == 0 ? nullptr : address_of<bp_fault_word>(args.fault), args.op_seq,
            input};
  }
  /// The first of several bad indices, on whichever thread, wins the word.
  void bad_index(int64_t index, int64_t extent) const noexcept;
};

/// From the front and in range; 0 where the extent is 0, whose caller must not use it.
inline int64_t index_in_range(const FaultReport& report, int64_t given, int64_t extent) noexcept {
  const int64_t index = given < 0 ? given + extent : given;
  if (index >= 0 && index < extent) [[likely]]
    return index;
  report.bad_index(given, extent);
  return std::clamp<int64_t>(index, 0, std::max<int64_t>(extent - 1, 0));
}

/// Indices next to each other, or `stride` apart, each of a dimension of `extent` whose elements
/// lie `scale` apart.
struct IndexRow {
  const void* indices;
  int64_t stride;
  int64_t extent;
  int64_t scale;
};

/// out[i] = first + i * step + index * scale, for `count` indices from element `begin` on.
using ResolveIndices = void (*)(const FaultReport& report, const IndexRow& row, int64_t begin,
                                int64_t count, int64_t first, int64_t step, int64_t* out) noexcept;
/// For an index dtype, i32 or i64.
ResolveIndices resolve_indices(uint32_t index_dtype);

/// How many places kernels resolve at a time.
inline constexpr int64_t kPlaceBlock = 256;

/// The axis of an attribute, counted from the front. Throws sdk::Failure.
uint32_t axis_from_front(const char* op, int64_t axis, uint32_t rank);

}  // namespace bp::cpu

#endif
