// SPDX-License-Identifier: Apache-2.0
//
// Windows that slide over one to three spatial dimensions, for convolution and pools. Fewer than
// three are seen as three, the first ones of size 1.
#ifndef BACKPLANE_PLUGINS_NPU_KERNELS_WINDOW_HPP
#define BACKPLANE_PLUGINS_NPU_KERNELS_WINDOW_HPP

#include <array>
#include <cstdint>
#include <string_view>

#include "kernels/launch.hpp"

namespace bp::npu {

inline constexpr uint32_t kMaxSpatial = 3;
using Spatial = std::array<int64_t, kMaxSpatial>;

inline int64_t volume(const Spatial& sizes) { return sizes[0] * sizes[1] * sizes[2]; }

/// Sizes of the dimensions from the third on.
Spatial spatial_sizes(const Tensor& tensor);

/// The first and the end of the taps of a window, in one dimension, that lie in a range.
struct Taps {
  int64_t first;
  int64_t end;
};

struct Window {
  Spatial kernel{1, 1, 1};
  Spatial strides{1, 1, 1};
  Spatial dilations{1, 1, 1};
  Spatial begins{};  // padding
  Spatial ends{};

  /// Where in x a tap of the window of output `out` lies.
  int64_t place(size_t d, int64_t out, int64_t tap) const {
    return out * strides[d] - begins[d] + tap * dilations[d];
  }
  /// Those that lie in [0, size).
  Taps taps_within(size_t d, int64_t out, int64_t size) const {
    return {first_tap_at(d, out, 0), first_tap_at(d, out, size)};
  }

 private:
  int64_t first_tap_at(size_t d, int64_t out, int64_t place_in_x) const;
};

/// Calls visit(index, plane, position) for each element of y: its number, that of its plane, and
/// where in the plane it lies.
template <class Visit>
void for_each_window(const Tensor& y, const Visit& visit) {
  const Spatial out = spatial_sizes(y);
  for (int64_t i = 0; i < y.element_count(); ++i) {
    const int64_t at = i % volume(out);
    visit(i, i / volume(out), Spatial{at / out[2] / out[1], at / out[2] % out[1], at % out[2]});
  }
}

/// The attributes of a convolution or pool whose x has this rank. Throws Failure for what does not
/// fit it.
template <class Attributes>
Window read_window(std::string_view op, const Attributes& attributes, uint32_t rank);

/// For supports: the reason against any other number of spatial dimensions.
const char* refuse_spatial_rank(const bp_kernel_query& query);

/// ... what read_window() is made of: `count` values of an attribute from `first` on, of
/// `expected_count`, at the end of `out`; an empty one changes nothing.
struct SpatialAttribute {
  std::string_view op;
  std::string_view name;
  bp_i64_span values;
  uint32_t expected_count;

  void read(uint32_t first, uint32_t count, Spatial* out) const;
};
/// Throws Failure unless kernel, strides and dilations are 1 or more.
void check_window(std::string_view op, const Window& window);
/// ... and the rank is that of a tensor of images.
uint32_t spatial_rank(std::string_view op, uint32_t rank);

template <class Attributes>
Window read_window(std::string_view op, const Attributes& attributes, uint32_t rank) {
  const uint32_t count = spatial_rank(op, rank);
  Window window;
  if constexpr (requires { attributes.kernel_shape; }) {
    SpatialAttribute{op, "kernel_shape", attributes.kernel_shape, count}.read(0, count,
                                                                              &window.kernel);
  }
  SpatialAttribute{op, "strides", attributes.strides, count}.read(0, count, &window.strides);
  SpatialAttribute{op, "dilations", attributes.dilations, count}.read(0, count, &window.dilations);
  const SpatialAttribute pads{op, "pads", attributes.pads, 2 * count};
  pads.read(0, count, &window.begins);
  pads.read(count, count, &window.ends);
  check_window(op, window);
  return window;
}

}  // namespace bp::npu

#endif
