// SPDX-License-Identifier: Apache-2.0
//
// Cut between characters: a broken one would make the whole text no UTF-8.
#include "core/base/shorten.hpp"

namespace bp {

std::string shortened(std::string_view text) {
  constexpr size_t kMaxBytes = 256;
  if (text.size() <= kMaxBytes) return std::string(text);
  size_t end = kMaxBytes;
  const auto is_inside = [&] { return (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80; };
  while (end > kMaxBytes - 4 && is_inside()) --end;
  return std::string(text.substr(0, end)) + "...";
}

}  // namespace bp
