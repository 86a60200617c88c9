// SPDX-License-Identifier: Apache-2.0
//
// The geometry of a col2im.
#ifndef BACKPLANE_OPS_NN_COL2IM_HPP
#define BACKPLANE_OPS_NN_COL2IM_HPP

#include <optional>

#include "backplane/ops/nn.h"
#include "ops/nn/window.hpp"

namespace bp::ops {

/// Element k of the block at position b is added to element b * stride + k * dilation - begin of
/// the image, if that is there.
struct Blocks {
  bool is_known = false;  // else sizes of image and kernel are unknown, and there are no counts
  Window window;          // its kernel is the block
  Dims image;
  Dims counts;  // of positions
  int64_t block_size = 1;
  int64_t position_count = 1;
};

/// nullopt: the values of image_shape and block_shape are not known. Errors name input or
/// attribute.
Result<std::optional<Blocks>> resolve_blocks(const InferContext& context);

}  // namespace bp::ops

#endif
