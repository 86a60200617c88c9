// SPDX-License-Identifier: Apache-2.0
//
// Known values: see known_values.hpp.
#include "core/plan/known_values.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/base/log.hpp"

namespace bp {
namespace {

/// What is worked out for one plan, and what it is worked out from. Shapes, positions and masks are
/// smaller; weights are larger, and folded once for all plans if at all.
constexpr uint64_t kMostKnownBytes = 64 << 10;

}  // namespace

KnownValues::KnownValues(const PlanRequest& request) : request_(request) {
  for (const auto& [value, tensor] : request.host_values) {
    found_.emplace(value, std::make_shared<const HostTensor>(tensor));
  }
}

std::shared_ptr<const HostTensor> KnownValues::find(ValueId value) const {
  if (const auto& constant = request_.graph.value(value).constant) return constant;
  const auto found = found_.find(value);
  return found == found_.end() ? nullptr : found->second;
}

bool KnownValues::may_know(const Node& node) const {
  const OpSchema& schema = request_.graph.registry().schema(node.op);
  if (schema.of_types) return true;
  if (!request_.fold || node.inputs.empty() || !node.regions.empty()) return false;
  bool is_derived = false;  // from a plan's own values; what constants make is folded, or too large
  uint64_t bytes = 0;
  for (const ValueId input : node.inputs) {
    if (input == kNoValue) continue;
    const auto known = find(input);
    if (known == nullptr) return false;
    bytes += known->bytes;
    is_derived = is_derived || request_.graph.value(input).constant == nullptr;
  }
  return is_derived && bytes <= kMostKnownBytes;
}

Result<std::vector<HostTensor>> KnownValues::outputs_of(
    const Node& node, std::span<const TensorType> input_types) const {
  const OpRegistry& registry = request_.graph.registry();
  const OpSchema& schema = registry.schema(node.op);
  std::vector<std::shared_ptr<const HostTensor>> known;
  std::vector<const HostTensor*> inputs;
  std::vector<const void*> host_data;
  for (const ValueId input : node.inputs) {
    known.push_back(input == kNoValue ? nullptr : find(input));
    inputs.push_back(known.back().get());
    host_data.push_back(known.back() == nullptr ? nullptr : known.back()->data);
  }
  const InferContext context = {input_types, host_data, node.attributes.data()};
  if (schema.of_types) return value_of_types(registry, node.op, context);
  std::vector<TensorType> types;
  BP_TRY(infer_types(schema, context, &types));
  for (const TensorType& type : types) {
    const bool is_small =
        type.has_rank && all_known(type.sizes) &&
        dtype_storage_bytes(type.dtype, element_count(type.sizes)) <= kMostKnownBytes;
    if (!is_small) return Status(BP_UNSUPPORTED, "its output is too large to be kept by a plan");
  }
  return request_.fold(node, inputs);
}

bool KnownValues::work_out(const Node& node, std::span<const TensorType> input_types) {
  auto outputs = outputs_of(node, input_types);
  if (outputs.ok() && outputs->size() != node.outputs.size()) return false;
  if (!outputs.ok()) {
    log(BP_LOG_DEBUG, "node '" + node.name +
                          "' is not worked out while planning: " + outputs.status().to_string());
    return false;
  }
  for (size_t i = 0; i < outputs->size(); ++i) {
    if (node.outputs[i] == kNoValue) continue;
    found_[node.outputs[i]] = std::make_shared<const HostTensor>(std::move((*outputs)[i]));
  }
  return true;
}

}  // namespace bp
