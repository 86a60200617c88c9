// SPDX-License-Identifier: Apache-2.0
//
// The sticky-error chain of nodes; see steps.hpp.
#include "ops/onnx/steps.hpp"

#include <cstring>

namespace bp::onnx {

ValueId Steps::keep(const Result<ValueId>& result) {
  if (result.ok()) return *result;
  check(result.status());
  return kNoValue;
}

ValueId Steps::op(std::string_view name, std::initializer_list<ValueId> inputs) {
  return op(name, inputs, attributes(name));
}

ValueId Steps::op(std::string_view name, std::initializer_list<ValueId> inputs,
                  Attributes attributes) {
  if (!status_.ok()) return kNoValue;
  return keep(node_->step(name, std::span(inputs.begin(), inputs.size()), std::move(attributes)));
}

Attributes Steps::attributes(std::string_view op) {
  auto found = node_->attributes_of(op);
  if (found.ok()) return *std::move(found);
  check(found.status());
  return {};
}

Attributes Steps::fields(std::string_view op) {
  auto found = node_->fields(op);
  if (found.ok()) return *std::move(found);
  check(found.status());
  return {};
}

ValueId Steps::scalar(uint32_t dtype, double value) {
  if (!status_.ok()) return kNoValue;
  return keep(node_->scalar(dtype, value));
}

ValueId Steps::i64_list(std::span<const int64_t> values) {
  if (!status_.ok()) return kNoValue;
  void* data = nullptr;
  auto tensor =
      HostTensor::allocate(BP_DTYPE_I64, Dims{static_cast<int64_t>(values.size())}, &data);
  if (!tensor.ok()) {
    check(tensor.status());
    return kNoValue;
  }
  if (!values.empty()) std::memcpy(data, values.data(), values.size_bytes());
  return keep(node_->constant(*std::move(tensor)));
}

ValueId Steps::cast(ValueId value, uint32_t dtype) {
  if (!status_.ok() || node_->type(value).dtype == dtype) return value;
  Attributes to = attributes("cast");
  check(to.set_i64("to", dtype));
  return op("cast", {value}, std::move(to));
}

ValueId Steps::reshape(ValueId value, std::span<const int64_t> shape) {
  return op("reshape", {value, i64_list(shape)});
}

ValueId Steps::transpose(ValueId value, std::span<const int64_t> perm) {
  Attributes order = attributes("transpose");
  check(order.set_i64s("perm", perm));
  return op("transpose", {value}, std::move(order));
}

Status Steps::finish(std::vector<ValueId> outputs) {
  BP_TRY(status_);
  return node_->finish(std::move(outputs));
}

}  // namespace bp::onnx
