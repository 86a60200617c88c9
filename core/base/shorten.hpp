// SPDX-License-Identifier: Apache-2.0
//
// Foreign names where they are repeated: in messages, logs and derived names. A file may make a
// name as long as itself, and one that is written out for every use takes the product of both.
#ifndef BACKPLANE_CORE_BASE_SHORTEN_HPP
#define BACKPLANE_CORE_BASE_SHORTEN_HPP

#include <cstddef>
#include <string>
#include <string_view>

namespace bp {

/// The text itself up to 256 bytes; of a longer one as much of its beginning, and "...". UTF-8
/// stays UTF-8.
std::string shortened(std::string_view text);

}  // namespace bp

#endif
