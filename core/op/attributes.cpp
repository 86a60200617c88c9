// SPDX-License-Identifier: Apache-2.0
//
// Owned attribute values: one block with the struct, and beside it the memory that its pointers
// name.
#include "core/op/attributes.hpp"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <utility>

#include "core/base/dtype.hpp"
#include "core/base/options.hpp"
#include "core/base/quoted.hpp"
#include "core/op/attribute_fields.hpp"

namespace bp {
namespace {

constexpr uint32_t kHeaderBytes = 8;         // struct_size and flags
constexpr uint32_t kMaxStructBytes = 65536;  // a larger struct_size is garbage, not a newer caller

}  // namespace

struct Attributes::Storage {
  /// Memory that one field's pointer names.
  struct Owned {
    std::string text;
    std::vector<int64_t> list;
    std::vector<std::byte> bytes;
    Dims sizes;
    Dims strides;
    bp_tensor tensor{};
  };

  explicit Storage(const OpSchema& schema)
      : operator_name(schema.name),
        fields(schema.attrs),
        block(schema.attrs_bytes / sizeof(uint64_t)),
        owned(schema.attrs.size()) {
    const uint32_t header[2] = {schema.attrs_bytes, 0};
    std::memcpy(block.data(), header, sizeof(header));
    for (size_t i = 0; i < fields.size(); ++i) set_default(i);
  }

  template <class T>
  void store(const AttrField& field, const T& value) {
    std::memcpy(reinterpret_cast<std::byte*>(block.data()) + field.offset_bytes, &value, sizeof(T));
  }
  void set_default(size_t index);
  void set_str(size_t index, std::string_view value) {
    Owned& own = owned[index];
    own.text = value;
    store(fields[index], bp_str{own.text.data(), own.text.size()});
  }
  void set_i64s(size_t index, std::span<const int64_t> values) {
    Owned& own = owned[index];
    own.list.assign(values.begin(), values.end());
    store(fields[index], bp_i64_span{own.list.data(), own.list.size()});
  }
  void set_tensor(size_t index, uint32_t dtype, std::span<const int64_t> sizes,
                  std::span<const std::byte> bytes);
  void mark_set(size_t index) { set_mask |= uint64_t{1} << index; }
  bool is_set(size_t index) const { return (set_mask >> index & 1) != 0; }

  std::string_view operator_name;
  std::span<const AttrField> fields;
  std::vector<uint64_t> block;  // the struct
  std::vector<Owned> owned;     // per field; never resized, as the struct points into it
  uint64_t set_mask = 0;
};

void Attributes::Storage::set_default(size_t index) {
  const AttrField& field = fields[index];
  switch (field.type) {
    case AttrType::kI64:
    case AttrType::kBool:
    case AttrType::kDtype:
      store(field, field.default_i64);
      return;
    case AttrType::kF64:
      store(field, field.default_f64);
      return;
    case AttrType::kStr:
      set_str(index, field.default_str);
      return;
    case AttrType::kI64s:
      set_i64s(index, field.default_i64s);
      return;
    case AttrType::kTensor:
      store<const bp_tensor*>(field, nullptr);
      return;
  }
}

void Attributes::Storage::set_tensor(size_t index, uint32_t dtype, std::span<const int64_t> sizes,
                                     std::span<const std::byte> bytes) {
  Owned& own = owned[index];
  own.bytes.assign(bytes.begin(), bytes.end());
  own.sizes = Dims(sizes);
  own.strides = contiguous_strides(own.sizes);
  own.tensor = {};
  own.tensor.handle = reinterpret_cast<uintptr_t>(own.bytes.data());
  own.tensor.storage_bytes = own.bytes.size();
  own.tensor.dtype = dtype;
  own.tensor.rank = static_cast<uint32_t>(own.sizes.size());
  own.tensor.sizes = own.sizes.data();
  own.tensor.strides = own.strides.data();
  own.tensor.flags = BP_TENSOR_HOST_BIT;
  store<const bp_tensor*>(fields[index], &own.tensor);
}

namespace {

/// The index of a field that is to be set. Errors: see the setters of Attributes.
Result<size_t> find_field(std::string_view operator_name, std::span<const AttrField> fields,
                          std::string_view name) {
  std::vector<std::string> names;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].name == name) return i;
    names.emplace_back(fields[i].name);
  }
  std::string words = "attribute " + quoted(name) + " does not exist";
  if (!operator_name.empty()) words = std::string(operator_name) + ": " + words;
  if (names.empty()) return Status(BP_INVALID_ARGUMENT, words + "; there are none");
  const auto nearest = nearest_match(name, names);
  if (nearest) return Status(BP_INVALID_ARGUMENT, words + "; did you mean " + quoted(*nearest));
  words += "; there are:";
  for (const std::string& known : names) words += " " + known;
  return Status(BP_INVALID_ARGUMENT, words);
}

Status wrong_type(const AttrField& field, std::string_view found) {
  return field_error(field, "expected " + std::string(attr_type_name(field.type)) + ", found " +
                                std::string(found));
}

}  // namespace

Attributes::Attributes(const OpSchema& schema) {
  if (schema.attrs_bytes > 0) storage_ = std::make_shared<Storage>(schema);
}

Result<Attributes> Attributes::copy_from(const OpSchema& schema, const void* struct_ptr) {
  Attributes copy(schema);
  if (struct_ptr == nullptr || schema.attrs_bytes == 0) return copy;
  BP_TRY(check_attributes(schema, struct_ptr));
  const FieldReader reader(struct_ptr);
  Storage& storage = *copy.storage_;
  for (size_t i = 0; i < schema.attrs.size(); ++i) {
    const AttrField& field = schema.attrs[i];
    if (!reader.has(field)) continue;
    storage.mark_set(i);
    switch (field.type) {
      case AttrType::kI64:
      case AttrType::kBool:
      case AttrType::kDtype:
        storage.store(field, reader.i64(field));
        break;
      case AttrType::kF64:
        storage.store(field, reader.f64(field));
        break;
      case AttrType::kStr:
        storage.set_str(i, reader.str(field));
        break;
      case AttrType::kI64s:
        storage.set_i64s(i, reader.i64s(field));
        break;
      case AttrType::kTensor:
        if (const bp_tensor* tensor = reader.tensor(field)) {
          storage.set_tensor(i, tensor->dtype, tensor_sizes(*tensor), tensor_bytes(*tensor));
        }
        break;
    }
  }
  return copy;
}

const void* Attributes::data() const { return storage_ ? storage_->block.data() : nullptr; }

/// The field to set: it exists, has one of the types, and this object alone holds the values.
static Result<size_t> settable(const std::shared_ptr<Attributes::Storage>& storage,
                               std::string_view name, std::string_view found,
                               std::initializer_list<AttrType> types) {
  if (storage == nullptr) return find_field({}, {}, name).status();
  BP_TRY_ASSIGN(const size_t index, find_field(storage->operator_name, storage->fields, name));
  if (storage.use_count() > 1) {
    return Status(BP_INTERNAL, "attribute " + quoted(name) + " set on shared attributes");
  }
  const AttrField& field = storage->fields[index];
  for (AttrType type : types) {
    if (field.type == type) return index;
  }
  return wrong_type(field, found);
}

Status Attributes::set_i64(std::string_view name, int64_t value) {
  BP_TRY_ASSIGN(const size_t index, settable(storage_, name, std::to_string(value),
                                             {AttrType::kI64, AttrType::kBool, AttrType::kDtype}));
  const AttrField& field = storage_->fields[index];
  const bool fits_dtype = value > 0 && value < 64 && is_dtype(static_cast<uint32_t>(value));
  if ((field.type == AttrType::kBool && value != 0 && value != 1) ||
      (field.type == AttrType::kDtype && !fits_dtype)) {
    return wrong_type(field, std::to_string(value));
  }
  storage_->store(field, value);
  storage_->mark_set(index);
  return {};
}

Status Attributes::set_f64(std::string_view name, double value) {
  BP_TRY_ASSIGN(const size_t index, settable(storage_, name, f64_text(value), {AttrType::kF64}));
  storage_->store(storage_->fields[index], value);
  storage_->mark_set(index);
  return {};
}

Status Attributes::set_str(std::string_view name, std::string_view value) {
  BP_TRY_ASSIGN(const size_t index, settable(storage_, name, "a text", {AttrType::kStr}));
  storage_->set_str(index, value);
  storage_->mark_set(index);
  return {};
}

Status Attributes::set_i64s(std::string_view name, std::span<const int64_t> values) {
  BP_TRY_ASSIGN(const size_t index, settable(storage_, name, "a list", {AttrType::kI64s}));
  storage_->set_i64s(index, values);
  storage_->mark_set(index);
  return {};
}

Status Attributes::set_tensor(std::string_view name, uint32_t dtype, std::span<const int64_t> sizes,
                              std::span<const std::byte> bytes) {
  BP_TRY_ASSIGN(const size_t index, settable(storage_, name, "a tensor", {AttrType::kTensor}));
  const AttrField& field = storage_->fields[index];
  bp_tensor tensor{};
  tensor.handle = reinterpret_cast<uintptr_t>(bytes.data());
  tensor.storage_bytes = bytes.size();
  tensor.dtype = dtype;
  tensor.rank = static_cast<uint32_t>(sizes.size());
  tensor.sizes = sizes.data();
  BP_TRY(check_tensor_attribute(field, tensor));
  if (tensor_bytes(tensor).size() != bytes.size()) {
    return field_error(field, "sizes " + bp::to_string(Dims(sizes)) + " take " +
                                  std::to_string(tensor_bytes(tensor).size()) + " bytes, found " +
                                  std::to_string(bytes.size()));
  }
  storage_->set_tensor(index, dtype, sizes, bytes);
  storage_->mark_set(index);
  return {};
}

Status Attributes::validate() const {
  if (storage_ == nullptr) return {};
  for (size_t i = 0; i < storage_->fields.size(); ++i) {
    const AttrField& field = storage_->fields[i];
    if (!field.required || storage_->is_set(i)) continue;
    return {BP_INVALID_ARGUMENT, "attribute " + quoted(field.name) + " of type " +
                                     std::string(attr_type_name(field.type)) +
                                     " is required and was not set"};
  }
  return {};
}

uint64_t Attributes::hash() const {
  return storage_ ? hash_fields(storage_->fields, data()) : hash_fields({}, nullptr);
}

bool Attributes::equals(const Attributes& other) const {
  if (storage_ == nullptr || other.storage_ == nullptr) return storage_ == other.storage_;
  return storage_->operator_name == other.storage_->operator_name &&
         equal_fields(storage_->fields, data(), other.data());
}

std::string Attributes::to_string() const {
  std::string text;
  if (storage_ == nullptr) return text;
  const FieldReader reader(data());
  for (const AttrField& field : storage_->fields) {
    if (!text.empty()) text += ", ";
    text += std::string(field.name) + "=" + field_text(reader, field);
  }
  return text;
}

Status check_given_attributes(const OpSchema& schema, const void* attributes) {
  const uint32_t size_bytes = struct_size_of(attributes);
  if (size_bytes < kHeaderBytes || size_bytes > kMaxStructBytes || size_bytes % 8 != 0) {
    return {BP_INVALID_ARGUMENT, "attributes: struct_size is " + std::to_string(size_bytes) +
                                     ", expected " + std::to_string(schema.attrs_bytes)};
  }
  if (const uint32_t flags = flags_of(attributes); flags != 0) {
    return {BP_UNSUPPORTED,
            "attributes: flags is " + std::to_string(flags) + ", of which none is known"};
  }
  BP_TRY(check_foreign_tail(schema, attributes, size_bytes));
  const FieldReader reader(attributes);
  for (const AttrField& field : schema.attrs) {
    if (reader.has(field)) BP_TRY(check_foreign_field(attributes, field));
  }
  return {};
}

uint64_t hash_attributes(const OpSchema& schema, const void* attributes) {
  return hash_fields(schema.attrs, attributes);
}

bool equal_given_attributes(const OpSchema& schema, const void* a, const void* b) {
  return equal_fields(schema.attrs, a, b);
}

uint32_t needed_since(const OpSchema& schema, std::span<const uint32_t> input_dtypes,
                      const Attributes& attributes) {
  uint32_t since = 1;
  for (size_t i = 0; i < input_dtypes.size(); ++i) {
    if (input_dtypes[i] != BP_DTYPE_NONE) since = std::max(since, schema.input(i).since);
  }
  std::optional<Attributes> defaults;  // seldom needed
  for (const AttrField& field : schema.attrs) {
    if (field.since <= since) continue;
    if (!defaults) defaults.emplace(schema);
    if (!equal_fields({&field, 1}, attributes.data(), defaults->data())) since = field.since;
  }
  return since;
}

}  // namespace bp
