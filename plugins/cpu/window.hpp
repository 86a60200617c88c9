// SPDX-License-Identifier: Apache-2.0
//
// The geometry that convolution and pooling share: a window that slides over up to three spatial
// dimensions, with strides, dilations and padding.
#ifndef BACKPLANE_PLUGINS_CPU_WINDOW_HPP
#define BACKPLANE_PLUGINS_CPU_WINDOW_HPP

#include <cstdint>
#include <span>

#include "backplane/types.h"

namespace bp::cpu {

inline constexpr uint32_t kMaxSpatialRank = 3;

/// Missing leading dimensions have size 1, so that all loops are for three.
struct Window {
  uint32_t spatial_rank = 0;  // the last spatial_rank entries are real
  int64_t in[kMaxSpatialRank] = {1, 1, 1};
  int64_t out[kMaxSpatialRank] = {1, 1, 1};
  int64_t kernel[kMaxSpatialRank] = {1, 1, 1};
  int64_t stride[kMaxSpatialRank] = {1, 1, 1};
  int64_t dilation[kMaxSpatialRank] = {1, 1, 1};
  int64_t pad_begin[kMaxSpatialRank] = {};
  int64_t pad_end[kMaxSpatialRank] = {};

  int64_t in_count() const { return in[0] * in[1] * in[2]; }
  int64_t out_count() const { return out[0] * out[1] * out[2]; }
  int64_t kernel_count() const { return kernel[0] * kernel[1] * kernel[2]; }
  /// The real dimensions of one of the arrays.
  std::span<const int64_t> real(const int64_t (&values)[kMaxSpatialRank]) const {
    return {values + (kMaxSpatialRank - spatial_rank), spatial_rank};
  }
};

/// As the operators spell them; an empty list is its default.
struct WindowAttributes {
  std::span<const int64_t> strides;
  std::span<const int64_t> pads;  // begins, then ends
  std::span<const int64_t> dilations;
};

/// Sizes are those of the spatial dimensions. Throws Failure (INVALID_ARGUMENT) for lists of a
/// wrong length and for strides, dilations or kernel sizes below 1, Refusal for a rank that is not
/// 1 to 3.
Window make_window(std::span<const int64_t> in, std::span<const int64_t> out,
                   std::span<const int64_t> kernel, const WindowAttributes& attributes);

struct Range {
  int64_t begin;
  int64_t end;  // at or below begin if empty
};

/// The output positions whose input position, at this offset into the window, lies inside the
/// input.
Range valid_outputs(const Window& window, int dimension, int64_t kernel_position);

/// The window offsets whose input position, for this output position, lies inside the input.
Range valid_kernel(const Window& window, int dimension, int64_t out_position);

}  // namespace bp::cpu

#endif
