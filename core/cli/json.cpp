// SPDX-License-Identifier: Apache-2.0
//
// Commas, indentation and escapes of the JSON writer.
#include "core/cli/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/utf8.hpp"

namespace bp::cli {

void JsonWriter::separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (has_items_.empty()) return;
  if (has_items_.back()) text_ += ',';
  has_items_.back() = true;
  text_ += '\n';
  text_.append(2 * has_items_.size(), ' ');
}

JsonWriter& JsonWriter::begin(char bracket) {
  separate();
  text_ += bracket;
  has_items_.push_back(false);
  return *this;
}

JsonWriter& JsonWriter::end(char bracket) {
  const bool had_items = has_items_.back();
  has_items_.pop_back();
  if (had_items) {
    text_ += '\n';
    text_.append(2 * has_items_.size(), ' ');
  }
  text_ += bracket;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  separate();
  quote(name);
  text_ += ": ";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  separate();
  quote(text);
  return *this;
}

JsonWriter& JsonWriter::value(double number) {
  return raw(std::isfinite(number) ? fmt::format("{}", number) : "null");
}

JsonWriter& JsonWriter::raw(std::string_view text) {
  separate();
  text_ += text;
  return *this;
}

void JsonWriter::quote(std::string_view text) {
  text_ += '"';
  while (!text.empty()) {
    const auto byte = static_cast<unsigned char>(text.front());
    size_t length = 1;
    if (byte >= 0x80) {
      for (length = 2; length <= std::min<size_t>(4, text.size()); ++length) {
        if (is_utf8(text.substr(0, length))) break;
      }
      const bool is_text = length <= std::min<size_t>(4, text.size());
      if (!is_text) length = 1;
      text_ += is_text ? text.substr(0, length) : std::string_view("\xEF\xBF\xBD");
    } else if (byte == '"' || byte == '\\') {
      text_ += '\\';
      text_ += static_cast<char>(byte);
    } else if (byte < 0x20 || byte == 0x7F) {
      text_ += fmt::format("\\u{:04x}", byte);
    } else {
      text_ += static_cast<char>(byte);
    }
    text.remove_prefix(length);
  }
  text_ += '"';
}

}  // namespace bp::cli
