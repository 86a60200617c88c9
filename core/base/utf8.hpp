// SPDX-License-Identifier: Apache-2.0
//
// Whether foreign bytes are text. Names from files reach messages, JSON and terminals, where broken
// sequences do harm; so they are checked where they come in.
#ifndef BACKPLANE_CORE_BASE_UTF8_HPP
#define BACKPLANE_CORE_BASE_UTF8_HPP

#include <cstddef>
#include <string_view>

namespace bp {

/// True for well-formed UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
bool is_utf8(std::string_view text);

/// A byte that begins no character.
constexpr bool is_utf8_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}
/// The first `most_bytes` of a text at most, ending between characters.
std::string_view utf8_prefix(std::string_view text, size_t most_bytes);

}  // namespace bp

#endif
