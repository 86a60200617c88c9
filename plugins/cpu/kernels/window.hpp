// SPDX-License-Identifier: Apache-2.0
//
// The geometry that convolution and pooling share: a window that slides over up to three spatial
// dimensions, with strides, dilations and padding.
#ifndef BACKPLANE_PLUGINS_CPU_WINDOW_HPP
#define BACKPLANE_PLUGINS_CPU_WINDOW_HPP

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "backplane/device_api.h"
#include "backplane/sdk/kernel.hpp"

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
  /// Steps of the window over one plane, as a cost: at least 1, saturated, since a pooling window
  /// has whatever sizes its attribute says.
  int64_t step_cost() const {
    return std::max<int64_t>(
        1, sdk::saturating_product({out_count(), kernel[0], kernel[1], kernel[2]}));
  }
  /// A negative pad crops the input.
  bool crops() const;
  /// Of any width, on any side.
  bool has_padding() const;
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

/// Which positions fall inside the input and not on padding. Finding out takes divisions, so the
/// first ones are worked out once per plan; sizes that a model claims decide about no memory.
class WindowRanges {
 public:
  explicit WindowRanges(const Window& window);

  /// The outputs along the last dimension that this position of the window serves.
  Range column(int64_t position) const { return look(columns_, position, valid_outputs, 2); }
  /// The positions of the window for this output, along each dimension.
  Range depth(int64_t out) const { return look(depths_, out, valid_kernel, 0); }
  Range row(int64_t out) const { return look(rows_, out, valid_kernel, 1); }
  Range column_of(int64_t out) const { return look(out_columns_, out, valid_kernel, 2); }
  /// All positions of the window along the last dimension that serve any of these outputs, and for
  /// a small window others too.
  Range column_positions(int64_t first_out, int64_t out_count) const {
    if (window_.kernel[2] <= kMostKept) return {0, window_.kernel[2]};
    return {valid_kernel(window_, 2, first_out + out_count - 1).begin,
            valid_kernel(window_, 2, first_out).end};
  }

 private:
  static constexpr int64_t kMostKept = 4096;
  using Find = Range (*)(const Window&, int dimension, int64_t position);
  static Range valid_outputs(const Window& window, int dimension, int64_t kernel_position);
  static Range valid_kernel(const Window& window, int dimension, int64_t out_position);
  Range look(const std::vector<Range>& kept, int64_t position, Find find, int dimension) const {
    const auto index = static_cast<size_t>(position);
    return index < kept.size() ? kept[index] : find(window_, dimension, position);
  }

  Window window_;
  std::vector<Range> columns_;
  std::vector<Range> depths_;
  std::vector<Range> rows_;
  std::vector<Range> out_columns_;
};

/// For supports_slot() of both: ranks only, since sizes may not be known yet.
const char* refused_spatial_rank(const bp_kernel_query& query);

}  // namespace bp::cpu

#endif
