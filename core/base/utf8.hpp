// SPDX-License-Identifier: Apache-2.0
//
// Whether foreign bytes are text. Names from files reach messages, JSON and terminals, where broken
// sequences do harm; so they are checked where they come in.
#ifndef BACKPLANE_CORE_BASE_UTF8_HPP
#define BACKPLANE_CORE_BASE_UTF8_HPP

#include <string_view>

namespace bp {

/// True for well-formed UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
bool is_utf8(std::string_view text);

}  // namespace bp

#endif
