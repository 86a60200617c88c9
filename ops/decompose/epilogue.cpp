// SPDX-License-Identifier: Apache-2.0
//
// Epilogues as graphs; see epilogue.hpp.
#include "ops/decompose/epilogue.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/op/attribute_fields.hpp"
#include "ops/infer/epilogue.hpp"

namespace bp::ops {
namespace {

const AttrField* find_field(const OpSchema& schema, std::string_view name) {
  const auto found = std::find_if(schema.attrs.begin(), schema.attrs.end(),
                                  [&](const AttrField& field) { return field.name == name; });
  return found == schema.attrs.end() ? nullptr : &*found;
}

std::optional<size_t> find_input(const OpSchema& schema, std::string_view name) {
  const auto found = std::find_if(schema.inputs.begin(), schema.inputs.end(),
                                  [&](const ArgSchema& input) { return input.name == name; });
  if (found == schema.inputs.end()) return std::nullopt;
  return static_cast<size_t>(found - schema.inputs.begin());
}

Activation read_activation(const OpSchema& schema, const void* attributes) {
  const FieldReader reader(attributes);
  return {reader.str(*find_field(schema, "activation")),
          reader.f64(*find_field(schema, "activation_alpha")),
          reader.f64(*find_field(schema, "activation_beta"))};
}

/// A parameter of the reader, which is an attribute of it or a constant of one element.
std::optional<double> parameter(const AbsorbContext& context, std::string_view name) {
  if (name.empty()) return 0;
  if (const AttrField* field = find_field(context.reader, name)) {
    return FieldReader(context.reader_call.attributes).f64(*field);
  }
  const size_t index = *find_input(context.reader, name);
  const TensorType& type = context.reader_call.inputs[index];
  const void* value = context.reader_call.host_data[index];
  const bool is_number = value != nullptr && type.has_rank && element_count(type.sizes) == 1;
  if (!is_number || type.sizes.size() > context.output.sizes.size()) return std::nullopt;
  if (type.dtype == BP_DTYPE_F64) return *static_cast<const double*>(value);
  if (type.dtype == BP_DTYPE_F32) return *static_cast<const float*>(value);
  return std::nullopt;
}

std::optional<Activation> activation_of_reader(const AbsorbContext& context) {
  const ActivationRow* row = find_activation(context.reader.name);
  if (row == nullptr || context.reader_input != 0) return std::nullopt;
  const auto alpha = parameter(context, row->alpha);
  const auto beta = parameter(context, row->beta);
  if (!alpha || !beta) return std::nullopt;
  const Activation activation{row->name, *alpha, *beta};
  if (!check_activation(activation, context.output.dtype).ok()) return std::nullopt;
  return activation;
}

bool is_absent(const InferContext& call, size_t input) {
  return input >= call.inputs.size() || call.inputs[input].dtype == BP_DTYPE_NONE;
}

}  // namespace

// The parameters are attributes of the operator, or inputs.
ValueId apply_activation(const Activation& activation, ValueId x, uint32_t dtype,
                         Builder* builder) {
  if (activation.name.empty()) return x;
  const ActivationRow& row = *find_activation(activation.name);
  const OpSchema& schema = builder->schema(row.name);
  Attributes attributes = builder->attributes(row.name);
  std::vector<ValueId> inputs = {x};
  for (const auto& [name, value] :
       {std::pair(row.alpha, activation.alpha), std::pair(row.beta, activation.beta)}) {
    if (name.empty()) continue;
    if (find_field(schema, name) != nullptr) {
      builder->check(attributes.set_f64(name, value));
    } else {
      inputs.push_back(builder->scalar(dtype, value));
    }
  }
  return builder->op(row.name, inputs, std::move(attributes));
}

Status decompose_epilogue(const InferContext& context, std::string_view op_name,
                          std::initializer_list<std::string_view> input_names,
                          GraphBuilder* graph) {
  const OpRegistry& registry = graph->registry();
  const OpSchema& schema = registry.schema(*registry.find(op_name));
  const Activation activation = read_activation(schema, context.attributes);
  const auto addend = find_input(schema, "addend");
  const bool adds = addend && !is_absent(context, *addend);
  if (!adds && activation.name.empty()) return {BP_UNSUPPORTED, "there is no epilogue"};
  Builder builder(context, input_names, graph);
  BP_TRY_ASSIGN(Attributes attributes, Attributes::copy_from(schema, context.attributes));
  BP_TRY(set_activation({}, &attributes));
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < context.inputs.size(); ++i) {
    if (i != addend) inputs.push_back(builder.input(i));
  }
  ValueId y = builder.op(op_name, inputs, std::move(attributes));
  if (adds) y = builder.op("add", {y, builder.input(*addend)});
  return builder.finish(apply_activation(activation, y, builder.dtype(0), &builder));
}

std::optional<Absorbed> absorb_epilogue(const AbsorbContext& context, AddendFits fits) {
  const OpSchema& schema = context.schema;
  const Activation own = read_activation(schema, context.call.attributes);
  if (!own.name.empty() || !context.output.has_rank) return std::nullopt;
  auto attributes = Attributes::copy_from(schema, context.call.attributes);
  if (!attributes.ok()) return std::nullopt;
  Absorbed absorbed{.attributes = *std::move(attributes), .inputs = {}};
  const auto addend = find_input(schema, "addend");
  if (context.reader.name == "add" && addend && is_absent(context.call, *addend)) {
    const size_t other = 1 - context.reader_input;
    const TensorType& type = context.reader_call.inputs[other];
    if (!type.has_rank || !fits(type.sizes, context.output.sizes)) return std::nullopt;
    absorbed.inputs.emplace_back(other, *addend);
    return absorbed;
  }
  const auto activation = activation_of_reader(context);
  if (!activation) return std::nullopt;
  if (!set_activation(*activation, &absorbed.attributes).ok()) return std::nullopt;
  return absorbed;
}

}  // namespace bp::ops
