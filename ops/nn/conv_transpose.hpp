// SPDX-License-Identifier: Apache-2.0
//
// The geometry of a conv_transpose.
#ifndef BACKPLANE_OPS_NN_CONV_TRANSPOSE_HPP
#define BACKPLANE_OPS_NN_CONV_TRANSPOSE_HPP

#include "backplane/ops/nn.h"
#include "ops/nn/window.hpp"

namespace bp::ops {

/// Element i of x meets weight k at element i * stride + k * dilation - begin of y.
struct Transposed {
  Window window;  // its pads are those of the attribute, `begin` the ones that hold
  Dims begin;     // may be unknown
  Dims out;       // may be unknown
};

/// x and w: all sizes, of one rank of 3 or more. Errors name an attribute or x.
Result<Transposed> resolve_transposed(const bp_attrs_conv_transpose& attributes, const Dims& x,
                                      const Dims& w);

}  // namespace bp::ops

#endif
