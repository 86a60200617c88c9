// SPDX-License-Identifier: Apache-2.0
//
// Reading, checking, hashing, comparing and printing members of attribute structs.
#include "core/op/attribute_fields.hpp"

#include <bit>
#include <charconv>

#include "core/base/dtype.hpp"

namespace bp {
namespace {

/// FNV-1a: short inputs, and no reader of hashes outside this process.
class Hasher {
 public:
  void add_bytes(const void* data, size_t size_bytes) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    for (size_t i = 0; i < size_bytes; ++i) value_ = (value_ ^ bytes[i]) * 0x100000001b3u;
  }
  void add(uint64_t word) { add_bytes(&word, sizeof(word)); }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325u;
};

void hash_field(const FieldReader& reader, const AttrField& field, Hasher* hasher) {
  switch (field.type) {
    case AttrType::kI64:
    case AttrType::kBool:
    case AttrType::kDtype:
      hasher->add(static_cast<uint64_t>(reader.i64(field)));
      return;
    case AttrType::kF64:
      hasher->add(std::bit_cast<uint64_t>(reader.f64(field)));
      return;
    case AttrType::kStr: {
      const std::string_view text = reader.str(field);
      hasher->add(text.size());
      hasher->add_bytes(text.data(), text.size());
      return;
    }
    case AttrType::kI64s: {
      const auto list = reader.i64s(field);
      hasher->add(list.size());
      hasher->add_bytes(list.data(), list.size_bytes());
      return;
    }
    case AttrType::kTensor: {
      const bp_tensor* tensor = reader.tensor(field);
      hasher->add(tensor == nullptr ? 0 : tensor->dtype);
      if (tensor == nullptr) return;
      const auto sizes = tensor_sizes(*tensor);
      const auto bytes = tensor_bytes(*tensor);
      hasher->add(sizes.size());
      hasher->add_bytes(sizes.data(), sizes.size_bytes());
      hasher->add_bytes(bytes.data(), bytes.size());
      return;
    }
  }
}

template <class T>
bool equal_spans(std::span<const T> a, std::span<const T> b) {
  // memcmp must not see the null pointer of an empty list.
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

bool equal_tensors(const bp_tensor* a, const bp_tensor* b) {
  if (a == nullptr || b == nullptr) return a == b;
  return a->dtype == b->dtype && equal_spans(tensor_sizes(*a), tensor_sizes(*b)) &&
         equal_spans(tensor_bytes(*a), tensor_bytes(*b));
}

bool equal_field(const FieldReader& a, const FieldReader& b, const AttrField& field) {
  switch (field.type) {
    case AttrType::kI64:
    case AttrType::kBool:
    case AttrType::kDtype:
      return a.i64(field) == b.i64(field);
    // By bits, like the hash: a NaN equals itself, and 0.0 differs from -0.0.
    case AttrType::kF64:
      return std::bit_cast<uint64_t>(a.f64(field)) == std::bit_cast<uint64_t>(b.f64(field));
    case AttrType::kStr:
      return a.str(field) == b.str(field);
    case AttrType::kI64s:
      return equal_spans(a.i64s(field), b.i64s(field));
    case AttrType::kTensor:
      return equal_tensors(a.tensor(field), b.tensor(field));
  }
  return false;
}

}  // namespace

std::string_view attr_type_name(AttrType type) {
  switch (type) {
    case AttrType::kI64:
      return "i64";
    case AttrType::kF64:
      return "f64";
    case AttrType::kBool:
      return "bool";
    case AttrType::kDtype:
      return "dtype";
    case AttrType::kStr:
      return "str";
    case AttrType::kI64s:
      return "i64s";
    case AttrType::kTensor:
      return "tensor";
  }
  return "unknown";
}

Status field_error(const AttrField& field, const std::string& words) {
  return {BP_INVALID_ARGUMENT, "attribute '" + std::string(field.name) + "': " + words};
}

std::span<const int64_t> tensor_sizes(const bp_tensor& tensor) {
  return {tensor.sizes, tensor.rank};
}

std::span<const std::byte> tensor_bytes(const bp_tensor& tensor) {
  const uint64_t bytes = dtype_storage_bytes(tensor.dtype, element_count(tensor_sizes(tensor)));
  // The handle of host memory is its address.
  const auto address = static_cast<uintptr_t>(tensor.handle + tensor.offset_bytes);
  return {reinterpret_cast<const std::byte*>(address), static_cast<size_t>(bytes)};
}

uint64_t hash_fields(std::span<const AttrField> fields, const void* attributes) {
  const FieldReader reader(attributes);
  Hasher hasher;
  for (const AttrField& field : fields) hash_field(reader, field, &hasher);
  return hasher.value();
}

bool equal_fields(std::span<const AttrField> fields, const void* a, const void* b) {
  const FieldReader reader_a(a);
  const FieldReader reader_b(b);
  for (const AttrField& field : fields) {
    if (!equal_field(reader_a, reader_b, field)) return false;
  }
  return true;
}

std::string f64_text(double value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value).ptr;
  return {buffer, end};
}

std::string field_text(const FieldReader& reader, const AttrField& field) {
  switch (field.type) {
    case AttrType::kI64:
      return std::to_string(reader.i64(field));
    case AttrType::kF64:
      return f64_text(reader.f64(field));
    case AttrType::kBool:
      return reader.i64(field) != 0 ? "true" : "false";
    case AttrType::kDtype:
      return std::string(dtype_name(static_cast<uint32_t>(reader.i64(field))));
    case AttrType::kStr:
      return '"' + std::string(reader.str(field)) + '"';
    case AttrType::kI64s: {
      std::string text = "[";
      for (int64_t value : reader.i64s(field)) {
        if (text.size() > 1) text += ", ";
        text += std::to_string(value);
      }
      return text + "]";
    }
    case AttrType::kTensor: {
      const bp_tensor* tensor = reader.tensor(field);
      if (tensor == nullptr) return "none";
      return std::string(dtype_name(tensor->dtype)) + to_string(Dims(tensor_sizes(*tensor)));
    }
  }
  return {};
}

Status check_tensor_attribute(const AttrField& field, const bp_tensor& tensor) {
  if (!is_dtype(tensor.dtype)) {
    return field_error(field, "dtype code " + std::to_string(tensor.dtype) + " is unknown");
  }
  if (tensor.rank > BP_MAX_RANK || (tensor.rank > 0 && tensor.sizes == nullptr)) {
    return field_error(field, "rank " + std::to_string(tensor.rank) + " without sizes, or above " +
                                  std::to_string(BP_MAX_RANK));
  }
  if (tensor.layout != 0) return field_error(field, "expected a strided tensor in host memory");
  const Dims sizes(tensor_sizes(tensor));
  const auto count = checked_element_count(sizes);
  if (!count) {
    return field_error(field, "sizes " + numbers_text(sizes) + " are negative or overflow");
  }
  if (tensor.strides != nullptr && !is_contiguous(sizes, Dims({tensor.strides, tensor.rank}))) {
    return field_error(field, "expected contiguous memory");
  }
  const uint64_t bytes = dtype_storage_bytes(tensor.dtype, *count);
  if (tensor.storage_bytes < bytes || tensor.offset_bytes > tensor.storage_bytes - bytes ||
      (bytes > 0 && tensor.handle == 0)) {
    return field_error(field, "needs " + std::to_string(bytes) + " bytes at offset " +
                                  std::to_string(tensor.offset_bytes) + ", has " +
                                  std::to_string(tensor.storage_bytes));
  }
  return {};
}

// Counts beyond these are mistakes, refused before anything is read.
constexpr uint64_t kMostValues = uint64_t{1} << 20;
constexpr uint64_t kMostBytes = uint64_t{1} << 20;

Status check_foreign_field(const void* base, const AttrField& field) {
  switch (field.type) {
    case AttrType::kI64:
    case AttrType::kF64:
      return {};
    case AttrType::kBool:
    case AttrType::kDtype: {
      const auto value = load_member<int64_t>(base, field.offset_bytes);
      // An unset required dtype is 0; inference says so in the operator's own words.
      const bool fits = field.type == AttrType::kBool
                            ? value == 0 || value == 1
                            : value == BP_DTYPE_NONE || (value > 0 && value < 64 &&
                                                         is_dtype(static_cast<uint32_t>(value)));
      if (fits) return {};
      return field_error(field, "expected a " + std::string(attr_type_name(field.type)) +
                                    ", found " + std::to_string(value));
    }
    case AttrType::kStr: {
      const auto text = load_member<bp_str>(base, field.offset_bytes);
      if (text.len > kMostBytes) {
        return field_error(field, "a text of " + std::to_string(text.len) +
                                      " bytes, expected at most " + std::to_string(kMostBytes));
      }
      if (text.ptr != nullptr || text.len == 0) return {};
      return field_error(field, "a null text of " + std::to_string(text.len) + " bytes");
    }
    case AttrType::kI64s: {
      const auto list = load_member<bp_i64_span>(base, field.offset_bytes);
      if (list.count > kMostValues) {
        return field_error(field, "a list of " + std::to_string(list.count) +
                                      " values, expected at most " + std::to_string(kMostValues));
      }
      if (list.ptr != nullptr || list.count == 0) return {};
      return field_error(field, "a null list of " + std::to_string(list.count) + " values");
    }
    case AttrType::kTensor: {
      const auto* tensor = load_member<const bp_tensor*>(base, field.offset_bytes);
      return tensor == nullptr ? Status() : check_tensor_attribute(field, *tensor);
    }
  }
  return {BP_INTERNAL, "attribute of an unknown type"};
}

Status check_foreign_tail(const OpSchema& schema, const void* base, uint32_t size_bytes) {
  const auto* bytes = static_cast<const std::byte*>(base);
  for (uint32_t i = schema.attrs_bytes; i < size_bytes; ++i) {
    if (bytes[i] == std::byte{0}) continue;
    return {BP_UNSUPPORTED, "attributes of " + std::to_string(size_bytes) +
                                " bytes set a member that this library does not know; it knows " +
                                std::to_string(schema.attrs_bytes) + " bytes"};
  }
  return {};
}

}  // namespace bp
