// SPDX-License-Identifier: Apache-2.0
//
// JSON texts that others wrote: manifests and configuration files. The library's parser reads them,
// but not into its own tree, whose destructor asks for memory and ends the process where there is
// none.
#ifndef BACKPLANE_CORE_BASE_JSON_HPP
#define BACKPLANE_CORE_BASE_JSON_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace bp {

/// One value, with all that is in it. Immutable once parsed, any thread. What throws, throws
/// std::runtime_error with the value's place (a JSON pointer), what was expected and found; names
/// in it are shortened.
class JsonValue {
 public:
  enum class Kind { kNull, kBool, kInteger, kNumber, kString, kArray, kObject };

  Kind kind() const { return kind_; }
  /// "null", "boolean", "number", "string", "array" or "object".
  std::string_view kind_name() const;

  /// Throws unless it is a string.
  const std::string& string() const;
  /// The text of a string; of other scalars as JSON writes them; "" for arrays and objects.
  const std::string& text() const { return text_; }
  /// For messages, as JSON writes it but shortened; arrays and objects by their kind alone.
  std::string quoted() const;

  /// The elements of an array, or the values of an object in the order of keys().
  const std::vector<JsonValue>& values() const { return values_; }
  /// Empty unless it is an object; no key stands twice.
  const std::vector<std::string>& keys() const;
  /// nullptr if there is none. Throws unless it is an object.
  const JsonValue* find(std::string_view key) const;
  /// Throws also if there is none.
  const JsonValue& at(std::string_view key) const;

 private:
  friend class JsonBuilder;
  struct Place;
  bool has_values() const { return kind_ == Kind::kArray || kind_ == Kind::kObject; }
  std::string place() const;

  Kind kind_ = Kind::kNull;
  size_t index_ = 0;  // in the parent
  // Of an array or object its own, else the parent's. The words for it are made when an error needs
  // them: a long key above many values would be written out for each.
  std::shared_ptr<Place> place_;
  std::string text_;
  std::vector<JsonValue> values_;
};

/// As JSON writes a string: in quotes, control characters escaped. For messages: a long text is
/// shortened.
std::string json_quoted(std::string_view text);

/// Time and memory grow with the text's size alone, whatever stands in it.
/// Throws std::runtime_error: what is wrong and where. Refused are more than `max_bytes`, more
/// than 16 levels, bytes that are no UTF-8, zero bytes, and a key that stands twice in an object.
JsonValue parse_json(std::string_view text, size_t max_bytes);

}  // namespace bp

#endif
