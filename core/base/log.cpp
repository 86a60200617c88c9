// SPDX-License-Identifier: Apache-2.0
//
// The log sink and level. Lines are written one at a time, but no lock is held meanwhile: a sink
// may log, set another sink, call the core, or leave the process by exit(), and then static
// destructors may wait for threads that want to write a line too. So the turn is waited for with a
// deadline.
#include "core/base/log.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "core/base/fork.hpp"

namespace bp {
namespace {

constexpr std::chrono::seconds kTurnTimeout{2};

struct LogState {
  std::mutex mutex;
  std::condition_variable turn_over;
  bool writing = false;
  bool stuck = false;  // whoever writes was waited for in vain: nobody else need try
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

}  // namespace

bool log_enabled(uint32_t level) { return level <= g_level.load(std::memory_order_relaxed); }

void log(uint32_t level, std::string_view line) {
  if (!log_enabled(level)) return;
  if (!forked()) {  // in a forked child the turn may be a thread's that is not there
    const Turn turn;
    if (const auto sink = turn.sink()) return (*sink)(level, line);
  }
  const std::string_view name = level_name(level);
  std::fprintf(stderr, "backplane %.*s: %.*s\n", static_cast<int>(name.size()), name.data(),
               static_cast<int>(line.size()), line.data());
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
