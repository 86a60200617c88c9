// SPDX-License-Identifier: Apache-2.0
//
// Sliding windows, as convolution and pooling share them: the attribute lists checked and with
// their defaults filled in, and the number of windows along a dimension.
#ifndef BACKPLANE_OPS_NN_WINDOW_HPP
#define BACKPLANE_OPS_NN_WINDOW_HPP

#include "ops/infer/common.hpp"

namespace bp::ops {

/// One entry per spatial dimension in each list. Kernel sizes may be unknown.
struct Window {
  Dims kernel;
  Dims strides;
  Dims pads_begin;
  Dims pads_end;
  Dims dilations;
  bool ceil_mode = false;

  /// Elements from the first to the last that a window touches; the kernel's size is known.
  int64_t extent(size_t dim) const { return dilations[dim] * (kernel[dim] - 1) + 1; }
};

/// Errors name the list: a length other than the spatial rank (pads: twice it), an entry out of
/// range. `kernel_name` says where the kernel's sizes come from: "attribute 'kernel_shape'".
Result<Window> resolve_window(const Dims& kernel, std::string_view kernel_name, bp_i64_span strides,
                              bp_i64_span pads, bp_i64_span dilations);

/// How many windows fit along a dimension of an input of this size (which may be unknown).
/// Errors: INVALID_ARGUMENT if none fits.
Result<int64_t> window_count(const Window& window, size_t dim, int64_t input_size);

}  // namespace bp::ops

#endif
