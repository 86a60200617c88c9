// SPDX-License-Identifier: Apache-2.0
//
// The one way in which text from plugins, models, files and callers reaches messages and logs. It
// may be as long as its file, forge lines by control characters, or turn the reading direction
// round. Every message (Status) and every log line is cleaned whole, so that no name can be
// forgotten; what can be long is shortened where it is put in.
#ifndef BACKPLANE_CORE_BASE_FOREIGN_TEXT_HPP
#define BACKPLANE_CORE_BASE_FOREIGN_TEXT_HPP

#include <string>
#include <string_view>

#include "backplane/types.h"

namespace bp {

/// At most 256 bytes of it, and "..." where there were more, as UTF-8 for one line: a control
/// character of ASCII is a space; one of another kind, a mark of direction, and each byte that is
/// no UTF-8 is U+FFFD.
std::string foreign_text(std::string_view text);
/// The same for what crossed the ABI. Only the beginning is read. NULL is empty; a length above
/// 1 MiB is no text's, and none of it is read.
std::string foreign_text(bp_str text);

/// All of a text, which may hold foreign ones, for one line: cleaned as they are. Needs no memory
/// for plain ASCII.
std::string one_line(std::string text);

}  // namespace bp

#endif
