// SPDX-License-Identifier: Apache-2.0
//
// A name within a sentence. Most come from models, files and the environment.
#ifndef BACKPLANE_CORE_BASE_QUOTED_HPP
#define BACKPLANE_CORE_BASE_QUOTED_HPP

#include <string>
#include <string_view>

#include "core/base/foreign_text.hpp"

namespace bp {

/// 'text', as foreign_text() lets it through.
inline std::string quoted(std::string_view text) { return "'" + foreign_text(text) + "'"; }

}  // namespace bp

#endif
