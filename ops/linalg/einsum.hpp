// SPDX-License-Identifier: Apache-2.0
//
// The equation of einsum, with the ellipses written out for the ranks of a call. Private to ops.
#ifndef BACKPLANE_OPS_LINALG_EINSUM_HPP
#define BACKPLANE_OPS_LINALG_EINSUM_HPP

#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "ops/infer/common.hpp"

namespace bp::ops {

/// A letter, or a dimension of an ellipsis.
using EinsumLabel = int;

struct EinsumPlan {
  std::vector<std::vector<EinsumLabel>> operands;
  std::vector<EinsumLabel> output;
  std::map<EinsumLabel, int64_t> sizes;  // broadcast over the operands
  bool has_rank = true;  // false: how many dimensions the ellipsis of the output has is not known
};
/// Errors: attribute_error for the equation, input_error for ranks and sizes that do not fit it.
Result<EinsumPlan> plan_einsum(std::string_view equation, std::span<const TensorType> inputs);

}  // namespace bp::ops

#endif
