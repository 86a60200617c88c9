// SPDX-License-Identifier: Apache-2.0
//
// The window that convolutions and pools slide over up to three spatial dimensions.
#ifndef BACKPLANE_PLUGINS_XPU_KERNELS_WINDOW_HPP
#define BACKPLANE_PLUGINS_XPU_KERNELS_WINDOW_HPP

#include "kernels/geometry.h"
#include "kernels/kernel.hpp"

namespace bp::xpu {

/// As the operators spell them; an empty list is its default.
struct WindowLists {
  bp_i64_span strides;
  bp_i64_span pads;  // begins, then ends
  bp_i64_span dilations;
};

/// Over the dimensions of x and y behind the first two; `extents` are the window's own sizes.
/// Throws sdk::Failure for lists of a wrong length and for sizes below 1, sdk::Refusal for a rank
/// of x that is not 3 to 5.
Window make_window(const bp_arg_info& x, const bp_arg_info& y, bp_i64_span extents,
                   const WindowLists& lists);

/// The strides of images, channels, and three dimensions, of which missing ones have stride 0.
void copy_strides(const bp_arg_info& info, BP_XPU_I64 (&out)[5]);

}  // namespace bp::xpu

#endif
