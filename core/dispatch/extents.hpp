// SPDX-License-Identifier: Apache-2.0
//
// Real sizes of outputs that were made at their upper bound. A kernel writes a row of BP_MAX_RANK
// numbers for each of its outputs.
#ifndef BACKPLANE_CORE_DISPATCH_EXTENTS_HPP
#define BACKPLANE_CORE_DISPATCH_EXTENTS_HPP

#include <cstdint>
#include <vector>

#include "core/runtime/tensor.hpp"

namespace bp {

/// The rows of a launch's outputs.
class Extents {
 public:
  /// Reads `count` rows behind the stream's work so far, and waits. `made`: a storage that the
  /// launch wrote, whose data faults are told here, since sizes are the first that the host reads
  /// of what they concern. `*out_seq` as in copy_out().
  Status read(Stream& stream, bp_mem place, size_t count, Storage& made, uint64_t* out_seq);
  /// The part of a tensor that output `row` really has. `sure`: sizes that no values change, -1
  /// for the others; one of those at most is below the bound. Errors: INTERNAL for sizes that
  /// cannot be.
  Result<Ref<Tensor>> narrow(const Tensor& bound, size_t row, const Dims& sure) const;

 private:
  std::vector<int64_t> sizes_;
};

}  // namespace bp

#endif
