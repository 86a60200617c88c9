// SPDX-License-Identifier: Apache-2.0
//
// Resize and Upsample. ONNX has roi, scales and sizes in another order, and empty where they are
// not meant.
#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include "core/base/dims.hpp"
#include "ops/onnx/steps.hpp"
#include "ops/onnx/values.hpp"

namespace bp::onnx {
namespace {

/// ONNX's inputs: scales and sizes that have no elements stand for none.
Result<ValueId> given_list(NodeImport* node, size_t index) {
  if (node->input(index) == kNoValue) return kNoValue;
  const TensorType& type = node->input_type(index);
  const bool empty = type.has_rank && type.sizes.size() == 1 && type.sizes[0] == 0;
  if (empty) return kNoValue;
  return list_input(node, index);
}

Status copy_text(const NodeImport& node, std::string_view from, std::string_view to,
                 Attributes* attributes) {
  const AttributeProto* attribute = node.attribute(from);
  return attribute == nullptr ? Status() : attributes->set_str(to, attribute->s);
}

Result<ValueId> as_f32(NodeImport* node, ValueId value, const TensorType& type) {
  if (type.dtype == BP_DTYPE_F32) return value;
  BP_TRY_ASSIGN(Attributes to, node->attributes_of("cast"));
  BP_TRY(to.set_i64("to", BP_DTYPE_F32));
  return node->step("cast", {&value, 1}, std::move(to));
}

}  // namespace

Status convert_resize(NodeImport* node) {
  BP_TRY_ASSIGN(Attributes attributes, node->fields("resize"));
  BP_TRY(copy_text(*node, "mode", "mode", &attributes));
  BP_TRY(copy_text(*node, "nearest_mode", "nearest_mode", &attributes));
  BP_TRY(copy_text(*node, "keep_aspect_ratio_policy", "keep_aspect_ratio_policy", &attributes));
  BP_TRY(copy_text(*node, "coordinate_transformation_mode", "coordinates", &attributes));
  const AttributeProto* coordinates = node->attribute("coordinate_transformation_mode");
  const bool crops = coordinates != nullptr && coordinates->s == "tf_crop_and_resize";
  std::array<ValueId, 4> inputs{node->input(0), kNoValue, kNoValue, kNoValue};
  BP_TRY_ASSIGN(inputs[1], given_list(node, 3));
  BP_TRY_ASSIGN(inputs[2], given_list(node, 2));
  BP_TRY_ASSIGN(const ValueId roi, given_list(node, 1));
  if (crops && roi != kNoValue) {
    BP_TRY_ASSIGN(inputs[3], as_f32(node, roi, node->input_type(1)));
  }
  return node->finish("resize", inputs, std::move(attributes));
}

namespace {

/// Scales that are known while reading; empty: they are not.
std::span<const float> known_scales(const NodeImport& node) {
  const HostTensor* scales = node.input_constant(1);
  if (scales == nullptr || scales->dtype != BP_DTYPE_F32) return {};
  return {static_cast<const float*>(scales->data), scales->bytes / sizeof(float)};
}

/// The scales, each at least 1 ("max") or at most ("min").
Result<ValueId> limited_scales(NodeImport* node, Steps* steps, ValueId given,
                               std::string_view limit) {
  const auto known = known_scales(*node);
  if (known.empty()) return steps->op(limit, {given, steps->scalar(BP_DTYPE_F32, 1)});
  std::vector<float> scales(known.begin(), known.end());
  for (float& scale : scales) {
    scale = limit == "max" ? std::max(scale, 1.0F) : std::min(scale, 1.0F);
  }
  BP_TRY_ASSIGN(HostTensor tensor, list_of(BP_DTYPE_F32, scales));
  return node->constant(std::move(tensor));
}

/// To the nearest below where a dimension grows, above where it shrinks: so has operator set 10's
/// own case it, and ONNX Runtime.
Status convert_nearest_of_10(NodeImport* node) {
  const auto known = known_scales(*node);
  const auto any = [&](auto is_such) {
    return known.empty() || std::any_of(known.begin(), known.end(), is_such);
  };
  const bool shrinks = any([](float scale) { return scale < 1; });
  const bool grows = any([](float scale) { return scale > 1; });
  Steps steps(node);
  ValueId y = node->input(0);
  const auto resize = [&](std::string_view nearest_mode, ValueId scales) {
    Attributes attributes = steps.attributes("resize");
    steps.check(attributes.set_str("coordinates", "asymmetric"));
    steps.check(attributes.set_str("nearest_mode", nearest_mode));
    y = steps.op("resize", {y, kNoValue, scales, kNoValue}, std::move(attributes));
  };
  BP_TRY_ASSIGN(const ValueId scales, list_input(node, 1));
  if (!shrinks) {
    resize("floor", scales);
  } else if (!grows) {
    resize("ceil", scales);
  } else {
    BP_TRY_ASSIGN(const ValueId growing, limited_scales(node, &steps, scales, "max"));
    resize("floor", growing);
    BP_TRY_ASSIGN(const ValueId shrinking, limited_scales(node, &steps, scales, "min"));
    resize("ceil", shrinking);
  }
  return steps.finish({y});
}

}  // namespace

// Before operator set 11 places were worked out by scale alone, and the nearest was the one below
// as long as nothing shrank.
Status convert_resize_of_floor(NodeImport* node) {
  const AttributeProto* mode = node->attribute("mode");
  constexpr int64_t kResize = 10;
  const bool nearest = mode == nullptr || mode->s == "nearest";
  if (nearest && node->rule().since == kResize) return convert_nearest_of_10(node);
  BP_TRY_ASSIGN(Attributes attributes, node->fields("resize"));
  // Upsample called it so where its images are flat.
  const bool linear = mode != nullptr && (mode->s == "bilinear" || mode->s == "trilinear");
  if (linear) {
    BP_TRY(attributes.set_str("mode", "linear"));
  } else {
    BP_TRY(copy_text(*node, "mode", "mode", &attributes));
  }
  BP_TRY(attributes.set_str("coordinates", "asymmetric"));
  BP_TRY(attributes.set_str("nearest_mode", "floor"));
  std::array<ValueId, 4> inputs{node->input(0), kNoValue, kNoValue, kNoValue};
  BP_TRY_ASSIGN(inputs[2], list_input(node, 1));
  if (const AttributeProto* scales = node->attribute("scales")) {
    const Dims sizes{static_cast<int64_t>(scales->floats.size())};
    BP_TRY_ASSIGN(HostTensor tensor, tensor_of<float>(BP_DTYPE_F32, sizes, scales->floats));
    BP_TRY_ASSIGN(inputs[2], node->constant(std::move(tensor)));
  }
  return node->finish("resize", inputs, std::move(attributes));
}

}  // namespace bp::onnx
