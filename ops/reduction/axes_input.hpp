// SPDX-License-Identifier: Apache-2.0
//
// What inference, decomposition and oracle of `reduce` share: its axes, which are an input.
#ifndef BACKPLANE_OPS_REDUCTION_AXES_INPUT_HPP
#define BACKPLANE_OPS_REDUCTION_AXES_INPUT_HPP

#include <cstdint>
#include <span>
#include <string_view>

#include "backplane/ops/reduction.h"
#include "core/base/status.hpp"
#include "core/op/schema.hpp"

namespace bp::ops {

inline constexpr std::string_view kReductions[] = {
    "reduce_l1",   "reduce_l2",  "reduce_log_sum", "reduce_log_sum_exp", "reduce_max",
    "reduce_mean", "reduce_min", "reduce_prod",    "reduce_sum",         "reduce_sum_square"};

struct AxesInput {
  bool is_known = false;
  int64_t count = 0;  // below 0: not known
  std::span<const int64_t> values;
  /// No dimension is reduced: each element is, alone.
  bool is_noop(const bp_attrs_reduce& attributes) const {
    return is_known && values.empty() && attributes.noop_with_empty_axes != 0;
  }
};

/// Errors: INVALID_ARGUMENT for axes of another rank than 1, or too many.
Result<AxesInput> axes_input(const InferContext& context);

/// Which dimensions of so many the axes mean; an empty list means all.
/// Errors: INVALID_ARGUMENT for an axis that is none, or stands there twice.
Result<uint32_t> reduced_dimensions(const AxesInput& axes, size_t rank);

}  // namespace bp::ops

#endif
