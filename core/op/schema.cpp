// SPDX-License-Identifier: Apache-2.0
//
// The registry, and what holds for the inference of every operator: arity, dtypes against type
// variables, complete attributes, and sizes whose element count fits. Operators' own functions rely
// on it.
#include "core/op/schema.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstring>
#include <limits>

#include "core/base/dtype.hpp"
#include "core/base/quoted.hpp"
#include "core/op/attributes.hpp"

namespace bp {
namespace {

constexpr size_t kMaxTypeVars = 16;

std::string argument_name(std::string_view kind, std::span<const ArgSchema> arguments,
                          size_t index) {
  const ArgSchema& argument = arguments[std::min(index, arguments.size() - 1)];
  std::string text = std::string(kind) + " " + quoted(argument.name);
  if (argument.variadic) text += " number " + std::to_string(index - arguments.size() + 2);
  return text;
}

std::string input_name(const OpSchema& schema, size_t index) {
  return argument_name("input", schema.inputs, index);
}

Status check_arity(const OpSchema& schema, const InferContext& context) {
  const size_t count = context.inputs.size();
  const bool variadic = !schema.inputs.empty() && schema.inputs.back().variadic;
  size_t least = 0;
  for (const ArgSchema& argument : schema.inputs) least += argument.optional ? 0 : 1;
  if (count >= least && (variadic || count <= schema.inputs.size())) return {};
  std::string expected = std::to_string(least);
  if (variadic) {
    expected += " or more";
  } else if (least < schema.inputs.size()) {
    expected += " to " + std::to_string(schema.inputs.size());
  }
  return {BP_INVALID_ARGUMENT, "expected " + expected + " inputs, found " + std::to_string(count)};
}

Status wrong_dtype(const OpSchema& schema, size_t input, const std::string& expected,
                   uint32_t found) {
  return {BP_INVALID_ARGUMENT, input_name(schema, input) + ": expected " + expected + ", found " +
                                   std::string(dtype_name(found))};
}

/// Binds type variables to the dtypes of the inputs.
Status bind_types(const OpSchema& schema, const InferContext& context,
                  std::array<uint32_t, kMaxTypeVars>* out_bound) {
  std::array<size_t, kMaxTypeVars> bound_by{};
  for (size_t i = 0; i < context.inputs.size(); ++i) {
    const ArgSchema& argument = schema.input(i);
    const uint32_t dtype = context.inputs[i].dtype;
    if (dtype == BP_DTYPE_NONE) {
      if (argument.optional) continue;
      return {BP_INVALID_ARGUMENT, input_name(schema, i) + " is missing"};
    }
    if (argument.type_var < 0) {
      if (dtype == argument.fixed_dtype) continue;
      return wrong_dtype(schema, i, "dtype " + std::string(dtype_name(argument.fixed_dtype)),
                         dtype);
    }
    const auto index = static_cast<size_t>(argument.type_var);
    const uint64_t mask = schema.type_vars[index].dtype_mask;
    uint32_t& bound = (*out_bound)[index];
    if (!is_dtype(dtype) || (mask & BP_DTYPE_BIT(dtype)) == 0) {
      return wrong_dtype(schema, i, "a dtype of " + dtype_set_name(mask), dtype);
    }
    if (bound != BP_DTYPE_NONE && bound != dtype) {
      const std::string first = input_name(schema, bound_by[index]);
      return wrong_dtype(schema, i, "dtype " + std::string(dtype_name(bound)) + " like " + first,
                         dtype);
    }
    if (bound == BP_DTYPE_NONE) bound_by[index] = i;
    bound = dtype;
  }
  return {};
}

/// The dtype that a dtype or tensor attribute names. `attributes` is complete.
Result<uint32_t> dtype_from_attribute(const AttrField& field, const void* attributes) {
  const auto* member = static_cast<const std::byte*>(attributes) + field.offset_bytes;
  int64_t code = BP_DTYPE_NONE;
  if (field.type == AttrType::kTensor) {
    const bp_tensor* tensor = nullptr;
    std::memcpy(&tensor, member, sizeof(tensor));
    if (tensor != nullptr) code = tensor->dtype;
  } else {
    std::memcpy(&code, member, sizeof(code));
  }
  if (code < 0 || code > std::numeric_limits<uint32_t>::max() ||
      !is_dtype(static_cast<uint32_t>(code))) {
    return Status(BP_INVALID_ARGUMENT, "attribute " + quoted(field.name) +
                                           ": expected a dtype, found code " +
                                           std::to_string(code));
  }
  return static_cast<uint32_t>(code);
}

Status fill_output_dtypes(const OpSchema& schema, const void* attributes,
                          const std::array<uint32_t, kMaxTypeVars>& bound,
                          std::vector<TensorType>* out_types) {
  for (size_t i = 0; i < out_types->size(); ++i) {
    const ArgSchema& argument = schema.output(i);
    uint32_t dtype = argument.fixed_dtype;
    if (argument.type_var >= 0) {
      dtype = bound[static_cast<size_t>(argument.type_var)];
    } else if (argument.type_attr >= 0) {
      const AttrField& field = schema.attrs[static_cast<size_t>(argument.type_attr)];
      BP_TRY_ASSIGN(dtype, dtype_from_attribute(field, attributes));
    }
    (*out_types)[i] = TensorType{.dtype = dtype, .has_rank = true, .sizes = {}};
  }
  return {};
}

Status check_input_sizes(const OpSchema& schema, const InferContext& context) {
  for (size_t i = 0; i < context.inputs.size(); ++i) {
    const Status fits = check_sizes(context.inputs[i]);
    if (!fits.ok()) return fits.with_prefix(input_name(schema, i));
  }
  return {};
}

Status check_output_sizes(const OpSchema& schema, std::span<const TensorType> types) {
  for (size_t i = 0; i < types.size(); ++i) {
    const Status fits = check_sizes(types[i]);
    if (!fits.ok()) return fits.with_prefix(argument_name("output", schema.outputs, i));
  }
  return {};
}

/// The attributes as a whole struct, which is what operators' own functions see: `storage` holds
/// it where the caller's is an older, shorter one, or none is given.
Result<const void*> complete_attributes(const OpSchema& schema, const void* attributes,
                                        Attributes* storage) {
  if (schema.attrs_bytes == 0) return attributes;
  uint32_t struct_size = 0;
  if (attributes != nullptr) std::memcpy(&struct_size, attributes, sizeof(struct_size));
  if (struct_size == schema.attrs_bytes) return attributes;
  *storage = Attributes(schema);
  if (attributes != nullptr) {
    BP_TRY_ASSIGN(*storage, Attributes::copy_from(schema, attributes));
  }
  BP_TRY(storage->validate());
  return storage->data();
}

/// `attributes` are complete.
Result<size_t> count_outputs(const OpSchema& schema, const void* attributes) {
  if (!schema.counts_outputs()) return schema.outputs.size();
  const AttrField& field = schema.attrs[static_cast<size_t>(schema.outputs.back().count_attr)];
  int64_t count = 0;
  std::memcpy(&count, static_cast<const std::byte*>(attributes) + field.offset_bytes,
              sizeof(count));
  if (count >= 1 && count <= kMaxOutputs) return static_cast<size_t>(count);
  return Status(BP_INVALID_ARGUMENT, "attribute " + quoted(field.name) + ": expected 1 to " +
                                         std::to_string(kMaxOutputs) + " outputs, found " +
                                         std::to_string(count));
}

Status infer_unprefixed(const OpSchema& schema, InferContext context,
                        std::vector<TensorType>* out_types) {
  BP_TRY(check_arity(schema, context));
  assert(schema.type_vars.size() <= kMaxTypeVars);
  std::array<uint32_t, kMaxTypeVars> bound{};
  BP_TRY(bind_types(schema, context, &bound));
  BP_TRY(check_input_sizes(schema, context));
  Attributes completed;
  BP_TRY_ASSIGN(context.attributes, complete_attributes(schema, context.attributes, &completed));
  BP_TRY_ASSIGN(const size_t count, count_outputs(schema, context.attributes));
  out_types->resize(count);
  BP_TRY(fill_output_dtypes(schema, context.attributes, bound, out_types));
  BP_TRY(schema.infer(context, *out_types));
  return check_output_sizes(schema, *out_types);
}

}  // namespace

Status check_sizes(const TensorType& type) {
  const auto product = checked_product(type.sizes);
  if (product && *product <= kMostElements) return {};
  return {BP_INVALID_ARGUMENT,
          "sizes " + to_string(type.sizes) + " have more elements than can be counted"};
}

Status OpRegistry::add(const OpSchema& schema) {
  if (by_name_.contains(schema.name)) {
    return {BP_INVALID_ARGUMENT, "operator " + quoted(schema.name) + " is registered already"};
  }
  if (const auto same_id = find_by_source_id(schema.id)) {
    return {BP_INVALID_ARGUMENT, "operator " + quoted(schema.name) + ": id " +
                                     std::to_string(schema.id) + " belongs to " +
                                     quoted(schemas_[*same_id].name)};
  }
  if (schema.id > kMaxSourceId) {
    return {BP_INVALID_ARGUMENT, "operator " + quoted(schema.name) + ": id " +
                                     std::to_string(schema.id) + ", expected at most " +
                                     std::to_string(kMaxSourceId)};
  }
  const auto op = static_cast<OpId>(schemas_.size());
  schemas_.push_back(schema);
  by_name_.emplace(schema.name, op);
  if (by_source_id_.size() <= schema.id) by_source_id_.resize(schema.id + 1, kNoOp);
  by_source_id_[schema.id] = op;
  return {};
}

std::optional<OpId> OpRegistry::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return std::nullopt;
  return found->second;
}

std::optional<OpId> OpRegistry::copy_op() const {
  for (OpId op = 0; op < schemas_.size(); ++op) {
    if (schemas_[op].primitive && schemas_[op].view != nullptr) return op;
  }
  return std::nullopt;
}

std::vector<std::string> OpRegistry::names() const {
  std::vector<std::string> result;
  result.reserve(schemas_.size());
  for (const OpSchema& schema : schemas_) result.emplace_back(schema.name);
  return result;
}

Result<size_t> output_count(const OpSchema& schema, const void* attributes) {
  if (!schema.counts_outputs()) return schema.outputs.size();
  Attributes completed;
  BP_TRY_ASSIGN(const void* const complete, complete_attributes(schema, attributes, &completed));
  return count_outputs(schema, complete);
}

Status infer_types(const OpSchema& schema, const InferContext& context,
                   std::vector<TensorType>* out_types) {
  const Status status = infer_unprefixed(schema, context, out_types);
  return status.ok() ? status : status.with_prefix(schema.name).with_op(schema.name);
}

Status infer_sure_types(const OpSchema& schema, const InferContext& context,
                        std::vector<TensorType>* out_types) {
  std::vector<TensorType> inputs(context.inputs.begin(), context.inputs.end());
  for (TensorType& input : inputs) {
    // A scalar has no size that could be another one: its rank is left open.
    if (input.dtype != BP_DTYPE_NONE && input.sizes.empty()) input.has_rank = false;
    for (int64_t& size : input.sizes) size = kUnknownDim;
  }
  const std::vector<const void*> no_values(inputs.size(), nullptr);
  return infer_types(schema, {inputs, no_values, context.attributes}, out_types);
}

}  // namespace bp
