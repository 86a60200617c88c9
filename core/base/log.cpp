// SPDX-License-Identifier: Apache-2.0
//
// The log sink and level, guarded by one mutex that no launch ever takes.
#include "core/base/log.hpp"

#include <atomic>
#include <cstdio>
#include <mutex>
#include <string>
#include <utility>

namespace bp {
namespace {

struct LogState {
  std::mutex mutex;
  LogSink sink;
};

// Never destroyed: plugin threads may log while static destructors run.
LogState& state() {
  static auto* log_state = new LogState;
  return *log_state;
}

std::atomic<uint32_t> g_level{BP_LOG_WARNING};

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
  std::lock_guard lock(state().mutex);
  if (state().sink) {
    state().sink(level, line);
    return;
  }
  const std::string_view name = level_name(level);
  std::fprintf(stderr, "backplane %.*s: %.*s\n", static_cast<int>(name.size()), name.data(),
               static_cast<int>(line.size()), line.data());
}

void set_log_sink(LogSink sink) {
  std::lock_guard lock(state().mutex);
  state().sink = std::move(sink);
}

void set_log_level(uint32_t level) { g_level.store(level, std::memory_order_relaxed); }

}  // namespace bp
