// SPDX-License-Identifier: Apache-2.0
//
// Which elements a slice takes, for its inference and its view. Private to ops/movement.
#ifndef BACKPLANE_OPS_MOVEMENT_SLICE_HPP
#define BACKPLANE_OPS_MOVEMENT_SLICE_HPP

#include <array>
#include <cstdint>

#include "ops/infer/common.hpp"

namespace bp::ops {

/// What is asked for in one dimension, as it was given.
struct Range {
  int64_t start = 0;
  int64_t end = INT64_MAX;
  int64_t step = 1;
};

/// ... and what that is: elements start, start + step, ..., `size` of them.
struct Cut {
  int64_t start;
  int64_t size;
};
/// For a dimension of known size.
Cut cut(const Range& range, int64_t size);

struct SlicePlan {
  bool is_known = false;  // the ranges are
  bool has_axes = false;  // `sliced` says which dimensions are; else any may be
  uint32_t sliced = 0;    // bit i: dimension i
  std::array<Range, BP_MAX_RANK> ranges = {};  // of the dimensions
};
/// Reads the inputs of slice, for an x of this rank. Errors: input_error.
Result<SlicePlan> read_slice(const InferContext& context, size_t rank);

}  // namespace bp::ops

#endif
