// SPDX-License-Identifier: Apache-2.0
//
// The sticky-error builder of decompositions; see builder.hpp.
#include "ops/decompose/builder.hpp"

#include <cstring>
#include <numeric>
#include <string>
#include <utility>

namespace bp::ops {

Builder::Builder(const InferContext& context, std::initializer_list<std::string_view> input_names,
                 GraphBuilder* graph)
    : context_(context), graph_(graph) {
  const auto* name = input_names.begin();
  for (const TensorType& type : context.inputs) {
    const bool absent = type.dtype == BP_DTYPE_NONE;
    // Those of a variadic input behind its first have no name.
    const std::string_view own = name == input_names.end() ? std::string_view() : *name++;
    inputs_.push_back(absent ? kNoValue : keep(graph->add_input(own, type)));
  }
}

ValueId Builder::keep(const Result<ValueId>& result) {
  if (result.ok()) return *result;
  check(result.status());
  return kNoValue;
}

ValueId Builder::op(std::string_view name, std::initializer_list<ValueId> inputs) {
  return op(name, inputs, attributes(name));
}

ValueId Builder::op(std::string_view name, std::initializer_list<ValueId> inputs,
                    Attributes attributes) {
  return op(name, std::span(inputs.begin(), inputs.size()), std::move(attributes));
}

ValueId Builder::op(std::string_view name, std::span<const ValueId> inputs, Attributes attributes) {
  if (!status_.ok()) return kNoValue;
  return keep(graph_->op(name, inputs, std::move(attributes)));
}

ValueId Builder::op_of_inputs(std::string_view name, Attributes attributes) {
  return op(name, std::span<const ValueId>(inputs_), std::move(attributes));
}

std::vector<ValueId> Builder::op_outputs(std::string_view name,
                                         std::initializer_list<ValueId> inputs,
                                         Attributes attributes) {
  const auto op = graph_->registry().find(name);
  std::vector<ValueId> outputs(op ? graph_->registry().schema(*op).outputs.size() : 1, kNoValue);
  if (!status_.ok()) return outputs;
  auto added =
      graph_->op_outputs(name, std::span(inputs.begin(), inputs.size()), std::move(attributes));
  if (added.ok()) return *std::move(added);
  check(added.status());
  return outputs;
}

ValueId Builder::scalar(uint32_t dtype, double value) {
  if (!status_.ok()) return kNoValue;
  return keep(graph_->add_scalar(dtype, value));
}

ValueId Builder::constant(HostTensor tensor) {
  if (!status_.ok()) return kNoValue;
  return keep(graph_->add_constant("", std::move(tensor)));
}

ValueId Builder::cast(ValueId value, uint32_t dtype) {
  if (!status_.ok() || graph_->type(value).dtype == dtype) return value;
  Attributes to = attributes("cast");
  check(to.set_i64("to", dtype));
  return op("cast", {value}, std::move(to));
}

ValueId Builder::reshape(ValueId value, std::span<const int64_t> shape) {
  return op("reshape", {value, list(shape)});
}

ValueId Builder::reduce_axis(std::string_view name, ValueId value, int64_t axis) {
  Attributes reduction = attributes(name);
  check(reduction.set_i64s("axes", {&axis, 1}));
  check(reduction.set_i64("keepdims", 1));
  return op(name, {value}, std::move(reduction));
}

ValueId Builder::integers(const Dims& sizes, std::span<const int64_t> values) {
  if (!status_.ok()) return kNoValue;
  void* data = nullptr;
  auto tensor = HostTensor::allocate(BP_DTYPE_I64, sizes, &data);
  check(tensor.ok() ? Status() : tensor.status());
  if (!status_.ok()) return kNoValue;
  if (!values.empty()) std::memcpy(data, values.data(), values.size_bytes());
  return keep(graph_->add_constant("", std::move(*tensor)));
}

std::vector<int64_t> Builder::counted(int64_t count) {
  constexpr int64_t kMostCounted = 1 << 23;  // 64 MiB
  if (count > kMostCounted) {
    check({BP_UNSUPPORTED, "decomposition: a dimension of " + std::to_string(count) +
                               " is too large for a list of its places"});
  }
  std::vector<int64_t> values(status_.ok() ? static_cast<size_t>(count) : 0);
  std::iota(values.begin(), values.end(), int64_t{0});
  return values;
}

ValueId Builder::integer(int64_t value) { return integers({}, {&value, 1}); }

ValueId Builder::list(std::span<const int64_t> values) {
  return integers({static_cast<int64_t>(values.size())}, values);
}

Attributes Builder::attributes(std::string_view op_name) {
  const auto op = graph_->registry().find(op_name);
  if (op) return Attributes(graph_->registry().schema(*op));
  check({BP_INTERNAL, "decomposition: operator " + std::string(op_name) + " is not registered"});
  return {};
}

Status Builder::finish(ValueId output) { return finish(std::vector{output}); }

Status Builder::finish(std::vector<ValueId> outputs) {
  BP_TRY(status_);
  std::vector<std::string> names = {"y"};
  for (size_t i = 1; i < outputs.size(); ++i) names.push_back("y" + std::to_string(i));
  return graph_->set_outputs(std::move(outputs), std::move(names));
}

}  // namespace bp::ops
