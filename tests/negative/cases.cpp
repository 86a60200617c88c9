// SPDX-License-Identifier: Apache-2.0
//
// A right call, and each way to spoil it.
#include "tests/negative/cases.hpp"

#include <algorithm>

#include "core/base/dtype.hpp"
#include "core/base/quoted.hpp"
#include "ops/expr/rows.hpp"
#include "ops/register.hpp"
#include "sdk/conform/checks.hpp"

namespace bp::negative {
namespace {

using conform::Call;
using conform::words;
using Value = decltype(conform::Setting::value);

/// f32 where the first type variable takes it.
conform::DtypeChoice plain_choice(const OpSchema& schema, const conform::Recipe& recipe) {
  auto choices = conform::dtype_choices(schema);
  std::erase_if(choices, [&recipe](const conform::DtypeChoice& dtypes) {
    return recipe.takes != nullptr && !recipe.takes(dtypes.variables.front(), dtypes.named);
  });
  for (const conform::DtypeChoice& dtypes : choices) {
    if (!dtypes.variables.empty() && dtypes.variables.front() == BP_DTYPE_F32) return dtypes;
  }
  return choices.front();
}

Case spoilt(const Call& call, std::string_view how) {
  return {.id = words(call.schema->name, ": ", how),
          .schema = call.schema,
          .inputs = call.inputs,
          .attributes = call.attributes,
          .names = {}};
}

std::string input_words(const OpSchema& schema, size_t index) {
  return "input " + quoted(schema.input(index).name);
}

OracleTensor of_dtype(uint32_t dtype, const Dims& sizes) {
  OracleTensor tensor;
  tensor.dtype = dtype;
  tensor.sizes = sizes;
  const auto count = static_cast<int64_t>(element_count({sizes.data(), sizes.size()}));
  tensor.bytes.resize(dtype_storage_bytes(dtype, count), std::byte{0});
  return tensor;
}

/// One that the argument does not take.
uint32_t wrong_dtype(const OpSchema& schema, const ArgSchema& argument) {
  for (const uint32_t dtype :
       {BP_DTYPE_BOOL, BP_DTYPE_F32, BP_DTYPE_I8, BP_DTYPE_C64, BP_DTYPE_F8E5M2}) {
    const uint64_t mask = argument.type_var < 0
                              ? BP_DTYPE_BIT(argument.fixed_dtype)
                              : schema.type_vars[static_cast<size_t>(argument.type_var)].dtype_mask;
    if ((mask & BP_DTYPE_BIT(dtype)) == 0) return dtype;
  }
  return BP_DTYPE_NONE;
}

void add_counts(const Call& call, std::vector<Case>* cases) {
  const OpSchema& schema = *call.schema;
  size_t least = 0;
  for (const ArgSchema& argument : schema.inputs) least += argument.optional ? 0 : 1;
  if (least > 0) {
    Case few = spoilt(call, "too few inputs");
    few.inputs.resize(least - 1);
    few.names = " inputs, found ";
    cases->push_back(std::move(few));
  }
  if (!schema.inputs.empty() && schema.inputs.back().variadic) return;
  Case many = spoilt(call, "too many inputs");
  many.inputs.resize(schema.inputs.size());
  many.inputs.push_back(of_dtype(BP_DTYPE_F32, {1}));
  many.names = " inputs, found ";
  cases->push_back(std::move(many));
}

void add_dtypes(const Call& call, std::vector<Case>* cases) {
  const OpSchema& schema = *call.schema;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (call.inputs[i].dtype == BP_DTYPE_NONE) continue;
    const ArgSchema& argument = schema.input(i);
    Case wrong = spoilt(call, words("input ", i, " of a wrong dtype"));
    wrong.inputs[i] = of_dtype(wrong_dtype(schema, argument), call.inputs[i].sizes);
    wrong.names = input_words(schema, i);
    if (wrong.inputs[i].dtype != BP_DTYPE_NONE) cases->push_back(std::move(wrong));
    if (argument.optional) continue;
    Case missing = spoilt(call, words("input ", i, " missing"));
    missing.inputs[i] = {};
    missing.names = input_words(schema, i);
    if (i + 1 < call.inputs.size()) cases->push_back(std::move(missing));
  }
}

/// Two inputs of one type variable in two dtypes that it takes.
void add_mixed_dtypes(const Call& call, std::vector<Case>* cases) {
  const OpSchema& schema = *call.schema;
  for (size_t i = 1; i < call.inputs.size(); ++i) {
    const int32_t variable = schema.input(i).type_var;
    if (variable < 0 || call.inputs[i].dtype == BP_DTYPE_NONE) continue;
    const bool is_shared = std::any_of(
        call.inputs.begin(), call.inputs.begin() + static_cast<ptrdiff_t>(i),
        [&](const OracleTensor& other) {
          const auto place = static_cast<size_t>(&other - call.inputs.data());
          return other.dtype != BP_DTYPE_NONE && schema.input(place).type_var == variable;
        });
    uint64_t others = schema.type_vars[static_cast<size_t>(variable)].dtype_mask &
                      ~BP_DTYPE_BIT(call.inputs[i].dtype);
    if (!is_shared || others == 0) continue;
    uint32_t dtype = 1;
    while ((others & BP_DTYPE_BIT(dtype)) == 0) ++dtype;
    Case mixed = spoilt(call, words("input ", i, " of another dtype"));
    mixed.inputs[i] = of_dtype(dtype, call.inputs[i].sizes);
    mixed.names = input_words(schema, i);
    cases->push_back(std::move(mixed));
  }
}

std::string value_words(const Value& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) return std::to_string(*number);
  if (const auto* real = std::get_if<double>(&value)) return std::to_string(*real);
  if (const auto* text = std::get_if<std::string_view>(&value)) return quoted(*text);
  std::string text;
  for (const int64_t each : std::get<std::vector<int64_t>>(value)) {
    text += (text.empty() ? "[" : ", ") + std::to_string(each);
  }
  return text + "]";
}

/// False: the attribute has another type.
bool set(const Value& value, std::string_view name, Attributes* attributes) {
  if (const auto* number = std::get_if<int64_t>(&value)) {
    return attributes->set_i64(name, *number).ok();
  }
  if (const auto* real = std::get_if<double>(&value)) return attributes->set_f64(name, *real).ok();
  if (const auto* text = std::get_if<std::string_view>(&value)) {
    return attributes->set_str(name, *text).ok();
  }
  return attributes->set_i64s(name, std::get<std::vector<int64_t>>(value)).ok();
}

void add_attribute(const Call& call, const AttrField& field, const Value& value,
                   std::vector<Case>* cases) {
  Case wrong = spoilt(call, words("attribute ", field.name, " = ", value_words(value)));
  // Attributes share what they hold with their copies: this one is made anew.
  auto copy = Attributes::copy_from(*call.schema, call.attributes.data());
  if (!copy.ok()) return;
  wrong.attributes = *std::move(copy);
  wrong.names = "attribute " + quoted(field.name);
  if (set(value, field.name, &wrong.attributes)) cases->push_back(std::move(wrong));
}

/// As many values as the window has dimensions, and one more.
void add_spatial(const Call& call, const AttrField& field, const Value& value,
                 std::vector<Case>* cases) {
  const size_t rank = call.inputs[0].sizes.size();
  const size_t count = (field.name == "pads" ? 2 : 1) * (rank > 2 ? rank - 2 : 1);
  auto list = std::get<std::vector<int64_t>>(value);
  list.resize(list.size() > 1 ? count + 1 : count, field.name == "pads" ? 0 : 1);
  add_attribute(call, field, list, cases);
}

void add_attributes(const Call& call, std::vector<Case>* cases) {
  static const std::vector<AttributeRule> rules = attribute_rules();
  for (const AttrField& field : call.schema->attrs) {
    if (field.type == AttrType::kBool) {
      add_attribute(call, field, int64_t{2}, cases);
      add_attribute(call, field, int64_t{-1}, cases);
    }
    if (field.type == AttrType::kDtype) {
      add_attribute(call, field, int64_t{200}, cases);
      add_attribute(call, field, int64_t{-1}, cases);
    }
    for (const AttributeRule& rule : rules) {
      if (!is_rule_of(rule, call.schema->name, field.name)) continue;
      for (const Value& value : rule.values) {
        if (rule.is_spatial) {
          add_spatial(call, field, value, cases);
        } else {
          add_attribute(call, field, value, cases);
        }
        if (!rule.told_of.empty()) cases->back().names = "input " + quoted(rule.told_of);
      }
    }
    if (field.type == AttrType::kI64s) {  // longer than any of them may be
      add_attribute(call, field, std::vector<int64_t>(40, 1), cases);
    }
  }
}

size_t input_named(const OpSchema& schema, std::string_view name) {
  size_t index = 0;
  while (index < schema.inputs.size() && schema.inputs[index].name != name) ++index;
  return index;
}

void add_host_values(const Call& call, std::vector<Case>* cases) {
  static const std::vector<HostRule> rules = host_rules();
  for (const HostRule& rule : rules) {
    if (rule.op != call.schema->name) continue;
    const size_t index = input_named(*call.schema, rule.input);
    for (const std::vector<int64_t>& values : rule.values) {
      Case wrong = spoilt(call, words("input ", rule.input, " = ", value_words(values)));
      if (index >= wrong.inputs.size()) wrong.inputs.resize(index + 1);
      const OracleTensor& given = wrong.inputs[index];
      const bool is_scalar = given.dtype != BP_DTYPE_NONE && given.sizes.empty();
      const Dims sizes =
          is_scalar && values.size() == 1 ? Dims{} : Dims{static_cast<int64_t>(values.size())};
      const uint32_t dtype = given.dtype == BP_DTYPE_NONE ? BP_DTYPE_I64 : given.dtype;
      wrong.inputs[index] = OracleTensor::from_i64(dtype, sizes, values);
      wrong.names = "input " + quoted(rule.input);
      cases->push_back(std::move(wrong));
    }
  }
}

void add_sizes(const Call& call, std::vector<Case>* cases) {
  static const std::vector<SizesRule> rules = sizes_rules();
  for (const SizesRule& rule : rules) {
    if (rule.op != call.schema->name) continue;
    const size_t index = input_named(*call.schema, rule.input);
    for (const Dims& sizes : rule.sizes) {
      Case wrong = spoilt(call, words("input ", rule.input, " of sizes ", to_string(sizes)));
      if (index >= wrong.inputs.size()) wrong.inputs.resize(index + 1);
      const uint32_t given = wrong.inputs[index].dtype;
      const uint32_t dtype = given == BP_DTYPE_NONE ? call.inputs[0].dtype : given;
      wrong.inputs[index] = of_dtype(dtype, sizes);
      // The error may be about what it does not go with: any argument will do as its name.
      cases->push_back(std::move(wrong));
    }
  }
}

/// Sizes that do not go together, for all that broadcast.
void add_broadcasts(const Call& call, std::vector<Case>* cases) {
  const expr::Row* row = expr::find_row(call.schema->name);
  if (row == nullptr || row->inputs.size() < 2) return;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    Case wrong = spoilt(call, words("input ", i, " that does not broadcast"));
    wrong.inputs[i] = of_dtype(call.inputs[i].dtype, {2, 3, 34});
    wrong.names = quoted(call.schema->input(i).name);
    cases->push_back(std::move(wrong));
  }
}

}  // namespace

Call base_call(const OpSchema& schema) {
  const conform::Recipe& recipe = *conform::find_recipe(schema.name);
  auto call = conform::make_call(schema, recipe, recipe.variants.front().shots.front(),
                                 plain_choice(schema, recipe), conform::Pass::kExact);
  return call.ok() ? std::move(call).value() : Call{};
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const OpSchema& schema : all_schemas()) {
    if (schema.constant || conform::find_recipe(schema.name) == nullptr) continue;
    const Call call = base_call(schema);
    if (call.schema == nullptr) continue;  // negative_test tells
    add_counts(call, &cases);
    add_dtypes(call, &cases);
    add_mixed_dtypes(call, &cases);
    add_attributes(call, &cases);
    add_host_values(call, &cases);
    add_sizes(call, &cases);
    add_broadcasts(call, &cases);
  }
  return cases;
}

}  // namespace bp::negative
