// SPDX-License-Identifier: Apache-2.0
//
// Inference of quantization: the output has the sizes of x, and the parameters must fit them.
#include <string>

#include "backplane/ops/quantization.h"
#include "ops/infer/common.hpp"

namespace bp::ops {
namespace {

constexpr std::string_view kNames[] = {"x", "scale", "zero_point"};

bool is_one(const Dims& sizes) { return sizes.empty() || (sizes.size() == 1 && sizes[0] == 1); }

/// Blocks along a dimension, the last of which may be shorter; no sum here overflows.
int64_t block_count(int64_t length, int64_t block) {
  return length / block + (length % block != 0 ? 1 : 0);
}

/// Of one element for each block along `axis`.
Status check_blocks(std::string_view name, const Dims& sizes, const Dims& x, size_t axis,
                    int64_t block) {
  bool fits = sizes.size() == x.size();
  for (size_t i = 0; fits && i < x.size(); ++i) {
    int64_t wanted = x[i];
    if (i == axis) wanted = is_known(wanted) ? block_count(wanted, block) : kUnknownDim;
    fits = unify(sizes[i], &wanted);
  }
  if (fits) return {};
  return input_error(
      name, expected_found("an element for every " + std::to_string(block) + " along axis " +
                               std::to_string(axis) + " of " + to_string(x),
                           sizes));
}

Status check_parameter(std::string_view name, const TensorType& parameter, const TensorType& x,
                       int64_t axis, int64_t block) {
  if (parameter.dtype == BP_DTYPE_NONE || !parameter.has_rank || is_one(parameter.sizes)) return {};
  if (!x.has_rank) return {};
  BP_TRY_ASSIGN(const size_t index, resolve_axis("axis", axis, x.sizes.size()));
  if (block > 0) return check_blocks(name, parameter.sizes, x.sizes, index, block);
  if (parameter.sizes.size() == 1) {
    int64_t size = x.sizes[index];
    if (unify(parameter.sizes[0], &size)) return {};
  }
  return input_error(name, expected_found("one element, or one for each of axis " +
                                              std::to_string(index) + " of " + to_string(x.sizes),
                                          parameter.sizes));
}

Status infer_quantization(const InferContext& context, int64_t axis, int64_t block,
                          TensorType* out_type) {
  if (block < 0) return attribute_error("block_size", expected_found("0 or more", block));
  const TensorType& x = context.inputs[0];
  for (size_t i = 1; i < context.inputs.size(); ++i) {
    BP_TRY(check_parameter(kNames[i], context.inputs[i], x, axis, block));
  }
  same_sizes(x, out_type);
  return {};
}

}  // namespace

Status infer_quantize_linear(const InferContext& context, std::span<TensorType> out_types) {
  const auto& attributes = attrs<bp_attrs_quantize_linear>(context.attributes);
  return infer_quantization(context, attributes.axis, attributes.block_size, &out_types[0]);
}

Status infer_dequantize_linear(const InferContext& context, std::span<TensorType> out_types) {
  const auto& attributes = attrs<bp_attrs_dequantize_linear>(context.attributes);
  return infer_quantization(context, attributes.axis, attributes.block_size, &out_types[0]);
}

}  // namespace bp::ops
