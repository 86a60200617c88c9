// SPDX-License-Identifier: Apache-2.0
//
// A TensorProto keeps its values raw (little-endian bytes), or in one of six lists of numbers that
// depends on the dtype; small types go as 32-bit numbers, complex ones as pairs.
#include "ops/onnx/tensor.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>

#include "core/base/dims.hpp"
#include "core/base/dtype.hpp"
#include "ops/onnx/external_data.hpp"
#include "ops/onnx/wire.hpp"

namespace bp::onnx {
namespace {

static_assert(std::endian::native == std::endian::little, "raw_data is little-endian");

struct DataTypeRow {
  std::string_view name;
  uint32_t dtype;  // BP_DTYPE_NONE: we do not have it
  uint32_t list;   // field of TensorProto for values that are not raw
};

/// By TensorProto.DataType.
constexpr std::array<DataTypeRow, 29> kDataTypes = {{
    {"UNDEFINED", BP_DTYPE_NONE, 0},
    {"FLOAT", BP_DTYPE_F32, kFloatData},
    {"UINT8", BP_DTYPE_U8, kInt32Data},
    {"INT8", BP_DTYPE_I8, kInt32Data},
    {"UINT16", BP_DTYPE_U16, kInt32Data},
    {"INT16", BP_DTYPE_I16, kInt32Data},
    {"INT32", BP_DTYPE_I32, kInt32Data},
    {"INT64", BP_DTYPE_I64, kInt64Data},
    {"STRING", BP_DTYPE_NONE, kStringData},
    {"BOOL", BP_DTYPE_BOOL, kInt32Data},
    {"FLOAT16", BP_DTYPE_F16, kInt32Data},
    {"DOUBLE", BP_DTYPE_F64, kDoubleData},
    {"UINT32", BP_DTYPE_U32, kUint64Data},
    {"UINT64", BP_DTYPE_U64, kUint64Data},
    {"COMPLEX64", BP_DTYPE_C64, kFloatData},
    {"COMPLEX128", BP_DTYPE_C128, kDoubleData},
    {"BFLOAT16", BP_DTYPE_BF16, kInt32Data},
    {"FLOAT8E4M3FN", BP_DTYPE_F8E4M3FN, kInt32Data},
    {"FLOAT8E4M3FNUZ", BP_DTYPE_F8E4M3FNUZ, kInt32Data},
    {"FLOAT8E5M2", BP_DTYPE_F8E5M2, kInt32Data},
    {"FLOAT8E5M2FNUZ", BP_DTYPE_F8E5M2FNUZ, kInt32Data},
    {"UINT4", BP_DTYPE_U4, kInt32Data},
    {"INT4", BP_DTYPE_I4, kInt32Data},
    {"FLOAT4E2M1", BP_DTYPE_NONE, kInt32Data},
    {"FLOAT8E8M0", BP_DTYPE_NONE, kInt32Data},
    {"UINT2", BP_DTYPE_NONE, kInt32Data},
    {"INT2", BP_DTYPE_NONE, kInt32Data},
    {"FLOAT6E2M3", BP_DTYPE_NONE, kInt32Data},
    {"FLOAT6E3M2", BP_DTYPE_NONE, kInt32Data},
}};

constexpr std::array<uint32_t, 6> kLists = {kFloatData, kInt32Data,  kStringData,
                                            kInt64Data, kDoubleData, kUint64Data};

Status invalid(const std::string& words) { return {BP_INVALID_ARGUMENT, words}; }

/// What is smaller may be read while the graph is made: sizes, axes, scales.
constexpr uint64_t kFewestWeightBytes = 64 << 10;

/// Bytes that one number of the list fills.
uint64_t number_bytes(uint32_t dtype) {
  if (dtype == BP_DTYPE_C64) return 4;
  if (dtype == BP_DTYPE_C128) return 8;
  return std::max<uint64_t>(dtype_bits(dtype) / 8, 1);  // two 4-bit values share a number
}

bool is_signed_integer(uint32_t dtype) { return dtype >= BP_DTYPE_I8 && dtype <= BP_DTYPE_I64; }

/// Whether a number of a list fits the dtype; floats of 8 and 16 bits come as bit patterns.
bool fits(uint32_t dtype, uint64_t bits) {
  if (dtype == BP_DTYPE_BOOL) return bits <= 1;
  const uint64_t width = 8 * number_bytes(dtype);
  if (width == 64) return true;
  if (!is_signed_integer(dtype)) return bits >> width == 0;
  const int64_t value = static_cast<int64_t>(bits);
  const int64_t limit = int64_t{1} << (width - 1);
  return value >= -limit && value < limit;
}

Status check_fields(const TensorProto& tensor, uint32_t list) {
  if (tensor.data_location != kDefaultLocation && tensor.data_location != kExternalLocation) {
    return invalid("data_location is " + std::to_string(tensor.data_location) +
                   ", expected 0 (DEFAULT) or 1 (EXTERNAL)");
  }
  const bool is_external = tensor.data_location == kExternalLocation;
  if (is_external != tensor.has(kExternalData)) {
    return invalid(is_external ? "its values are in another file, but external_data names none"
                               : "external_data is given, but data_location is not EXTERNAL");
  }
  if (is_external && tensor.raw_data) {
    return invalid("values in raw_data, expected them in another file only");
  }
  for (uint32_t other : kLists) {
    if (tensor.has(other) && is_external) {
      return invalid("values in field " + std::to_string(other) +
                     ", expected them in another file only");
    }
    if (!tensor.has(other) || (other == list && !tensor.raw_data)) continue;
    return invalid("values in field " + std::to_string(other) + ", expected them in " +
                   (tensor.raw_data ? "raw_data only" : "field " + std::to_string(list)));
  }
  return {};
}

/// Where they lie, at any address.
Result<HostTensor> raw_values(std::span<const std::byte> raw, HostTensor values,
                              const std::shared_ptr<const void>& owner, const MappedFile* file) {
  if (raw.size() != values.bytes) {
    return invalid("sizes " + to_string(values.sizes) + " of " +
                   std::string(dtype_name(values.dtype)) + " need " + std::to_string(values.bytes) +
                   " bytes, found " + std::to_string(raw.size()));
  }
  values.data = raw.data();
  values.owner = owner;
  values.file = file;
  BP_TRY(values.check_values());
  return values;
}

/// Calls `on_bits` for each number of the tensor's list.
Status for_each_number(const TensorProto& tensor, uint32_t list,
                       const std::function<Status(uint64_t bits)>& on_bits) {
  WireType type = WireType::kVarint;
  if (list == kFloatData) type = WireType::kFixed32;
  if (list == kDoubleData) type = WireType::kFixed64;
  WireReader reader(tensor.body);
  WireField field;
  while (true) {
    BP_TRY_ASSIGN(const bool more, reader.next(&field));
    if (!more) return {};
    if (field.number == list) BP_TRY(reader.elements(field, type, on_bits));
  }
}

Result<HostTensor> listed_values(const TensorProto& tensor, const HostTensor& wanted,
                                 uint32_t list) {
  const uint64_t step_bytes = number_bytes(wanted.dtype);
  const uint64_t expected = wanted.bytes / step_bytes;
  uint64_t found = 0;
  // Counted before anything is allocated: the sizes alone may claim any amount.
  BP_TRY(for_each_number(tensor, list, [&](uint64_t) { return ++found, Status(); }));
  if (found != expected) {
    return invalid("sizes " + to_string(wanted.sizes) + " of " +
                   std::string(dtype_name(wanted.dtype)) + " need " + std::to_string(expected) +
                   " values, found " + std::to_string(found));
  }
  void* memory = nullptr;
  BP_TRY_ASSIGN(HostTensor values, HostTensor::allocate(wanted.dtype, wanted.sizes, &memory));
  auto* next = static_cast<std::byte*>(memory);
  BP_TRY(for_each_number(tensor, list, [&](uint64_t bits) -> Status {
    if (!fits(wanted.dtype, bits)) {
      return invalid("value " + std::to_string(static_cast<int64_t>(bits)) + " does not fit " +
                     std::string(dtype_name(wanted.dtype)));
    }
    std::memcpy(next, &bits, step_bytes);
    next += step_bytes;
    return {};
  }));
  return values;
}

Result<HostTensor> external_values(const TensorProto& tensor, HostTensor values,
                                   const TensorSource& source) {
  if (source.external_data == nullptr) {
    return Status(BP_UNSUPPORTED,
                  "its values are in another file (external data), and a model in memory has no "
                  "folder");
  }
  BP_TRY_ASSIGN(const ExternalBytes found,
                source.external_data->find(tensor.external_data, values.bytes));
  return raw_values(found.bytes, std::move(values), found.owner, found.mapped);
}

Result<HostTensor> unprefixed_values(const TensorProto& tensor, const TensorSource& source) {
  HostTensor values;
  BP_TRY_ASSIGN(values.dtype, dtype_from_onnx(tensor.data_type));
  const uint32_t list = kDataTypes[static_cast<size_t>(tensor.data_type)].list;
  BP_TRY_ASSIGN(const Dims sizes, checked_sizes(tensor.dims, values.dtype));
  BP_TRY(check_fields(tensor, list));
  values.sizes = sizes;
  values.bytes = dtype_storage_bytes(values.dtype, element_count(sizes));
  if (tensor.data_location == kExternalLocation) {
    return external_values(tensor, std::move(values), source);
  }
  if (tensor.raw_data) {
    return raw_values(*tensor.raw_data, std::move(values), source.owner, source.file);
  }
  return listed_values(tensor, values, list);
}

}  // namespace

Result<uint32_t> dtype_from_onnx(int64_t data_type) {
  const auto index = static_cast<size_t>(data_type);
  if (data_type == 0) return invalid("expected a dtype, found 0 (UNDEFINED)");
  if (data_type < 0 || index >= kDataTypes.size()) {
    return Status(BP_UNSUPPORTED, "expected a dtype code from 1 to " +
                                      std::to_string(kDataTypes.size() - 1) + ", found " +
                                      std::to_string(data_type));
  }
  if (kDataTypes[index].dtype == BP_DTYPE_NONE) {
    return Status(BP_UNSUPPORTED,
                  "dtype " + std::string(kDataTypes[index].name) + " is not supported");
  }
  return kDataTypes[index].dtype;
}

Result<Dims> checked_sizes(std::span<const int64_t> sizes, uint32_t dtype) {
  if (sizes.size() > BP_MAX_RANK) {
    return Status(BP_UNSUPPORTED, "rank " + std::to_string(sizes.size()) + ": expected at most " +
                                      std::to_string(BP_MAX_RANK));
  }
  const Dims dims(sizes);
  for (int64_t size : sizes) {
    if (size < 0) return invalid("size " + std::to_string(size) + " is negative");
  }
  const auto count = checked_product(sizes);
  const int64_t limit = std::numeric_limits<int64_t>::max() / std::max(dtype_bits(dtype), 8u);
  if (!count || *count > limit) {
    return invalid("sizes " + to_string(dims) + " of " + std::string(dtype_name(dtype)) +
                   " are more bytes than can be counted");
  }
  return dims;
}

Result<HostTensor> tensor_values(const TensorProto& tensor, const TensorSource& source) {
  BP_TRY_ASSIGN(const HostTensor values, initializer_values(tensor, source));
  return values.aligned();
}

Result<HostTensor> initializer_values(const TensorProto& tensor, const TensorSource& source) {
  auto values = unprefixed_values(tensor, source);
  if (!values.ok()) {
    return values.status().with_prefix("tensor '" + std::string(tensor.name) + "'");
  }
  const bool is_weight = is_float_dtype(values->dtype) && values->bytes >= kFewestWeightBytes;
  return is_weight ? values : values->aligned();
}

}  // namespace bp::onnx
