// SPDX-License-Identifier: Apache-2.0
//
// Table 3-7 of the Unicode standard: the second byte's range decides well-formedness.
#include "core/base/utf8.hpp"

#include <cstddef>
#include <cstdint>

namespace bp {
namespace {

struct Sequence {
  size_t length;  // 0: not a first byte
  uint8_t second_low = 0x80;
  uint8_t second_high = 0xbf;
};

Sequence sequence_of(uint8_t first) {
  if (first < 0x80) return {1};
  if (first < 0xc2) return {0};
  if (first < 0xe0) return {2};
  if (first == 0xe0) return {3, 0xa0};
  if (first == 0xed) return {3, 0x80, 0x9f};
  if (first < 0xf0) return {3};
  if (first == 0xf0) return {4, 0x90};
  if (first < 0xf4) return {4};
  if (first == 0xf4) return {4, 0x80, 0x8f};
  return {0};
}

}  // namespace

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const Sequence sequence = sequence_of(static_cast<uint8_t>(text[i]));
    if (sequence.length == 0 || sequence.length > text.size() - i) return false;
    for (size_t k = 1; k < sequence.length; ++k) {
      const auto byte = static_cast<uint8_t>(text[i + k]);
      const uint8_t low = k == 1 ? sequence.second_low : 0x80;
      const uint8_t high = k == 1 ? sequence.second_high : 0xbf;
      if (byte < low || byte > high) return false;
    }
    i += sequence.length;
  }
  return true;
}

std::string_view utf8_prefix(std::string_view text, size_t most_bytes) {
  if (text.size() <= most_bytes) return text;
  constexpr size_t kMostContinuations = 3;  // more are no text, and are cut anywhere
  for (size_t end = most_bytes; end + kMostContinuations >= most_bytes; --end) {
    if (!is_utf8_continuation(text[end])) return text.substr(0, end);
    if (end == 0) break;
  }
  return text.substr(0, most_bytes);
}

}  // namespace bp
