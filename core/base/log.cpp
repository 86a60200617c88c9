// SPDX-License-Identifier: Apache-2.0
//
// The log sink and level. Lines are written one at a time, but no lock is held meanwhile: a sink
// may log, set another sink, call the core, or leave the process by exit(), and then static
// destructors may wait for threads that want to write a line too. So the turn is waited for with a
// deadline. That no lock of the rest of the core is held either is what LogScope is for.
#include "core/base/log.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/base/foreign_text.hpp"
#include "core/base/fork.hpp"
#include "core/base/status.hpp"

namespace bp {

namespace detail {
constinit thread_local LogScope* outer_log_scope = nullptr;

struct KeptLines {
  std::vector<LogScope::Line> lines;
};
}  // namespace detail

namespace {

constexpr std::chrono::seconds kTurnTimeout{2};

struct LogState {
  std::mutex mutex;
  std::condition_variable turn_over;
  bool writing = false;
  bool stuck = false;                   // a wait for the writer was in vain: no other need try
  std::shared_ptr<const LogSink> sink;  // shared: it may be replaced while it runs
};

// Never destroyed: plugin threads may log while static destructors run.
LogState& state() {
  static auto* log_state = new LogState;
  return *log_state;
}

std::atomic<uint32_t> g_level{BP_LOG_WARNING};
std::atomic<bool> g_level_fixed{false};
thread_local constinit bool in_sink = false;
thread_local constinit bool has_call_of_line = false;  // while in_sink

/// One thread's turn to write; it has none inside its own, nor after the deadline.
class Turn {
 public:
  Turn() {
    if (in_sink) return;
    std::unique_lock lock(state().mutex);
    const auto ready = [] { return !state().writing || state().stuck; };
    state().turn_over.wait_for(lock, kTurnTimeout, ready);
    state().stuck = state().writing;
    mine_ = !state().writing;
    if (!mine_) return;
    state().writing = true;
    in_sink = true;
    has_call_of_line = detail::outer_log_scope != nullptr;
  }
  ~Turn() {
    if (!mine_ || forked()) return;  // the sink may have forked
    const std::lock_guard lock(state().mutex);
    state().writing = false;
    state().stuck = false;
    in_sink = false;
    state().turn_over.notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  /// nullptr: standard error.
  std::shared_ptr<const LogSink> sink() const {
    const std::lock_guard lock(state().mutex);
    return mine_ ? state().sink : nullptr;
  }

 private:
  bool mine_ = false;
};

std::string_view level_name(uint32_t level) {
  switch (level) {
    case BP_LOG_ERROR:
      return "error";
    case BP_LOG_WARNING:
      return "warning";
    case BP_LOG_INFO:
      return "info";
    default:
      return "debug";
  }
}

bool has_sink() {
  const std::lock_guard lock(state().mutex);
  return state().sink != nullptr;
}

void write(uint32_t level, std::string_view line) {
  if (!log_enabled(level)) return;
  if (!forked()) {  // in a forked child the turn may be a thread's that is not there
    const Turn turn;
    if (const auto sink = turn.sink()) return (*sink)(level, line);
  }
  const std::string_view name = level_name(level);
  std::fprintf(stderr, "backplane %.*s: %.*s\n", static_cast<int>(name.size()), name.data(),
               static_cast<int>(line.size()), line.data());
}

}  // namespace

bool in_sink_of_a_working_thread() { return in_sink && !has_call_of_line; }

bool log_enabled(uint32_t level) { return level <= g_level.load(std::memory_order_relaxed); }

void log(uint32_t level, std::string_view text) {
  if (!log_enabled(level)) return;
  const std::string line = one_line(std::string(text));
  LogScope* const scope = detail::outer_log_scope;
  if (scope == nullptr || in_sink || forked()) return write(level, line);
  // Behind kept lines also where the sink has gone, so that they stay in order.
  if (scope->has_lines() || has_sink()) return scope->keep(level, line);
  write(level, line);
}

void LogScope::keep(uint32_t level, std::string_view line) noexcept {
  const auto add = [&] {
    if (kept_ == nullptr) kept_ = new detail::KeptLines;
    kept_->lines.push_back({level, std::string(line)});
  };
  // After the first that is dropped all are: what is told stays in order.
  const bool has_room = dropped_ == 0 && (kept_ == nullptr || kept_->lines.size() < kMostLines);
  if (has_room && contain(add).ok()) return;
  dropped_level_ = dropped_ == 0 ? level : std::min(dropped_level_, level);
  ++dropped_;
}

std::vector<LogScope::Line> LogScope::take() {
  const std::unique_ptr<detail::KeptLines> kept(std::exchange(kept_, nullptr));
  std::vector<Line> lines;
  if (kept != nullptr) lines.swap(kept->lines);
  if (const uint64_t dropped = std::exchange(dropped_, 0); dropped != 0) {
    lines.push_back({dropped_level_, std::to_string(dropped) + " more log lines were dropped"});
  }
  return lines;
}

void LogScope::deliver() noexcept {
  const std::unique_ptr<detail::KeptLines> kept(std::exchange(kept_, nullptr));
  const uint64_t dropped = std::exchange(dropped_, 0);
  const auto write_unless_forked = [](uint32_t level, std::string_view line) {
    [[maybe_unused]] const Status written = contain([&] {
      if (!forked()) write(level, line);
    });
  };
  if (kept != nullptr) {
    for (const auto& line : kept->lines) write_unless_forked(line.level, line.text);
  }
  if (dropped == 0) return;
  char text[64];  // there may be no memory
  std::snprintf(text, sizeof(text), "%llu more log lines of this call were dropped",
                static_cast<unsigned long long>(dropped));
  write_unless_forked(dropped_level_, text);
}

void set_log_sink(LogSink sink) {
  if (forked()) return;
  auto shared = sink ? std::make_shared<const LogSink>(std::move(sink)) : nullptr;
  {
    const std::lock_guard lock(state().mutex);
    state().sink.swap(shared);
  }
  const Turn after_a_line_being_written;
}

void set_log_level(uint32_t level) {
  if (!g_level_fixed.load(std::memory_order_relaxed)) {
    g_level.store(level, std::memory_order_relaxed);
  }
}

void fix_log_level(uint32_t level) {
  g_level_fixed.store(true, std::memory_order_relaxed);
  g_level.store(level, std::memory_order_relaxed);
}

}  // namespace bp
