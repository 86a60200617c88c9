// SPDX-License-Identifier: Apache-2.0
//
// Inference of resize; see axes.hpp.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "backplane/ops/resizing.h"
#include "ops/resizing/axes.hpp"

namespace bp::ops {
namespace {

constexpr size_t kX = 0;
constexpr size_t kSizes = 1;
constexpr size_t kScales = 2;
constexpr size_t kRoi = 3;
// A size that is made: sums and products of places stay exact in doubles.
constexpr int64_t kMaxSize = std::numeric_limits<int32_t>::max();

template <class Value, size_t N>
Result<Value> value_of(std::string_view attribute, bp_str text,
                       const std::array<std::pair<std::string_view, Value>, N>& known) {
  const std::string_view given(text.ptr, text.len);
  std::string names;
  for (const auto& [name, value] : known) {
    if (name == given) return value;
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  return attribute_error(attribute,
                         expected_found("one of " + names, "'" + std::string(given) + "'"));
}

Result<Resizing> resolve_attributes(const bp_attrs_resize& attributes) {
  using namespace std::literals;
  Resizing result{};
  BP_TRY_ASSIGN(result.mode, value_of("mode", attributes.mode,
                                      std::array{std::pair{"nearest"sv, ResizeMode::kNearest},
                                                 std::pair{"linear"sv, ResizeMode::kLinear},
                                                 std::pair{"cubic"sv, ResizeMode::kCubic}}));
  BP_TRY_ASSIGN(
      result.coordinates,
      value_of("coordinates", attributes.coordinates,
               std::array{std::pair{"half_pixel"sv, Coordinates::kHalfPixel},
                          std::pair{"half_pixel_symmetric"sv, Coordinates::kHalfPixelSymmetric},
                          std::pair{"pytorch_half_pixel"sv, Coordinates::kPytorchHalfPixel},
                          std::pair{"align_corners"sv, Coordinates::kAlignCorners},
                          std::pair{"asymmetric"sv, Coordinates::kAsymmetric},
                          std::pair{"tf_crop_and_resize"sv, Coordinates::kCropAndResize}}));
  BP_TRY_ASSIGN(
      result.nearest,
      value_of("nearest_mode", attributes.nearest_mode,
               std::array{std::pair{"round_prefer_floor"sv, NearestMode::kRoundPreferFloor},
                          std::pair{"round_prefer_ceil"sv, NearestMode::kRoundPreferCeil},
                          std::pair{"floor"sv, NearestMode::kFloor},
                          std::pair{"ceil"sv, NearestMode::kCeil}}));
  BP_TRY_ASSIGN(result.policy,
                value_of("keep_aspect_ratio_policy", attributes.keep_aspect_ratio_policy,
                         std::array{std::pair{"stretch"sv, AspectPolicy::kStretch},
                                    std::pair{"not_larger"sv, AspectPolicy::kNotLarger},
                                    std::pair{"not_smaller"sv, AspectPolicy::kNotSmaller}}));
  if (attributes.antialias != 0 && result.mode == ResizeMode::kNearest) {
    return attribute_error("antialias", expected_found("none beside mode nearest", "true"));
  }
  if (!std::isfinite(attributes.cubic_coeff_a)) {
    return attribute_error(
        "cubic_coeff_a",
        expected_found("a finite number", std::to_string(attributes.cubic_coeff_a)));
  }
  return result;
}

/// The dimensions that sizes, scales and roi are about, in their order.
Result<std::vector<size_t>> resized_dims(bp_i64_span axes, size_t rank) {
  std::vector<size_t> dims;
  if (axes.count == 0) {
    for (size_t i = 0; i < rank; ++i) dims.push_back(i);
    return dims;
  }
  BP_TRY(resolve_axes("axes", values(axes), rank));
  for (int64_t axis : values(axes)) {
    BP_TRY_ASSIGN(const size_t dim, resolve_axis("axes", axis, rank));
    dims.push_back(dim);
  }
  return dims;
}

bool is_given(const InferContext& context, size_t index) {
  return index < context.inputs.size() && context.inputs[index].dtype != BP_DTYPE_NONE;
}

/// The values of a host input, `count` of them; nullptr: not known yet.
Result<const void*> host_list(const InferContext& context, size_t index, std::string_view name,
                              size_t count) {
  BP_TRY_ASSIGN(const Dims sizes, sizes_of_rank(name, context.inputs[index], 1));
  if (is_known(sizes[0]) && sizes[0] != static_cast<int64_t>(count)) {
    return input_error(name, expected_found(std::to_string(count) + " values", sizes[0]));
  }
  return context.host_data[index];
}

Status check_made(int64_t size, const ResizeAxis& axis) {
  if (axis.in == 0 && size > 0) {
    return input_error(
        "x", "an axis of size 0 has nothing to make " + std::to_string(size) + " elements of");
  }
  return {};
}

Status apply_sizes(const int64_t* sizes, const std::vector<size_t>& dims, Resizing* resizing) {
  bool all_known = true;
  double one_scale = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    ResizeAxis& axis = resizing->axes[dims[i]];
    if (sizes[i] < 0 || (sizes[i] > kMaxSize && sizes[i] != axis.in)) {
      return input_error("sizes",
                         expected_found("values from 0 to " + std::to_string(kMaxSize), sizes[i]));
    }
    BP_TRY(check_made(sizes[i], axis));
    axis.out = sizes[i];
    all_known = all_known && is_known(axis.in);
    axis.scale = axis.in > 0 ? static_cast<double>(sizes[i]) / static_cast<double>(axis.in) : 1;
    const bool better = resizing->policy == AspectPolicy::kNotLarger ? axis.scale < one_scale
                                                                     : axis.scale > one_scale;
    if (i == 0 || better) one_scale = axis.scale;
  }
  if (resizing->policy == AspectPolicy::kStretch) return {};
  for (const size_t dim : dims) {
    ResizeAxis& axis = resizing->axes[dim];
    axis.scale = one_scale;
    axis.out = kUnknownDim;
    if (!all_known) continue;
    const double size = std::floor(one_scale * static_cast<double>(axis.in) + 0.5);
    if (size > static_cast<double>(kMaxSize)) {
      return input_error("sizes", "one scale for all axes makes a size of " + std::to_string(size));
    }
    axis.out = static_cast<int64_t>(size);
  }
  return {};
}

Status apply_scales(const float* scales, const std::vector<size_t>& dims, Resizing* resizing) {
  for (size_t i = 0; i < dims.size(); ++i) {
    ResizeAxis& axis = resizing->axes[dims[i]];
    if (!(scales[i] > 0) || !std::isfinite(scales[i])) {
      return input_error("scales",
                         expected_found("finite values above 0", std::to_string(scales[i])));
    }
    axis.scale = double{scales[i]};
    if (scales[i] == 1.0f) continue;
    axis.out = kUnknownDim;
    if (!is_known(axis.in)) continue;
    const float size = std::floor(static_cast<float>(axis.in) * scales[i]);
    if (!(size <= static_cast<float>(kMaxSize))) {
      return input_error("scales", "a size of " + std::to_string(axis.in) + " times " +
                                       std::to_string(scales[i]) + " is too large");
    }
    axis.out = std::min(static_cast<int64_t>(size), kMaxSize);
  }
  return {};
}

Status apply_roi(const InferContext& context, const std::vector<size_t>& dims, Resizing* resizing) {
  if (resizing->coordinates != Coordinates::kCropAndResize) return {};
  if (!is_given(context, kRoi)) {
    return input_error("roi", expected_found("a list beside tf_crop_and_resize", "none"));
  }
  BP_TRY_ASSIGN(const void* data, host_list(context, kRoi, "roi", 2 * dims.size()));
  if (data == nullptr) return {};
  const auto* roi = static_cast<const float*>(data);
  for (size_t i = 0; i < 2 * dims.size(); ++i) {
    if (!std::isfinite(roi[i])) {
      return input_error("roi", expected_found("finite values", std::to_string(roi[i])));
    }
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    resizing->axes[dims[i]].begin = double{roi[i]};
    resizing->axes[dims[i]].end = double{roi[dims.size() + i]};
  }
  return {};
}

}  // namespace

Result<Resizing> resolve_resize(const InferContext& context) {
  const auto& attributes = attrs<bp_attrs_resize>(context.attributes);
  BP_TRY_ASSIGN(Resizing result, resolve_attributes(attributes));
  const Dims& x = context.inputs[kX].sizes;
  for (int64_t size : x) result.axes.push_back({.in = size, .out = size});
  BP_TRY_ASSIGN(const auto dims, resized_dims(attributes.axes, x.size()));
  const bool by_sizes = is_given(context, kSizes);
  if (by_sizes == is_given(context, kScales)) {
    return input_error("sizes",
                       expected_found("either sizes or scales", by_sizes ? "both" : "neither"));
  }
  BP_TRY_ASSIGN(const void* list, host_list(context, by_sizes ? kSizes : kScales,
                                            by_sizes ? "sizes" : "scales", dims.size()));
  if (list == nullptr) {
    for (const size_t dim : dims) result.axes[dim].out = kUnknownDim;
  } else if (by_sizes) {
    BP_TRY(apply_sizes(static_cast<const int64_t*>(list), dims, &result));
  } else {
    BP_TRY(apply_scales(static_cast<const float*>(list), dims, &result));
  }
  BP_TRY(apply_roi(context, dims, &result));
  return result;
}

Status infer_resize(const InferContext& context, std::span<TensorType> out_types) {
  if (!context.inputs[kX].has_rank) {
    BP_TRY(resolve_attributes(attrs<bp_attrs_resize>(context.attributes)));
    unknown_rank(&out_types[0]);
    return {};
  }
  BP_TRY_ASSIGN(const Resizing resizing, resolve_resize(context));
  for (const ResizeAxis& axis : resizing.axes) out_types[0].sizes.push_back(axis.out);
  return {};
}

}  // namespace bp::ops
