// SPDX-License-Identifier: Apache-2.0
//
// The one log: lines go to standard error, or to a sink that the application sets. It is one of the
// four allowed globals (design section 8).
#ifndef BACKPLANE_CORE_BASE_LOG_HPP
#define BACKPLANE_CORE_BASE_LOG_HPP

#include <cstdint>
#include <functional>
#include <string_view>

#include "backplane/host.h"

namespace bp {

/// Gets every line at or below the level. Called from any thread, one line at a time; lines that it
/// logs itself, and lines that wait too long for it, go to standard error.
using LogSink = std::function<void(uint32_t level, std::string_view line)>;

/// level: BP_LOG_*. Any thread.
void log(uint32_t level, std::string_view line);
/// An empty sink restores standard error. Any thread; waits a little for a line being written. In a
/// forked child lines go to standard error whatever the sink.
void set_log_sink(LogSink sink);
/// Lines above this level are dropped. The start value is the option BACKPLANE_LOG.
void set_log_level(uint32_t level);
/// The same, and later set_log_level() changes nothing: what an application says is stronger than
/// the option.
void fix_log_level(uint32_t level);
bool log_enabled(uint32_t level);

}  // namespace bp

#endif
