// SPDX-License-Identifier: Apache-2.0
//
// From a recipe to values.
#include "sdk/conform/kernels/call.hpp"

#include <algorithm>
#include <bit>

#include "core/base/dtype.hpp"
#include "sdk/conform/checks.hpp"

namespace bp::conform {
namespace {

constexpr uint32_t kSeedStep = 100;  // above the number of inputs, whose seeds follow each other

std::vector<uint32_t> dtypes_in(uint64_t mask) {
  std::vector<uint32_t> dtypes;
  for (; mask != 0; mask &= mask - 1) {
    dtypes.push_back(static_cast<uint32_t>(std::countr_zero(mask)));
  }
  return dtypes;
}

/// The attribute that gives the first output its dtype; nullptr: none does.
const AttrField* naming_attribute(const OpSchema& schema) {
  for (const ArgSchema& output : schema.outputs) {
    if (output.type_attr < 0) continue;
    const AttrField& field = schema.attrs[static_cast<size_t>(output.type_attr)];
    if (field.type == AttrType::kDtype) return &field;
  }
  return nullptr;
}

Fill fill_of(const Recipe& recipe, const Shot& shot, Pass pass, size_t input) {
  const std::vector<FillKind>& kinds = pass == Pass::kSpecial ? recipe.special_fills
                                       : pass == Pass::kPrecision || recipe.exact.empty()
                                           ? recipe.precise
                                           : recipe.exact;
  if (!shot.fills.empty()) return {shot.fills[std::min(input, shot.fills.size() - 1)], shot.extent};
  return {kinds[std::min(input, kinds.size() - 1)], shot.extent};
}

Status set(const Setting& setting, Attributes* attributes) {
  if (const auto* number = std::get_if<int64_t>(&setting.value)) {
    return attributes->set_i64(setting.name, *number);
  }
  if (const auto* real = std::get_if<double>(&setting.value)) {
    return attributes->set_f64(setting.name, *real);
  }
  if (const auto* text = std::get_if<std::string_view>(&setting.value)) {
    return attributes->set_str(setting.name, *text);
  }
  return attributes->set_i64s(setting.name, std::get<std::vector<int64_t>>(setting.value));
}

}  // namespace

std::string DtypeChoice::name() const {
  std::string text;
  for (const uint32_t dtype : variables) {
    text += (text.empty() ? "" : "_") + std::string(dtype_name(dtype));
  }
  if (named != BP_DTYPE_NONE) text += "_" + std::string(dtype_name(named));
  return text;
}

bool DtypeChoice::has_float() const {
  return !variables.empty() && is_float_dtype(variables.front());
}

std::vector<DtypeChoice> dtype_choices(const OpSchema& schema) {
  std::vector<DtypeChoice> choices(1);
  const std::vector<uint32_t> first = schema.type_vars.empty()
                                          ? std::vector<uint32_t>()
                                          : dtypes_in(schema.type_vars.front().dtype_mask);
  for (size_t i = 0; i < schema.type_vars.size(); ++i) {
    const std::vector<uint32_t> dtypes = dtypes_in(schema.type_vars[i].dtype_mask);
    std::vector<DtypeChoice> more;
    for (const DtypeChoice& choice : choices) {
      const bool is_row = i == 0 || choice.variables.front() == first.front();
      for (const uint32_t dtype : dtypes) {
        more.push_back(choice);
        more.back().variables.push_back(dtype);
        more.back().is_further |= !is_row && dtype != dtypes.front();
      }
    }
    choices = std::move(more);
  }
  if (naming_attribute(schema) == nullptr) return choices;
  std::vector<DtypeChoice> named;
  for (const DtypeChoice& choice : choices) {
    for (const uint32_t dtype : first) {
      named.push_back(choice);
      named.back().named = dtype;
    }
  }
  return named;
}

uint32_t dtype_of(const OpSchema& schema, const ArgSchema& argument, const DtypeChoice& dtypes) {
  static_cast<void>(schema);
  if (argument.type_var >= 0) return dtypes.variables[static_cast<size_t>(argument.type_var)];
  return argument.type_attr >= 0 ? dtypes.named : argument.fixed_dtype;
}

std::string Call::words() const {
  std::string text = std::string(schema->name) + " of ";
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].dtype == BP_DTYPE_NONE) continue;
    text += (i == 0 ? "" : ", ") + to_string(inputs[i].sizes);
  }
  text += " as " + dtypes.name();
  const std::string settings = attributes.to_string();
  return settings.empty() ? text : text + " with " + settings;
}

Result<Call> make_call(const OpSchema& schema, const Recipe& recipe, const Shot& shot,
                       const DtypeChoice& dtypes, Pass pass, uint32_t values) {
  Call call;
  call.schema = &schema;
  call.recipe = &recipe;
  call.pass = pass;
  call.dtypes = dtypes;
  call.extent = shot.extent;
  call.attributes = Attributes(schema);
  for (const Setting& setting : shot.attributes) BP_TRY(set(setting, &call.attributes));
  if (const AttrField* field = naming_attribute(schema)) {
    BP_TRY(call.attributes.set_i64(field->name, dtypes.named));
  }
  std::vector<TensorType> types;
  std::vector<const void*> host_data;
  std::span<const int64_t> host_values = shot.host_values;
  for (size_t i = 0; i < shot.inputs.size(); ++i) {
    const ArgSchema& argument = schema.input(i);
    OracleTensor& input = call.inputs.emplace_back();
    if (shot.inputs[i]) {
      const uint32_t dtype = dtype_of(schema, argument, dtypes);
      if (argument.host == HostNeed::kNone) {
        input = make_values(dtype, *shot.inputs[i], fill_of(recipe, shot, pass, i),
                            values * kSeedStep + static_cast<uint32_t>(i + 1));
        continue;
      }
      if (is_float_dtype(dtype)) {
        input = OracleTensor::from_f64(dtype, *shot.inputs[i], shot.host_reals);
        continue;
      }
      const auto count =
          static_cast<size_t>(element_count({shot.inputs[i]->data(), shot.inputs[i]->size()}));
      input = OracleTensor::from_i64(dtype, *shot.inputs[i], host_values.first(count));
      host_values = host_values.subspan(count);
    }
  }
  for (const OracleTensor& input : call.inputs) {
    types.push_back({.dtype = input.dtype, .has_rank = true, .sizes = input.sizes});
    host_data.push_back(input.bytes.data());
  }
  const InferContext context{
      .inputs = types, .host_data = host_data, .attributes = call.attributes.data()};
  BP_TRY(infer_types(schema, context, &call.output_types));
  return call;
}

}  // namespace bp::conform
