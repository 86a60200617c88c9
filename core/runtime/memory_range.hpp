// SPDX-License-Identifier: Apache-2.0
//
// Where a tensor's elements lie, to tell whether two tensors share memory.
#ifndef BACKPLANE_CORE_RUNTIME_MEMORY_RANGE_HPP
#define BACKPLANE_CORE_RUNTIME_MEMORY_RANGE_HPP

#include <cstdint>

#include "core/runtime/tensor.hpp"

namespace bp {

/// The bytes from the first to behind the last element.
struct MemoryRange {
  uint64_t handle = 0;  // 0: begin and end are addresses; else they count from the handle's memory
  uint64_t begin = 0;
  uint64_t end = 0;
};
/// Of sizes and strides that were checked before.
MemoryRange memory_range(const Tensor& tensor);

/// True if some byte lies in the ranges of both, as far as the core can tell from handles: memory
/// that was wrapped twice is one only where handles are addresses.
bool may_overlap(const Tensor& a, const Tensor& b);

}  // namespace bp

#endif
