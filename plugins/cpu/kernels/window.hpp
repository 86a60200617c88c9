// SPDX-License-Identifier: Apache-2.0
//
// The geometry that convolution and pooling share: a window that slides over up to three spatial
// dimensions, with strides, dilations and padding.
#ifndef BACKPLANE_PLUGINS_CPU_WINDOW_HPP
#define BACKPLANE_PLUGINS_CPU_WINDOW_HPP

#include <cstdint>
#include <span>
#include <vector>

#include "backplane/device_api.h"

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
  /// A negative pad crops the input.
  bool crops() const;
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

/// Which positions fall inside the input and not on padding, worked out once per plan: finding out
/// takes divisions.
struct WindowRanges {
  explicit WindowRanges(const Window& window);

  /// Per position of the window along the last dimension: the outputs that it serves.
  std::vector<Range> columns;
  /// Per output position along the first and the second dimension: the positions of the window.
  std::vector<Range> depths;
  std::vector<Range> rows;
};

/// For supports_slot() of both: ranks only, since sizes may not be known yet.
const char* refused_spatial_rank(const bp_kernel_query& query);

}  // namespace bp::cpu

#endif
