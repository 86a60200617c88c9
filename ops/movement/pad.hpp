// SPDX-License-Identifier: Apache-2.0
//
// What pad adds and takes away, for its inference and its decomposition. Private to ops/movement.
#ifndef BACKPLANE_OPS_MOVEMENT_PAD_HPP
#define BACKPLANE_OPS_MOVEMENT_PAD_HPP

#include <cstdint>
#include <string_view>

#include "ops/infer/common.hpp"

namespace bp::ops {

struct PadPlan {
  bool is_known = false;  // begins and ends are
  bool has_axes = false;  // `padded` says which dimensions are; else any may be
  uint32_t padded = 0;    // bit i: dimension i
  Dims begins;            // one per dimension; below 0: so many are taken away
  Dims ends;
};
/// Reads the inputs of pad, for an x of this rank. Errors: input_error, attribute_error.
Result<PadPlan> read_pads(const InferContext& context, size_t rank);

/// The place in a dimension of `size` (above 0) elements that a place outside stands for.
int64_t padded_place(std::string_view mode, int64_t place, int64_t size);

}  // namespace bp::ops

#endif
