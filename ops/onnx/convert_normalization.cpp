// SPDX-License-Identifier: Apache-2.0
//
// Normalizations whose ONNX form is not ours: outputs that only training reads, parameters of
// another dtype than the data, and groups as they were before operator set 21.
#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "core/base/dims.hpp"
#include "core/base/dtype.hpp"
#include "ops/onnx/steps.hpp"
#include "ops/onnx/values.hpp"

namespace bp::onnx {
namespace {

struct Moments {
  ValueId mean;
  ValueId inverse_deviation;
};

ValueId mean_over(Steps& steps, ValueId value, std::span<const int64_t> axes, int64_t count,
                  uint32_t dtype) {
  Attributes attributes = steps.attributes("reduce_sum");
  steps.check(attributes.set_i64s("axes", axes));
  const ValueId sum = steps.op("reduce_sum", {value}, std::move(attributes));
  const double share = count == 0 ? 0.0 : 1.0 / static_cast<double>(count);
  return steps.op("mul", {sum, steps.scalar(dtype, share)});
}

/// The outputs Mean and InvStdDev, which are f32 as stash_type 1 has them.
Result<Moments> moments_of(NodeImport* node, Steps& steps) {
  const TensorType type = node->input_type(0);  // by value: adding nodes moves the graph's types
  const auto rank = static_cast<int64_t>(type.sizes.size());
  const int64_t given = node->i64("axis", -1);
  const int64_t first = given < 0 ? given + rank : given;
  if (!type.has_rank || first < 0 || first >= rank) {
    return node->error(
        BP_UNSUPPORTED,
        "the outputs of moments need an input whose rank is known and has the axis " +
            std::to_string(given));
  }
  const auto reduced =
      std::span(type.sizes.data(), type.sizes.size()).subspan(static_cast<size_t>(first));
  if (!std::all_of(reduced.begin(), reduced.end(), is_known)) {
    return node->error(BP_UNSUPPORTED, "the outputs of moments need known sizes from axis " +
                                           std::to_string(given) + " on, found " +
                                           to_string(type.sizes));
  }
  std::vector<int64_t> axes(reduced.size());
  std::iota(axes.begin(), axes.end(), first);
  const int64_t count = element_count(reduced);
  const ValueId x = steps.cast(node->input(0), BP_DTYPE_F32);
  const ValueId mean = mean_over(steps, x, axes, count, BP_DTYPE_F32);
  const ValueId deviation = steps.op("sub", {x, mean});
  const ValueId variance =
      mean_over(steps, steps.op("mul", {deviation, deviation}), axes, count, BP_DTYPE_F32);
  const AttributeProto* epsilon = node->attribute("epsilon");
  const double shift = epsilon == nullptr ? double{1e-5f} : double{epsilon->f};
  const ValueId shifted = steps.op("add", {variance, steps.scalar(BP_DTYPE_F32, shift)});
  return Moments{mean, steps.op("reciprocal", {steps.op("sqrt", {shifted})})};
}

}  // namespace

Status convert_layer_norm(NodeImport* node) {
  BP_TRY_ASSIGN(Attributes attributes, node->fields("layer_norm"));
  if (!node->has_output(1) && !node->has_output(2)) {
    return node->finish("layer_norm", node->inputs(), std::move(attributes));
  }
  Steps steps(node);
  const ValueId y = steps.op("layer_norm", {node->input(0), node->input(1), node->input(2)},
                             std::move(attributes));
  BP_TRY(steps.status());
  BP_TRY_ASSIGN(const Moments moments, moments_of(node, steps));
  return steps.finish({y, moments.mean, moments.inverse_deviation});
}

// From operator set 14 on, statistics and parameters may have other dtypes than the data.
Status convert_batch_norm(NodeImport* node) {
  BP_TRY_ASSIGN(Attributes attributes, node->fields("batch_norm"));
  const uint32_t of_x = node->input_type(0).dtype;
  uint32_t work = of_x;
  for (size_t i = 0; i < node->inputs().size(); ++i) {
    const uint32_t dtype = node->input_type(i).dtype;
    BP_TRY(node->check_dtype("batch_norm", i, "input " + std::to_string(i), dtype));
    work = widest_float({work, dtype});
  }
  if (std::ranges::all_of(node->inputs(),
                          [&](ValueId input) { return node->type(input).dtype == of_x; })) {
    return node->finish("batch_norm", node->inputs(), std::move(attributes));
  }
  Steps steps(node);
  const auto wide = [&](size_t i) { return steps.cast(node->input(i), work); };
  const ValueId y =
      steps.op("batch_norm", {wide(0), wide(1), wide(2), wide(3), wide(4)}, std::move(attributes));
  return steps.finish({steps.cast(y, of_x)});
}

// The result has the dtype of scale. Where that of x is another one, both are widened first.
Status convert_rms_norm(NodeImport* node) {
  const uint32_t of_x = node->input_type(0).dtype;
  const uint32_t of_scale = node->input_type(1).dtype;
  BP_TRY(node->check_dtype("rms_norm", 0, "input 0", of_x));
  BP_TRY(node->check_dtype("rms_norm", 1, "input 1", of_scale));
  BP_TRY_ASSIGN(Attributes attributes, node->fields("rms_norm"));
  if (of_x == of_scale) return node->finish("rms_norm", node->inputs(), std::move(attributes));
  const uint32_t work = widest_float({of_x, of_scale});
  Steps steps(node);
  const ValueId y =
      steps.op("rms_norm", {steps.cast(node->input(0), work), steps.cast(node->input(1), work)},
               std::move(attributes));
  return steps.finish({steps.cast(y, of_scale)});
}

// Before operator set 21 scale and bias had one value per group; ours have one per channel.
Status convert_group_norm_of_groups(NodeImport* node) {
  BP_TRY_ASSIGN(Attributes attributes, node->fields("group_norm"));
  const TensorType x = node->input_type(0);
  const int64_t groups = node->i64("num_groups", 0);
  const int64_t channels = x.has_rank && x.sizes.size() > 1 ? x.sizes[1] : kUnknownDim;
  if (groups < 1) {
    return node->error(BP_INVALID_ARGUMENT, "attribute 'num_groups': expected 1 or more, found " +
                                                std::to_string(groups));
  }
  if (!is_known(channels) || channels % groups != 0) {
    return node->error(BP_UNSUPPORTED, "input 0 ('X'): expected a known multiple of " +
                                           std::to_string(groups) + " channels (dimension 1)");
  }
  Steps steps(node);
  // [G, 1] * [1, C / G] ones repeats each value for the channels of its group.
  const std::vector<int64_t> column = {groups, 1};
  const std::vector<int64_t> list = {channels};
  const int64_t repeats = channels / groups;
  void* data = nullptr;
  BP_TRY_ASSIGN(HostTensor ones, HostTensor::allocate(BP_DTYPE_F32, Dims{1, repeats}, &data));
  std::fill_n(static_cast<float*>(data), repeats, 1.0f);
  BP_TRY_ASSIGN(const ValueId row, node->constant(std::move(ones)));
  const auto repeated = [&](ValueId value) {
    const ValueId product =
        steps.op("mul", {steps.reshape(value, column), steps.cast(row, x.dtype)});
    return steps.reshape(product, list);
  };
  const ValueId scale = repeated(node->input(1));
  const ValueId bias = repeated(node->input(2));
  BP_TRY(steps.status());
  const ValueId inputs[] = {node->input(0), scale, bias};
  return node->finish("group_norm", inputs, std::move(attributes));
}

}  // namespace bp::onnx
