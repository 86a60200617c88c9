// SPDX-License-Identifier: Apache-2.0
//
// Which inputs of a model are indices, and into what. An index that is out of range would be a data
// fault, and one value for all would read one row over and over, which no real input does.
#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>

#include "core/cli/run_inputs.hpp"

namespace bp::cli {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

std::optional<int64_t> number_attribute(const OpSchema& schema, const Node& node,
                                        std::string_view name) {
  for (const AttrField& field : schema.attrs) {
    if (field.name != name || field.type != AttrType::kI64) continue;
    int64_t value = 0;
    const auto* members = static_cast<const std::byte*>(node.attributes.data());
    std::memcpy(&value, members + field.offset_bytes, sizeof(value));
    return value;
  }
  return std::nullopt;
}

/// What indices of the node point into: its first input along `axis`, or along any axis.
int64_t indexed_extent(const Graph& graph, const Node& node) {
  const TensorType& type = graph.value(node.inputs[0]).type;
  if (!type.has_rank) return 1;
  int64_t least = kNoLimit;
  const auto rank = static_cast<int64_t>(type.sizes.size());
  auto axis = number_attribute(graph.registry().schema(node.op), node, "axis");
  if (axis && *axis < 0) *axis += rank;
  for (int64_t d = 0; d < rank; ++d) {
    if (!axis || d == *axis) least = std::min(least, type.sizes[static_cast<size_t>(d)]);
  }
  return least == kNoLimit ? 1 : std::max<int64_t>(least, 1);
}

bool keeps_integers(const OpSchema& schema) {
  return schema.view != nullptr || schema.name == "cast" || schema.name == "identity";
}

}  // namespace

InputLimits index_limits(const Graph& graph) {
  std::vector<int64_t> limits(graph.values().size(), kNoLimit);
  for (size_t i = graph.nodes().size(); i-- > 0;) {  // from the uses back to the inputs
    const Node& node = graph.nodes()[i];
    const OpSchema& schema = graph.registry().schema(node.op);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const ValueId input = node.inputs[k];
      if (input == kNoValue) continue;
      int64_t limit = kNoLimit;
      if (schema.input(k).name == "indices" && k > 0) limit = indexed_extent(graph, node);
      const bool passes_on = k == 0 && keeps_integers(schema) && node.outputs[0] != kNoValue;
      if (passes_on) limit = std::min(limit, limits[node.outputs[0]]);
      limits[input] = std::min(limits[input], limit);
    }
  }
  InputLimits found;
  for (const ValueId input : graph.inputs()) {
    if (limits[input] != kNoLimit) found.emplace(graph.value(input).name, limits[input]);
  }
  return found;
}

}  // namespace bp::cli
