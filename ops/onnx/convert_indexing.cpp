// SPDX-License-Identifier: Apache-2.0
//
// Operators that choose or sort elements, where their ONNX form is not ours.
#include <cstring>
#include <utility>

#include "ops/onnx/node_import.hpp"

namespace bp::onnx {
namespace {

/// A constant of one i64: of rank 1, or of rank 0.
Result<ValueId> one_number(NodeImport* node, int64_t value, const Dims& sizes) {
  void* memory = nullptr;
  BP_TRY_ASSIGN(HostTensor tensor, HostTensor::allocate(BP_DTYPE_I64, sizes, &memory));
  std::memcpy(memory, &value, sizeof(value));
  return node->constant(std::move(tensor));
}

}  // namespace

/// Without an axis the elements count as one list.
Status convert_compress(NodeImport* node) {
  BP_TRY_ASSIGN(Attributes attributes, node->fields("compress"));
  ValueId x = node->input(0);
  if (node->attribute("axis") != nullptr) {
    BP_TRY(attributes.set_i64("axis", node->i64("axis", 0)));
  } else {
    BP_TRY_ASSIGN(const ValueId shape, one_number(node, -1, {1}));
    const ValueId arguments[] = {x, shape};
    BP_TRY_ASSIGN(x, node->step("reshape", arguments));
  }
  const ValueId inputs[] = {x, node->input(1)};
  return node->finish("compress", inputs, std::move(attributes));
}

}  // namespace bp::onnx
