// SPDX-License-Identifier: Apache-2.0
//
// A convolution as all of its kernels see it: sizes, window and groups, checked against each other
// once, when a plan is made. And the plain loops, for a kernel that meets what it cannot do.
#ifndef BACKPLANE_PLUGINS_CPU_CONV_SHAPE_HPP
#define BACKPLANE_PLUGINS_CPU_CONV_SHAPE_HPP

#include <algorithm>

#include "kernel_support.hpp"
#include "window.hpp"

namespace bp::cpu {

/// Floats of a vector of any instruction set: rows that kernels lay out for vectors are multiples.
inline constexpr int64_t kWidestVector = 16;

struct ConvShape {
  Window window;
  int64_t batch = 0;
  int64_t groups = 1;
  int64_t in_channels = 0;   // of all groups
  int64_t out_channels = 0;  // of all groups
  bool has_bias = false;
  bool has_addend = false;

  int64_t group_in() const { return in_channels / groups; }
  int64_t group_out() const { return out_channels / groups; }
  bool is_empty() const {
    return batch == 0 || in_channels == 0 || out_channels == 0 || window.in_count() == 0 ||
           window.out_count() == 0;
  }
  double multiply_add_count() const {
    return static_cast<double>(batch) * static_cast<double>(out_channels) *
           static_cast<double>(group_in()) * static_cast<double>(window.out_count()) *
           static_cast<double>(window.kernel_count());
  }
};

struct ConvLoopPlan : bp_kernel_plan {
  explicit ConvLoopPlan(const ConvShape& plan_shape)
      : shape(plan_shape),
        ranges(plan_shape.window),
        plane_cost(sdk::saturating_product(
            {plan_shape.window.step_cost(), std::max<int64_t>(1, plan_shape.group_in())})) {}

  ConvShape shape;
  WindowRanges ranges;
  int64_t plane_cost;
};

/// All of y in plain loops on this thread, in f32.
void convolve_in_loops(const ConvLoopPlan& plan, const bp_launch_args& args);

/// For supports_slot() of kernels that know auto_pad: they leave it to the operator, and more
/// spatial dimensions than three to others.
const char* refused_conv(const bp_kernel_query& query);

/// Throws Failure (INVALID_ARGUMENT) for sizes that contradict each other, Refusal for more than
/// three spatial dimensions.
ConvShape make_conv_shape(const bp_kernel_query& query);

}  // namespace bp::cpu

#endif
