// SPDX-License-Identifier: Apache-2.0
//
// Losses, which models keep that were exported with them: what is picked of each class's score.
#include <string>
#include <vector>

#include "ops/infer/common.hpp"
#include "ops/onnx/steps.hpp"

namespace bp::onnx {
namespace {

constexpr size_t kClasses = 1;  // the dimension of the scores

enum class Reduction { kNone, kSum, kMean };

Result<Reduction> reduction_of(const NodeImport& node) {
  const AttributeProto* found = node.attribute("reduction");
  const std::string_view name = found == nullptr ? "mean" : found->s;
  if (name == "none") return Reduction::kNone;
  if (name == "sum") return Reduction::kSum;
  if (name == "mean") return Reduction::kMean;
  return node.error(
      BP_INVALID_ARGUMENT,
      "attribute 'reduction': expected none, sum or mean, found '" + std::string(name) + "'");
}

ValueId sum_of(Steps& steps, ValueId value) {
  Attributes attributes = steps.attributes("reduce_sum");
  steps.check(attributes.set_i64("keepdims", 0));
  return steps.op("reduce_sum", {value}, std::move(attributes));
}

/// Scores [N, classes, d...] and targets [N, d...], as far as sizes are known.
Status check_targets(const NodeImport& node) {
  const TensorType scores = node.input_type(0);
  const TensorType targets = node.input_type(1);
  if (!scores.has_rank || !targets.has_rank) return {};
  bool fits = scores.sizes.size() == targets.sizes.size() + 1 && scores.sizes.size() > kClasses;
  for (size_t i = 0; fits && i < targets.sizes.size(); ++i) {
    int64_t size = targets.sizes[i];
    fits = ops::unify(scores.sizes[i < kClasses ? i : i + 1], &size);
  }
  if (fits) return {};
  return node.error(BP_INVALID_ARGUMENT,
                    "input 1: expected the sizes of input 0, " + to_string(scores.sizes) +
                        ", without its dimension 1, found " + to_string(targets.sizes));
}

/// -weight[target] * log_probability[target], and the sum of the weights for the mean.
Result<ValueId> loss_of(NodeImport* node, Steps& steps, ValueId log_probability) {
  BP_TRY_ASSIGN(const Reduction reduction, reduction_of(*node));
  BP_TRY(check_targets(*node));
  const uint32_t dtype = node->input_type(0).dtype;
  const ValueId target = node->input(1);
  const uint32_t target_dtype = node->input_type(1).dtype;
  ValueId counts = steps.op("equal", {target, target});
  if (const AttributeProto* ignored = node->attribute("ignore_index")) {
    const ValueId index = steps.scalar(target_dtype, static_cast<double>(ignored->i));
    counts = steps.op("logical_not", {steps.op("equal", {target, index})});
  }
  const ValueId classes = steps.op("where", {counts, target, steps.scalar(target_dtype, 0)});
  const int64_t axis[] = {int64_t{kClasses}};
  const ValueId axes = steps.i64_list(axis);
  Attributes along = steps.attributes("gather_elements");
  steps.check(along.set_i64("axis", int64_t{kClasses}));
  const ValueId picked = steps.op(
      "squeeze",
      {steps.op("gather_elements", {log_probability, steps.op("unsqueeze", {classes, axes})},
                std::move(along)),
       axes});
  const ValueId given = node->input(2);
  ValueId weight = steps.scalar(dtype, 1);
  if (given != kNoValue) weight = steps.op("gather", {given, classes});
  weight = steps.op("where", {counts, weight, steps.scalar(dtype, 0)});
  const ValueId loss = steps.op("neg", {steps.op("mul", {picked, weight})});
  if (reduction == Reduction::kNone) return loss;
  const ValueId sum = sum_of(steps, loss);
  if (reduction == Reduction::kSum) return sum;
  return steps.op("div", {sum, sum_of(steps, weight)});
}

}  // namespace

Status convert_nll_loss(NodeImport* node) {
  Steps steps(node);
  BP_TRY_ASSIGN(const ValueId loss, loss_of(node, steps, node->input(0)));
  return steps.finish({loss});
}

Status convert_cross_entropy_loss(NodeImport* node) {
  Steps steps(node);
  Attributes along = steps.attributes("log_softmax");
  steps.check(along.set_i64("axis", int64_t{kClasses}));
  const ValueId log_probability = steps.op("log_softmax", {node->input(0)}, std::move(along));
  BP_TRY_ASSIGN(const ValueId loss, loss_of(node, steps, log_probability));
  std::vector<ValueId> outputs = {loss};
  if (node->output_count() > 1) outputs.push_back(log_probability);
  return steps.finish(std::move(outputs));
}

}  // namespace bp::onnx
