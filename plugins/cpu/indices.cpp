// SPDX-License-Identifier: Apache-2.0
//
// Indices to places. See indices.hpp.
#include "indices.hpp"

#include <atomic>
#include <string>

namespace bp::cpu {
namespace {

template <class I>
void resolve(const FaultReport& report, const IndexRow& row, int64_t begin, int64_t count,
             int64_t first, int64_t step, int64_t* out) noexcept {
  const I* const indices = static_cast<const I*>(row.indices) + begin;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t given = indices[i * row.stride];
    out[i] = first + i * step + index_in_range(report, given, row.extent) * row.scale;
  }
}

}  // namespace

void FaultReport::bad_index(int64_t index, int64_t extent) const noexcept {
  if (word == nullptr) return;
  std::atomic_ref<uint32_t> code(word->code);
  uint32_t expected = BP_FAULT_NONE;
  if (!code.compare_exchange_strong(expected, BP_FAULT_INDEX)) return;
  word->input = input;
  word->op_seq = op_seq;
  word->index = index;
  word->extent = extent;
}

ResolveIndices resolve_indices(uint32_t index_dtype) {
  return index_dtype == BP_DTYPE_I32 ? &resolve<int32_t> : &resolve<int64_t>;
}

uint32_t axis_from_front(const char* op, int64_t axis, uint32_t rank) {
  const int64_t from_front = axis < 0 ? axis + rank : axis;
  if (from_front < 0 || from_front >= rank) {
    throw sdk::Failure{BP_INVALID_ARGUMENT, std::string(op) + ": axis " + std::to_string(axis) +
                                                " of a tensor of rank " + std::to_string(rank)};
  }
  return static_cast<uint32_t>(from_front);
}

}  // namespace bp::cpu
