// SPDX-License-Identifier: Apache-2.0
//
// A transposed convolution as its kernels see it: sizes, window and groups, checked against each
// other once, when a plan is made.
#ifndef BACKPLANE_PLUGINS_CPU_CONV_TRANSPOSE_SHAPE_HPP
#define BACKPLANE_PLUGINS_CPU_CONV_TRANSPOSE_SHAPE_HPP

#include "kernel_support.hpp"
#include "window.hpp"

namespace bp::cpu {

struct TransposeShape {
  // in and out are those of x and y. pad_begin is the one that holds; pad_end is what the full
  // output is longer by then, negative where y goes on beyond it.
  Window window;
  int64_t batch = 0;
  int64_t groups = 1;
  int64_t group_in = 0;
  int64_t group_out = 0;
  bool has_bias = false;

  int64_t in_channels() const { return groups * group_in; }
  int64_t out_channels() const { return groups * group_out; }
  bool is_empty() const {
    return batch == 0 || group_in == 0 || group_out == 0 || window.in_count() == 0 ||
           window.out_count() == 0;
  }
  double multiply_add_count() const {
    return static_cast<double>(batch) * static_cast<double>(out_channels()) *
           static_cast<double>(group_in) * static_cast<double>(window.in_count()) *
           static_cast<double>(window.kernel_count());
  }
};

/// Throws Failure (INVALID_ARGUMENT) for sizes that contradict each other, Refusal for more than
/// three spatial dimensions.
TransposeShape make_transpose_shape(const bp_kernel_query& query);

}  // namespace bp::cpu

#endif
