// SPDX-License-Identifier: Apache-2.0
//
// Attribute structs are foreign memory: a caller's build may know fewer members than ours, or more.
// FieldReader is the one place that reads a member or its default; copying, hashing, equality and
// printing are written over it, so they cannot disagree. Private to core/dispatch/attributes.cpp.
#ifndef BACKPLANE_CORE_OP_ATTRIBUTE_FIELDS_HPP
#define BACKPLANE_CORE_OP_ATTRIBUTE_FIELDS_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "core/base/status.hpp"
#include "core/op/schema.hpp"

namespace bp {

/// "i64s": as ops/defs spells it.
std::string_view attr_type_name(AttrType type);
inline uint32_t attr_field_bytes(AttrType type) {
  return type == AttrType::kStr || type == AttrType::kI64s ? 16 : 8;
}
/// INVALID_ARGUMENT with the attribute's name in front.
Status field_error(const AttrField& field, const std::string& words);

template <class T>
T load_member(const void* base, uint32_t offset_bytes) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(base) + offset_bytes, sizeof(T));
  return value;
}

/// 0 for NULL.
inline uint32_t struct_size_of(const void* attributes) {
  return attributes == nullptr ? 0 : load_member<uint32_t>(attributes, 0);
}

inline uint32_t flags_of(const void* attributes) {
  return load_member<uint32_t>(attributes, sizeof(uint32_t));
}

/// Reads members of one struct, or their defaults where the struct ends before them.
class FieldReader {
 public:
  explicit FieldReader(const void* attributes)
      : base_(attributes), size_bytes_(struct_size_of(attributes)) {}

  bool has(const AttrField& field) const {
    return size_bytes_ >= field.offset_bytes + attr_field_bytes(field.type);
  }
  int64_t i64(const AttrField& field) const {
    return has(field) ? load_member<int64_t>(base_, field.offset_bytes) : field.default_i64;
  }
  double f64(const AttrField& field) const {
    return has(field) ? load_member<double>(base_, field.offset_bytes) : field.default_f64;
  }
  std::string_view str(const AttrField& field) const {
    if (!has(field)) return field.default_str;
    const auto text = load_member<bp_str>(base_, field.offset_bytes);
    return {text.ptr, static_cast<size_t>(text.len)};
  }
  std::span<const int64_t> i64s(const AttrField& field) const {
    if (!has(field)) return field.default_i64s;
    const auto list = load_member<bp_i64_span>(base_, field.offset_bytes);
    return {list.ptr, static_cast<size_t>(list.count)};
  }
  const bp_tensor* tensor(const AttrField& field) const {
    return has(field) ? load_member<const bp_tensor*>(base_, field.offset_bytes) : nullptr;
  }

 private:
  const void* base_;
  uint32_t size_bytes_;
};

std::span<const int64_t> tensor_sizes(const bp_tensor& tensor);
/// The contiguous bytes of a tensor that passed check_tensor_attribute.
std::span<const std::byte> tensor_bytes(const bp_tensor& tensor);

uint64_t hash_fields(std::span<const AttrField> fields, const void* attributes);
bool equal_fields(std::span<const AttrField> fields, const void* a, const void* b);
/// The value for people: "[1, 1]", "true", "f32[2, 3]".
std::string field_text(const FieldReader& reader, const AttrField& field);
std::string f64_text(double value);

/// Whether a host tensor can be copied; nothing behind its pointers is read before.
Status check_tensor_attribute(const AttrField& field, const bp_tensor& tensor);
/// What FieldReader's users rely on, for a member that the struct has.
Status check_foreign_field(const void* base, const AttrField& field);
/// A struct of a newer caller: what we do not know may only be zero, which means "as before".
/// Errors: UNSUPPORTED.
Status check_foreign_tail(const OpSchema& schema, const void* base, uint32_t size_bytes);

}  // namespace bp

#endif
