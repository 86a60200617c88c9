// SPDX-License-Identifier: Apache-2.0
//
// From a line to a call.
#include "sdk/conform/kernels/golden.hpp"

#include <charconv>
#include <cstring>

#include "core/base/dtype.hpp"
#include "ops/register.hpp"
#include "sdk/conform/checks.hpp"

namespace bp::conform {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

uint32_t dtype_named(std::string_view name) {
  for (uint32_t dtype = 1; dtype < 64; ++dtype) {
    if (is_dtype(dtype) && dtype_name(dtype) == name) return dtype;
  }
  return BP_DTYPE_NONE;
}

/// Of the inputs, and of the output as the last one.
std::vector<uint32_t> dtypes_of(std::string_view text) {
  const size_t arrow = text.find('>');
  std::vector<uint32_t> dtypes;
  for (const std::string_view name : split(text.substr(0, arrow), ',')) {
    dtypes.push_back(dtype_named(name));
  }
  dtypes.push_back(dtype_named(text.substr(arrow + 1)));
  return dtypes;
}

Result<OracleTensor> tensor_of(uint32_t dtype, const Dims& sizes, std::string_view text) {
  OracleTensor tensor = OracleTensor::zeros(dtype, sizes);
  const auto parts = split(text, ' ');
  if (parts.size() != static_cast<size_t>(tensor.count())) {
    return Status(BP_INVALID_ARGUMENT,
                  words("golden points: ", parts.size(), " values, expected ", tensor.count()));
  }
  const uint64_t bytes = dtype_storage_bytes(dtype, 1);
  for (size_t i = 0; i < parts.size(); ++i) {
    uint64_t bits = 0;
    const char* end = parts[i].data() + parts[i].size();
    if (std::from_chars(parts[i].data(), end, bits, 16).ptr != end) {
      return Status(BP_INVALID_ARGUMENT, words("golden points: '", parts[i], "' is no number"));
    }
    std::memcpy(&tensor.bytes[i * bytes], &bits, bytes);  // a little-endian host, as everywhere
  }
  return tensor;
}

/// Reductions are over the last dimension.
Status set_attributes(const DtypeChoice& dtypes, const Dims& sizes, Attributes* attributes) {
  if (dtypes.named != BP_DTYPE_NONE) return attributes->set_i64("to", dtypes.named);
  if (sizes.size() < 2) return {};
  const int64_t axes[] = {-1};
  BP_TRY(attributes->set_i64s("axes", axes));
  return attributes->set_i64("keepdims", 0);
}

}  // namespace

const OpSchema* golden_schema(const GoldenLine& line) {
  for (const OpSchema& schema : all_schemas()) {
    if (schema.name == line.op) return &schema;
  }
  return nullptr;
}

DtypeChoice golden_dtypes(const OpSchema& schema, const GoldenLine& line) {
  const std::vector<uint32_t> dtypes = dtypes_of(line.dtypes);
  DtypeChoice choice;
  choice.variables.resize(schema.type_vars.size(), BP_DTYPE_NONE);
  for (size_t i = 0; i + 1 < dtypes.size(); ++i) {
    const int32_t variable = schema.input(i).type_var;
    if (variable >= 0) choice.variables[static_cast<size_t>(variable)] = dtypes[i];
  }
  if (schema.outputs[0].type_attr >= 0) choice.named = dtypes.back();
  return choice;
}

Result<GoldenCall> golden_call(const OpSchema& schema, const Recipe& recipe,
                               const GoldenLine& line) {
  GoldenCall golden;
  Call& call = golden.call;
  call.schema = &schema;
  call.recipe = &recipe;
  call.pass = Pass::kPrecision;
  call.dtypes = golden_dtypes(schema, line);
  call.attributes = Attributes(schema);
  Dims sizes;
  for (const std::string_view size : split(line.sizes, 'x')) {
    int64_t value = 0;
    std::from_chars(size.data(), size.data() + size.size(), value);
    sizes.push_back(value);
  }
  BP_TRY(set_attributes(call.dtypes, sizes, &call.attributes));
  const std::vector<uint32_t> dtypes = dtypes_of(line.dtypes);
  const auto values = split(line.values, '\t');
  if (values.size() != dtypes.size()) {
    return Status(BP_INVALID_ARGUMENT, words("golden points of ", line.op, ": ", values.size(),
                                             " arguments, expected ", dtypes.size()));
  }
  std::vector<TensorType> types;
  for (size_t i = 0; i + 1 < values.size(); ++i) {
    BP_TRY_ASSIGN(OracleTensor input, tensor_of(dtypes[i], sizes, values[i]));
    call.inputs.push_back(std::move(input));
    types.push_back({.dtype = dtypes[i], .has_rank = true, .sizes = sizes});
  }
  const std::vector<const void*> host_data(types.size(), nullptr);
  const InferContext context{
      .inputs = types, .host_data = host_data, .attributes = call.attributes.data()};
  BP_TRY(infer_types(schema, context, &call.output_types));
  BP_TRY_ASSIGN(golden.output, tensor_of(dtypes.back(), call.output_types[0].sizes, values.back()));
  return golden;
}

}  // namespace bp::conform
