// SPDX-License-Identifier: Apache-2.0
//
// Sliding windows, as convolution and pooling share them: the attribute lists checked and with
// their defaults filled in, and the number of windows along a dimension.
#ifndef BACKPLANE_OPS_NN_WINDOW_HPP
#define BACKPLANE_OPS_NN_WINDOW_HPP

#include <initializer_list>
#include <optional>
#include <vector>

#include "ops/infer/common.hpp"

namespace bp::ops {

enum class AutoPad { kNone, kValid, kSameUpper, kSameLower };

/// One entry per spatial dimension in each list. Kernel sizes may be unknown.
struct Window {
  Dims kernel;
  Dims strides;
  Dims pads_begin;
  Dims pads_end;
  Dims dilations;
  bool ceil_mode = false;
  AutoPad auto_pad = AutoPad::kNone;

  /// Elements from the first to the last that a window touches; the kernel's size is known.
  int64_t extent(size_t dim) const { return dilations[dim] * (kernel[dim] - 1) + 1; }
};

/// The attributes that all operators with windows have.
struct WindowLists {
  bp_i64_span strides;
  bp_i64_span pads;
  bp_i64_span dilations;
  bp_str auto_pad;
};

/// Errors name the list: a length other than the spatial rank (pads: twice it), an entry out of
/// range, pads beside auto_pad. `kernel_name` says where the kernel's sizes come from: "attribute
/// 'kernel_shape'".
Result<Window> resolve_window(const Dims& kernel, std::string_view kernel_name,
                              const WindowLists& lists);
/// ... for the attribute kernel_shape of pooling. Errors: too, a length that no rank has.
Result<Window> resolve_pool_window(bp_i64_span kernel_shape, bool ceil_mode,
                                   const WindowLists& lists);

/// How many windows fit along a dimension of an input of this size (which may be unknown).
/// Errors: INVALID_ARGUMENT if none fits.
Result<int64_t> window_count(const Window& window, size_t dim, int64_t input_size);

/// Appends the number of windows along each spatial dimension of x [N, C, spatial...].
Status push_window_counts(const Window& window, const Dims& x, Dims* out_sizes);

/// Begins and ends of the padding, with auto_pad worked out: SAME makes size / stride windows,
/// rounded up. nullopt: it depends on a size that is not known.
std::optional<std::vector<int64_t>> explicit_pads(const Window& window, const Dims& x);

/// The decomposition of an operator with windows over its first input: the same one with pads in
/// place of auto_pad. Errors: UNSUPPORTED without auto_pad, and where sizes are not known.
Status decompose_auto_pad(const InferContext& context, std::string_view op_name,
                          std::initializer_list<std::string_view> input_names, const Window& window,
                          GraphBuilder* graph);

}  // namespace bp::ops

#endif
