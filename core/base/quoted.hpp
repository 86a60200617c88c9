// SPDX-License-Identifier: Apache-2.0
//
// A name within a sentence.
#ifndef BACKPLANE_CORE_BASE_QUOTED_HPP
#define BACKPLANE_CORE_BASE_QUOTED_HPP

#include <string>
#include <string_view>

namespace bp {

/// 'text'
inline std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

}  // namespace bp

#endif
