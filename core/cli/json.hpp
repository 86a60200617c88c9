// SPDX-License-Identifier: Apache-2.0
//
// Writes JSON in the order of the calls, for --json. Its own few lines instead of a library: the
// commands only ever write, and every file of theirs would pay for including one.
#ifndef BACKPLANE_CORE_CLI_JSON_HPP
#define BACKPLANE_CORE_CLI_JSON_HPP

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bp::cli {

/// Objects and arrays nest by begin_ and end_ calls; inside an object every value is behind its
/// key(). Not for use from several threads.
class JsonWriter {
 public:
  JsonWriter& begin_object() { return begin('{'); }
  JsonWriter& end_object() { return end('}'); }
  JsonWriter& begin_array() { return begin('['); }
  JsonWriter& end_array() { return end(']'); }
  JsonWriter& key(std::string_view name);

  /// Bytes that are not UTF-8 become U+FFFD.
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  /// All digits; null for what JSON has no number for (NaN, infinities).
  JsonWriter& value(double number);
  JsonWriter& value(std::same_as<bool> auto flag) { return raw(flag ? "true" : "false"); }
  JsonWriter& value(std::integral auto number) requires(!std::same_as<decltype(number), bool>) {
    return raw(std::to_string(number));
  }

  /// key() and value() at once.
  template <class T>
  JsonWriter& field(std::string_view name, const T& content) {
    return key(name).value(content);
  }

  /// The document and a line end.
  std::string take() { return std::move(text_) + "\n"; }

 private:
  JsonWriter& begin(char bracket);
  JsonWriter& end(char bracket);
  JsonWriter& raw(std::string_view text);
  void separate();
  void quote(std::string_view text);

  std::string text_;
  std::vector<bool> has_items_;  // one per open bracket
  bool after_key_ = false;
};

}  // namespace bp::cli

#endif
