// SPDX-License-Identifier: Apache-2.0
//
// Operators that choose or sort elements, where their ONNX form is not ours.
#include <utility>

#include "ops/onnx/node_import.hpp"
#include "ops/onnx/values.hpp"

namespace bp::onnx {
namespace {

Result<ValueId> one_number(NodeImport* node, int64_t value) {
  BP_TRY_ASSIGN(HostTensor tensor, list_of(BP_DTYPE_I64, std::vector<int64_t>{value}));
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
    BP_TRY_ASSIGN(const ValueId shape, one_number(node, -1));
    const ValueId arguments[] = {x, shape};
    BP_TRY_ASSIGN(x, node->step("reshape", arguments));
  }
  const ValueId inputs[] = {x, node->input(1)};
  return node->finish("compress", inputs, std::move(attributes));
}

/// Numbers of any dtype are indices and depths, of which only whole ones mean anything.
Status convert_one_hot(NodeImport* node) {
  BP_TRY_ASSIGN(Attributes attributes, node->fields("one_hot"));
  std::vector<ValueId> inputs(node->inputs().begin(), node->inputs().end());
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const uint32_t dtype = node->input_type(i).dtype;
    BP_TRY(node->check_number(i));
    if (dtype == BP_DTYPE_I64 || (i == 0 && dtype == BP_DTYPE_I32)) continue;
    BP_TRY_ASSIGN(Attributes to, node->attributes_of("cast"));
    BP_TRY(to.set_i64("to", BP_DTYPE_I64));
    BP_TRY_ASSIGN(inputs[i], node->step("cast", {&inputs[i], 1}, std::move(to)));
  }
  return node->finish("one_hot", inputs, std::move(attributes));
}

/// The axis may be i32.
Status convert_scan(NodeImport* node) {
  BP_TRY_ASSIGN(Attributes attributes, node->fields(node->rule().op));
  BP_TRY_ASSIGN(const ValueId axis, index_input(node, 1));
  const ValueId inputs[] = {node->input(0), axis};
  return node->finish(node->rule().op, inputs, std::move(attributes));
}

/// Before operator set 10 k was an attribute.
Status convert_top_k_of_attribute(NodeImport* node) {
  if (node->attribute("k") == nullptr) {
    return node->error(BP_INVALID_ARGUMENT, "attribute 'k' is missing");
  }
  BP_TRY_ASSIGN(Attributes attributes, node->fields("top_k"));
  BP_TRY_ASSIGN(const ValueId k, one_number(node, node->i64("k", 0)));
  const ValueId inputs[] = {node->input(0), k};
  return node->finish("top_k", inputs, std::move(attributes));
}

}  // namespace bp::onnx
