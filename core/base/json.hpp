// SPDX-License-Identifier: Apache-2.0
//
// JSON texts that others wrote: manifests and configuration files. The library's parser reads them,
// but not into its own tree, whose destructor asks for memory and ends the process where there is
// none.
#ifndef BACKPLANE_CORE_BASE_JSON_HPP
#define BACKPLANE_CORE_BASE_JSON_HPP

#include <string>
#include <string_view>
#include <vector>

namespace bp {

/// One value, with all that is in it. Immutable once parsed, any thread. What throws, throws
/// std::runtime_error with the value's place (a JSON pointer), what was expected and found.
class JsonValue {
 public:
  enum class Kind { kNull, kBool, kInteger, kNumber, kString, kArray, kObject };

  Kind kind() const { return kind_; }
  /// "null", "boolean", "number", "string", "array" or "object".
  std::string_view kind_name() const;
  /// A whole number from `least`.
  bool is_integer_from(int64_t least) const;

  /// Throws unless it is a string.
  const std::string& string() const;
  /// The text of a string; of other scalars as JSON writes them; "" for arrays and objects.
  const std::string& text() const { return text_; }
  /// As JSON writes it: a string in quotes, arrays and objects by their kind alone.
  std::string quoted() const;

  /// The elements of an array, or the values of an object in the order of keys().
  const std::vector<JsonValue>& values() const { return values_; }
  /// Empty unless it is an object; no key stands twice.
  const std::vector<std::string>& keys() const { return keys_; }
  /// nullptr if there is none. Throws unless it is an object.
  const JsonValue* find(std::string_view key) const;
  /// Throws also if there is none.
  const JsonValue& at(std::string_view key) const;

 private:
  friend class JsonBuilder;
  Kind kind_ = Kind::kNull;
  std::string place_;
  std::string text_;
  std::vector<std::string> keys_;
  std::vector<JsonValue> values_;
};

/// As JSON writes a string: in quotes, control characters escaped.
std::string json_quoted(const std::string& text);

/// Throws std::runtime_error: what is wrong and where. Refused are more than `max_bytes`, more
/// than 16 levels, bytes that are no UTF-8, zero bytes, and a key that stands twice in an object.
JsonValue parse_json(std::string_view text, size_t max_bytes);

}  // namespace bp

#endif
