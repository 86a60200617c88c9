// SPDX-License-Identifier: Apache-2.0
//
// Convolution and pooling. auto_pad becomes explicit padding where the sizes are known here, since
// kernels take that as it is; else the operator keeps it.
#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/base/dims.hpp"
#include "ops/onnx/node_import.hpp"

namespace bp::onnx {
namespace {

/// The text of auto_pad; "NOTSET" if it is not there.
std::string_view auto_pad_of(const NodeImport& node) {
  const AttributeProto* attribute = node.attribute("auto_pad");
  return attribute == nullptr ? "NOTSET" : attribute->s;
}

/// One entry for each spatial dimension, ones if the node has none.
Result<std::vector<int64_t>> spatial_list(const NodeImport& node, std::string_view name,
                                          size_t spatial_rank) {
  const auto values = node.i64s(name);
  if (values.empty()) return std::vector<int64_t>(spatial_rank, 1);
  const std::string label = "attribute '" + std::string(name) + "'";
  if (values.size() != spatial_rank) {
    return node.error(BP_INVALID_ARGUMENT, label + ": expected " + std::to_string(spatial_rank) +
                                               " entries, found " + std::to_string(values.size()));
  }
  for (int64_t value : values) {
    if (value >= 1 && value <= std::numeric_limits<int32_t>::max()) continue;
    return node.error(
        BP_INVALID_ARGUMENT,
        label + ": expected entries from 1 to 2147483647, found " + std::to_string(value));
  }
  return std::vector<int64_t>(values.begin(), values.end());
}

/// Begins and ends such that there are ceil(input / stride) windows; an odd rest goes to the end
/// (SAME_UPPER) or the beginning (SAME_LOWER). nullopt: a size that they depend on is not known, or
/// 0, which the operator refuses.
Result<std::optional<std::vector<int64_t>>> same_pads(const NodeImport& node, bool upper,
                                                      const Dims& kernel) {
  const TensorType& input = node.input_type(0);
  const size_t rank = kernel.size();
  BP_TRY_ASSIGN(const auto strides, spatial_list(node, "strides", rank));
  BP_TRY_ASSIGN(const auto dilations, spatial_list(node, "dilations", rank));
  std::vector<int64_t> pads(2 * rank, 0);
  for (size_t i = 0; i < rank; ++i) {
    if (kernel[i] < 1 || kernel[i] > std::numeric_limits<int32_t>::max()) {
      return std::optional<std::vector<int64_t>>();
    }
    const int64_t extent = (kernel[i] - 1) * dilations[i] + 1;
    // From the start of the last window to the input's end: at most a stride, so that no sum here
    // overflows. With stride 1 it does not depend on the input's size.
    int64_t rest = 1;
    if (strides[i] > 1) {
      const bool fits = input.has_rank && input.sizes.size() == rank + 2;
      const int64_t size = fits ? input.sizes[i + 2] : kUnknownDim;
      if (size < 1) return std::optional<std::vector<int64_t>>();
      rest = (size - 1) % strides[i] + 1;
    }
    const int64_t total = std::max<int64_t>(extent - rest, 0);
    pads[i] = upper ? total / 2 : total - total / 2;
    pads[i + rank] = total - pads[i];
  }
  return std::optional(std::move(pads));
}

/// Sets pads, or auto_pad, of our operator. `kernel`: spatial sizes, as many as there are; empty
/// where not even their number is known.
Status resolve_auto_pad(NodeImport* node, const Dims& kernel, Attributes* attributes) {
  const std::string_view mode = auto_pad_of(*node);
  if (mode == "NOTSET" || mode.empty()) return {};
  const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  if (!same && mode != "VALID") {
    return node->error(BP_INVALID_ARGUMENT,
                       "attribute 'auto_pad': expected NOTSET, VALID, SAME_UPPER or SAME_LOWER, "
                       "found '" +
                           std::string(mode) + "'");
  }
  // The standard wants no pads here. Zeros are forgiven, since they change nothing that is meant;
  // onnxruntime takes them too where it pools.
  const auto pads = node->i64s("pads");
  const auto given = std::find_if(pads.begin(), pads.end(), [](int64_t pad) { return pad != 0; });
  if (given != pads.end()) {
    return node->error(BP_INVALID_ARGUMENT, "attribute 'pads': expected none beside auto_pad " +
                                                std::string(mode) + ", found " +
                                                std::to_string(*given));
  }
  if (!pads.empty() && !kernel.empty() && pads.size() != 2 * kernel.size()) {
    return node->error(BP_INVALID_ARGUMENT, "attribute 'pads': expected " +
                                                std::to_string(2 * kernel.size()) +
                                                " entries, found " + std::to_string(pads.size()));
  }
  BP_TRY(attributes->set_i64s("pads", {}));
  if (!same) return {};
  if (kernel.empty()) return attributes->set_str("auto_pad", mode);
  BP_TRY_ASSIGN(const auto resolved, same_pads(*node, mode == "SAME_UPPER", kernel));
  if (resolved) return attributes->set_i64s("pads", *resolved);
  return attributes->set_str("auto_pad", mode);
}

Status check_kernel_shape(const NodeImport& node) {
  const size_t count = node.i64s("kernel_shape").size();
  if (count >= 1 && count + 2 <= BP_MAX_RANK) {
    return as_status(spatial_list(node, "kernel_shape", count));
  }
  return node.error(BP_INVALID_ARGUMENT, "attribute 'kernel_shape': expected 1 to " +
                                             std::to_string(BP_MAX_RANK - 2) + " entries, found " +
                                             std::to_string(count));
}

bool differs(int64_t a, int64_t b) { return is_known(a) && is_known(b) && a != b; }

}  // namespace

namespace {

/// The spatial sizes of w, which the node may state too.
Result<Dims> kernel_of(const NodeImport& node) {
  const TensorType& weights = node.input_type(1);
  Dims kernel;
  for (size_t i = 2; i < weights.sizes.size(); ++i) kernel.push_back(weights.sizes[i]);
  const auto kernel_shape = node.i64s("kernel_shape");
  if (kernel_shape.empty()) return kernel;
  BP_TRY(check_kernel_shape(node));
  const Dims declared(kernel_shape);
  bool equal = !weights.has_rank || declared.size() == kernel.size();
  for (size_t i = 0; equal && i < kernel.size(); ++i) equal = !differs(declared[i], kernel[i]);
  if (equal) return declared;
  return node.error(BP_INVALID_ARGUMENT,
                    "attribute 'kernel_shape': expected that of the weights, " + to_string(kernel) +
                        ", found " + to_string(declared));
}

}  // namespace

Status convert_conv(NodeImport* node) {
  BP_TRY_ASSIGN(Attributes attributes, node->fields("conv"));
  BP_TRY_ASSIGN(const Dims kernel, kernel_of(*node));
  BP_TRY(resolve_auto_pad(node, kernel, &attributes));
  return node->finish("conv", node->inputs(), std::move(attributes));
}

Status convert_conv_transpose(NodeImport* node) {
  BP_TRY_ASSIGN(Attributes attributes, node->fields("conv_transpose"));
  BP_TRY_ASSIGN([[maybe_unused]] const Dims kernel, kernel_of(*node));
  // Some exporters give all sizes of the output, some the spatial ones.
  const auto shape = node->i64s("output_shape");
  const TensorType& x = node->input_type(0);
  if (x.has_rank && !shape.empty() && shape.size() == x.sizes.size()) {
    BP_TRY(attributes.set_i64s("output_shape", shape.subspan(2)));
  }
  return node->finish("conv_transpose", node->inputs(), std::move(attributes));
}

namespace {

Status convert_pool(NodeImport* node, std::string_view op) {
  BP_TRY_ASSIGN(Attributes attributes, node->fields(op));
  const auto kernel_shape = node->i64s("kernel_shape");
  BP_TRY(check_kernel_shape(*node));
  BP_TRY(resolve_auto_pad(node, Dims(kernel_shape), &attributes));
  // The standard's formulas for auto_pad give the same sizes with and without ceil_mode.
  const std::string_view mode = auto_pad_of(*node);
  if (mode != "NOTSET" && !mode.empty()) BP_TRY(attributes.set_i64("ceil_mode", 0));
  if (op == "max_pool_indices") {
    BP_TRY(attributes.set_i64("storage_order", node->i64("storage_order", 0)));
  }
  return node->finish(op, node->inputs(), std::move(attributes));
}

}  // namespace

Status convert_max_pool(NodeImport* node) {
  return convert_pool(node, node->has_output(1) ? "max_pool_indices" : "max_pool");
}

Status convert_lp_pool(NodeImport* node) { return convert_pool(node, "lp_pool"); }

Status convert_average_pool(NodeImport* node) { return convert_pool(node, "average_pool"); }

}  // namespace bp::onnx
