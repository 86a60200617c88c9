// SPDX-License-Identifier: Apache-2.0
//
// The one log: lines go to standard error, or to a sink that the application sets. It is one of the
// four allowed globals (design section 8).
#ifndef BACKPLANE_CORE_BASE_LOG_HPP
#define BACKPLANE_CORE_BASE_LOG_HPP

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "backplane/host.h"

namespace bp {

/// Gets every line at or below the level. Called from any thread, one line at a time; lines that it
/// logs itself, and lines that wait too long for it, go to standard error.
using LogSink = std::function<void(uint32_t level, std::string_view line)>;

/// level: BP_LOG_*. Any thread. At once, unless a LogScope of this thread keeps the line back. The
/// text becomes one line of clean UTF-8 (one_line()).
void log(uint32_t level, std::string_view text);
/// An empty sink restores standard error. Any thread; waits a little for a line being written. In a
/// forked child lines go to standard error whatever the sink.
void set_log_sink(LogSink sink);

/// This thread is in the sink for a line that came in no API call: it is one of the core's or of a
/// plugin's, which is waited for at the end of the device that it works for.
bool in_sink_of_a_working_thread();

class LogScope;
namespace detail {
struct KeptLines;
extern constinit thread_local LogScope* outer_log_scope;  // of this thread; nullptr: none
}  // namespace detail

/// Keeps this thread's lines for a sink back while it lives, since a sink may call the API, and
/// lines arise under the core's locks. They come in order at the end of the outermost scope, for
/// which no lock may be held, to the sink of that moment. Lines for standard error do not wait. In
/// a forked child what was kept before is dropped: it is the parent's to tell. Costs no memory and
/// no lock until there is a line.
class LogScope {
 public:
  /// Of one scope; after these, lines are counted, and the count is told at the end.
  static constexpr size_t kMostLines = 1000;
  struct Line {
    uint32_t level;
    std::string text;
  };

  LogScope() noexcept {
    if (*outer_ == nullptr) *outer_ = this;
  }
  ~LogScope() {
    if (*outer_ != this) return;
    *outer_ = nullptr;
    if (has_lines()) [[unlikely]]
      deliver();
  }
  LogScope(const LogScope&) = delete;
  LogScope& operator=(const LogScope&) = delete;

  bool is_outermost() const { return *outer_ == this; }
  /// Only an outermost scope ever has some.
  bool has_lines() const { return kept_ != nullptr || dropped_ != 0; }
  /// The lines kept so far, for another thread to log in this one's place.
  std::vector<Line> take();
  /// Before the end, for who has to do something round it. What the sink throws is swallowed.
  void deliver() noexcept;

 private:
  friend void log(uint32_t level, std::string_view text);
  void keep(uint32_t level, std::string_view line) noexcept;

  LogScope** const outer_ = &detail::outer_log_scope;  // finding a thread's own variable is a call
  detail::KeptLines* kept_ = nullptr;                  // owned; made for the first line
  uint64_t dropped_ = 0;
  uint32_t dropped_level_ = 0;  // the gravest
};

/// Lines above this level are dropped. The start value is the option BACKPLANE_LOG.
void set_log_level(uint32_t level);
/// The same, and later set_log_level() changes nothing: what an application says is stronger than
/// the option.
void fix_log_level(uint32_t level);
bool log_enabled(uint32_t level);

}  // namespace bp

#endif
