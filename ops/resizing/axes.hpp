// SPDX-License-Identifier: Apache-2.0
//
// A resize as its parts see it: the attributes as values, and what happens along each dimension.
#ifndef BACKPLANE_OPS_RESIZING_AXES_HPP
#define BACKPLANE_OPS_RESIZING_AXES_HPP

#include <vector>

#include "ops/infer/common.hpp"

namespace bp::ops {

enum class ResizeMode { kNearest, kLinear, kCubic };
enum class Coordinates {
  kHalfPixel,
  kHalfPixelSymmetric,
  kPytorchHalfPixel,
  kAlignCorners,
  kAsymmetric,
  kCropAndResize
};
enum class NearestMode { kRoundPreferFloor, kRoundPreferCeil, kFloor, kCeil };
enum class AspectPolicy { kStretch, kNotLarger, kNotSmaller };

struct ResizeAxis {
  int64_t in = kUnknownDim;
  int64_t out = kUnknownDim;
  double scale = 1;  // of no meaning where out is not known
  double begin = 0;  // the part of the axis that is taken: kCropAndResize alone
  double end = 1;
};

struct Resizing {
  ResizeMode mode;
  Coordinates coordinates;
  NearestMode nearest;
  AspectPolicy policy;
  std::vector<ResizeAxis> axes;  // one per dimension of x
};

/// Of a resize whose x has a rank. Errors: INVALID_ARGUMENT naming attribute or input.
Result<Resizing> resolve_resize(const InferContext& context);

}  // namespace bp::ops

#endif
