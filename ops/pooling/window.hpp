// SPDX-License-Identifier: Apache-2.0
//
// The window of a pooling operator, from the attributes that all of them have.
#ifndef BACKPLANE_OPS_POOLING_WINDOW_HPP
#define BACKPLANE_OPS_POOLING_WINDOW_HPP

#include "ops/nn/window.hpp"

namespace bp::ops {

template <class Attrs>
Result<Window> pool_window(const Attrs& attributes) {
  return resolve_pool_window(attributes.kernel_shape, attributes.ceil_mode != 0,
                             {.strides = attributes.strides,
                              .pads = attributes.pads,
                              .dilations = attributes.dilations,
                              .auto_pad = attributes.auto_pad});
}

}  // namespace bp::ops

#endif
