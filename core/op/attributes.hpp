// SPDX-License-Identifier: Apache-2.0
//
// Owned attribute values. An Attributes holds one bp_attrs_<op> struct and everything its members
// point to, so that it can be kept in a graph node or a plan; hashing, equality and printing are
// generic over the schema's fields.
#ifndef BACKPLANE_CORE_OP_ATTRIBUTES_HPP
#define BACKPLANE_CORE_OP_ATTRIBUTES_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.hpp"
#include "core/op/schema.hpp"

namespace bp {

class Attributes {
 public:
  Attributes() = default;
  /// All defaults. Required ones are unset until set; validate() tells.
  explicit Attributes(const OpSchema& schema);
  /// A deep copy of a foreign struct, read up to its struct_size; members it lacks get defaults.
  /// Errors: INVALID_ARGUMENT for a null list with a count, or a struct_size below 8.
  static Result<Attributes> copy_from(const OpSchema& schema, const void* struct_ptr);

  /// nullptr if the operator has no attributes. Valid while this object (or a copy of it: copies
  /// share the immutable values) lives.
  const void* data() const;

  // Setters, by field name. Errors: INVALID_ARGUMENT for an unknown name (with the nearest) or a
  // wrong type. Only before the object is copied.
  Status set_i64(std::string_view name, int64_t value);  // kI64, kBool, kDtype
  Status set_f64(std::string_view name, double value);
  Status set_str(std::string_view name, std::string_view value);
  Status set_i64s(std::string_view name, std::span<const int64_t> values);
  /// Copies contiguous host data.
  Status set_tensor(std::string_view name, uint32_t dtype, std::span<const int64_t> sizes,
                    std::span<const std::byte> bytes);
  /// INVALID_ARGUMENT naming a required attribute that was never set.
  Status validate() const;

  uint64_t hash() const;
  bool equals(const Attributes& other) const;
  /// "strides=[1, 1], group=1"
  std::string to_string() const;

  struct Storage;  // defined in attributes.cpp

 private:
  std::shared_ptr<Storage> storage_;
};

/// The highest `since` among what a call really uses, its inputs that are there and its attributes
/// that are not the defaults: a kernel built before that must not run it.
uint32_t needed_since(const OpSchema& schema, std::span<const uint32_t> input_dtypes,
                      const Attributes& attributes);

/// Whether a foreign struct can be read: its sizes, and that no list with a count is null. The
/// functions below, and inference, rely on it. NULL can. Allocates nothing unless it fails.
/// Errors: as Attributes::copy_from; UNSUPPORTED for a member of a newer caller that is not zero.
Status check_given_attributes(const OpSchema& schema, const void* attributes);
inline Status check_attributes(const OpSchema& schema, const void* attributes) {
  if (attributes == nullptr || schema.attrs_bytes == 0) return {};
  return check_given_attributes(schema, attributes);
}

/// Hash and equality of foreign attribute structs of one schema, without copying or allocating.
/// NULL stands for all defaults.
uint64_t hash_attributes(const OpSchema& schema, const void* attributes);
bool equal_given_attributes(const OpSchema& schema, const void* a, const void* b);
inline bool equal_attributes(const OpSchema& schema, const void* a, const void* b) {
  return a == b || schema.attrs.empty() || equal_given_attributes(schema, a, b);
}

}  // namespace bp

#endif
