// SPDX-License-Identifier: Apache-2.0
//
// Constant values in host memory.
#ifndef BACKPLANE_CORE_OP_HOST_TENSOR_HPP
#define BACKPLANE_CORE_OP_HOST_TENSOR_HPP

#include <cstdint>
#include <memory>

#include "backplane/types.h"
#include "core/base/dims.hpp"
#include "core/base/mapped_file.hpp"
#include "core/base/status.hpp"

namespace bp {

/// Contiguous values in host memory, shared and immutable: a weight in a mapped file, a folded
/// constant, an attribute's tensor. `owner` keeps `data` alive. Large weights in a file may lie at
/// any address (is_aligned); whatever reads elements by their type copies those first.
struct HostTensor {
  uint32_t dtype = BP_DTYPE_NONE;
  Dims sizes;
  const void* data = nullptr;
  uint64_t bytes = 0;
  std::shared_ptr<const void> owner;
  const MappedFile* file = nullptr;  // where the values lie, if in one; `owner` keeps it

  /// Whether `data` is a multiple of the element's size.
  bool is_aligned() const;
  /// The same values at an address that is.
  Result<HostTensor> aligned() const;
  /// Gives back the memory of values that lie in a file and are not wanted soon.
  void release_pages() const {
    if (file != nullptr) file->release(data, bytes);
  }

  /// A zero-filled tensor of its own; data is writable through `out_data` until it is shared.
  /// Errors: INVALID_ARGUMENT for sizes that overflow; OUT_OF_MEMORY.
  static Result<HostTensor> allocate(uint32_t dtype, const Dims& sizes, void** out_data);
  /// Foreign values: INVALID_ARGUMENT naming a bool that is neither 0 nor 1.
  Status check_values() const;
};

/// What check_values() says of `count` elements of dtype bool, the first of which has this index.
Status check_bools(const uint8_t* values, int64_t count, int64_t index);

}  // namespace bp

#endif
