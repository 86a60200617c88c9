// SPDX-License-Identifier: Apache-2.0
//
// Character by character, and cut between characters.
#include "core/base/foreign_text.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/base/utf8.hpp"

namespace bp {
namespace {

constexpr size_t kMaxBytes = 256;
constexpr std::string_view kReplacement = "\xef\xbf\xbd";

/// Controls of C1, marks and overrides of direction, separators of lines.
bool is_harmful(std::string_view character) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(character[i]); };
  if (character.size() == 2) {
    return (byte(0) == 0xc2 && byte(1) < 0xa0) || (byte(0) == 0xd8 && byte(1) == 0x9c);
  }
  if (character.size() != 3 || byte(0) != 0xe2) return false;
  if (byte(1) == 0x80)
    return byte(2) == 0x8e || byte(2) == 0x8f || (byte(2) >= 0xa8 && byte(2) <= 0xae);
  return byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9;
}

/// What stands for the first character of `text`, and how many bytes it had.
std::string_view clean(std::string_view text, size_t* out_bytes) {
  const auto first = static_cast<uint8_t>(text.front());
  *out_bytes = 1;
  if (first < 0x20 || first == 0x7f) return " ";
  if (first < 0x80) return text.substr(0, 1);
  const size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  const std::string_view character = text.substr(0, length);
  if (character.size() < length || !is_utf8(character)) return kReplacement;
  *out_bytes = length;
  return is_harmful(character) ? kReplacement : character;
}

}  // namespace

std::string foreign_text(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    size_t bytes = 0;
    const std::string_view character = clean(text, &bytes);
    if (shown.size() + character.size() > kMaxBytes) return shown + "...";
    shown += character;
    text.remove_prefix(bytes);
  }
  return shown;
}

std::string one_line(std::string whole) {
  const auto is_plain = [](char c) { return c >= 0x20 && c < 0x7f; };
  if (std::all_of(whole.begin(), whole.end(), is_plain)) return whole;
  std::string_view text = whole;
  std::string shown;
  while (!text.empty()) {
    size_t bytes = 0;
    shown += clean(text, &bytes);
    text.remove_prefix(bytes);
  }
  return shown;
}

std::string foreign_text(bp_str text) {
  constexpr uint64_t kLongestText = uint64_t{1} << 20;
  if (text.ptr == nullptr) return {};
  if (text.len > kLongestText) {
    return "(a text that claims " + std::to_string(text.len) + " bytes)";
  }
  return foreign_text(std::string_view(text.ptr, static_cast<size_t>(text.len)));
}

}  // namespace bp
