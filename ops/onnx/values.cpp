// SPDX-License-Identifier: Apache-2.0
//
// Constants of converters; see values.hpp.
#include "ops/onnx/values.hpp"

#include <algorithm>
#include <utility>

#include "core/base/dtype.hpp"
#include "ops/onnx/steps.hpp"

namespace bp::onnx {

std::string input_label(size_t index, std::string_view name) {
  return "input " + std::to_string(index) + " ('" + std::string(name) + "')";
}

Result<std::vector<int64_t>> constant_list(const NodeImport& node, size_t index,
                                           std::string_view name) {
  const HostTensor* tensor = node.input_constant(index);
  const std::string label = input_label(index, name);
  if (tensor == nullptr) {
    return node.error(BP_UNSUPPORTED, label + " is not a constant; only constants are supported");
  }
  if (tensor->dtype != BP_DTYPE_I64 || tensor->sizes.size() > 1) {
    return node.error(BP_INVALID_ARGUMENT, label + ": expected a list of i64, found " +
                                               std::string(dtype_name(tensor->dtype)) +
                                               to_string(tensor->sizes));
  }
  std::vector<int64_t> values(tensor->bytes / sizeof(int64_t));
  if (!values.empty()) std::memcpy(values.data(), tensor->data, tensor->bytes);
  return values;
}

uint32_t widest_float(std::initializer_list<uint32_t> dtypes) {
  const uint32_t first = *dtypes.begin();
  if (std::ranges::count(dtypes, first) == std::ranges::ssize(dtypes)) return first;
  return std::ranges::count(dtypes, BP_DTYPE_F64) > 0 ? BP_DTYPE_F64 : BP_DTYPE_F32;
}

Result<ValueId> list_input(NodeImport* node, size_t index) {
  const ValueId given = node->input(index);
  if (given == kNoValue) return given;
  const TensorType& type = node->input_type(index);
  if (!type.has_rank || !type.sizes.empty()) return given;
  if (const HostTensor* constant = node->input_constant(index)) {
    HostTensor list = *constant;
    list.sizes = {1};
    return node->constant(std::move(list));
  }
  Steps steps(node);
  constexpr int64_t kOne[] = {1};
  const ValueId list = steps.reshape(given, kOne);
  BP_TRY(steps.status());
  return list;
}

Result<ValueId> index_input(NodeImport* node, size_t index) {
  const ValueId given = node->input(index);
  if (given == kNoValue || node->input_type(index).dtype != BP_DTYPE_I32) return given;
  const HostTensor* constant = node->input_constant(index);
  if (constant == nullptr) {
    BP_TRY_ASSIGN(Attributes to, node->attributes_of("cast"));
    BP_TRY(to.set_i64("to", BP_DTYPE_I64));
    return node->step("cast", {&given, 1}, std::move(to));
  }
  const std::span<const int32_t> narrow(static_cast<const int32_t*>(constant->data),
                                        constant->bytes / sizeof(int32_t));
  const std::vector<int64_t> values(narrow.begin(), narrow.end());
  BP_TRY_ASSIGN(HostTensor tensor, tensor_of<int64_t>(BP_DTYPE_I64, constant->sizes, values));
  return node->constant(std::move(tensor));
}

}  // namespace bp::onnx
