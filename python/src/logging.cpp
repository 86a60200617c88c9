// SPDX-License-Identifier: Apache-2.0
#include "logging.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "errors.hpp"
#include "gil.hpp"

namespace bp::python {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostLines = 1000;           // that wait
constexpr std::chrono::seconds kPatience{2};  // as the library has with a sink

struct Line {
  uint32_t level = 0;
  std::string text;
  Clock::time_point came{};
};

struct Queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Line> lines;
  uint64_t dropped_count = 0;
  uint32_t dropped_level = 0;  // the gravest
  bool is_telling = false;     // Python has some that it has not told yet
  bool has_watcher = false;
  const int process_id = getpid();
};

/// Never destroyed: lines come until the process ends.
Queue& queue() {
  static auto* lines = new Queue();
  return *lines;
}

/// What handlers of the log cause themselves must not come to them again.
thread_local bool t_is_teller = false;

void write_to_stderr(uint32_t level, std::string_view text) {
  constexpr const char* kNames[] = {"", "error", "warning", "info", "debug"};
  std::fprintf(stderr, "backplane %s: %.*s\n", kNames[std::min(level, 4u)],
               static_cast<int>(text.size()), text.data());
}

/// All that wait, and a line about those that found no room. The mutex is held.
std::deque<Line> take_all(Queue& waiting) {
  if (const uint64_t count = std::exchange(waiting.dropped_count, 0); count != 0) {
    const std::string words = std::to_string(count) + " more log lines were dropped";
    waiting.lines.push_back({waiting.dropped_level, words, Clock::now()});
  }
  return std::exchange(waiting.lines, {});
}

/// A thread that writes what Python leaves lying.
void watch() {
  Queue& waiting = queue();
  std::unique_lock lock(waiting.mutex);
  for (;;) {
    waiting.changed.wait(lock, [&] { return !waiting.lines.empty(); });
    const Clock::time_point end = waiting.lines.front().came + kPatience;
    if (Clock::now() < end) {
      lock.unlock();
      std::this_thread::sleep_until(end);
      lock.lock();
      continue;
    }
    const std::deque<Line> lines = take_all(waiting);
    lock.unlock();
    for (const Line& line : lines) write_to_stderr(line.level, line.text);
    lock.lock();
  }
}

void add_line(uint32_t level, std::string_view text) {
  Queue& waiting = queue();
  const std::lock_guard lock(waiting.mutex);
  if (waiting.lines.size() >= kMostLines) {
    const bool is_first = waiting.dropped_count++ == 0;
    waiting.dropped_level = is_first ? level : std::min(waiting.dropped_level, level);
    return;
  }
  if (!waiting.has_watcher) std::thread(watch).detach();
  waiting.has_watcher = true;
  waiting.lines.push_back({level, std::string(text), Clock::now()});
  waiting.changed.notify_all();
}

/// Any thread, with or without the GIL.
void take_line(void*, uint32_t level, const char* line, uint64_t line_bytes) {
  const std::string_view text(line, line_bytes);
  if (t_is_teller) return write_to_stderr(level, text);
  try {
    add_line(level, text);
  } catch (const std::exception&) {  // no memory, no thread
    write_to_stderr(level, text);
  }
}

nb::list as_python(const std::deque<Line>& lines) {
  nb::list told;
  for (const Line& line : lines) {
    told.append(nb::make_tuple(line.level, nb::str(line.text.data(), line.text.size())));
  }
  return told;
}

/// For the thread that tells. What it got before is told by now.
nb::list wait_for_log() {
  t_is_teller = true;
  Queue& waiting = queue();
  {
    const WithoutGil release;
    std::unique_lock lock(waiting.mutex);
    waiting.is_telling = false;
    waiting.changed.notify_all();
    waiting.changed.wait(lock, [&] { return !waiting.lines.empty(); });
  }
  // Only now, for who waits for the GIL may wait for long.
  const std::lock_guard lock(waiting.mutex);
  const std::deque<Line> lines = take_all(waiting);
  waiting.is_telling = !lines.empty();
  return as_python(lines);
}

/// Not for long: a handler may wait for who waits here.
void wait_for_teller(bool (*is_done)(const Queue&)) {
  constexpr std::chrono::seconds kLongest{1};
  Queue& waiting = queue();
  if (waiting.process_id != getpid()) return;
  {
    const std::lock_guard lock(waiting.mutex);
    if (is_done(waiting)) return;
  }
  const WithoutGil release;
  std::unique_lock lock(waiting.mutex);
  waiting.changed.wait_for(lock, kLongest, [&] { return is_done(waiting); });
}

}  // namespace

void bind_logging(nb::module_& module) {
  module.def("_wait_for_log", &wait_for_log);
  bpa_log_set_sink(take_line, nullptr);
}

void flush_log() {
  if (t_is_teller) return;
  wait_for_teller(
      [](const Queue& waiting) { return waiting.lines.empty() && !waiting.is_telling; });
}

void end_logging() {
  bpa_log_set_sink(nullptr, nullptr);
  Queue& waiting = queue();
  if (waiting.process_id != getpid()) return;  // the lines are the parent's to tell
  // The thread that tells comes no more (gil.hpp), but may be at it.
  wait_for_teller([](const Queue& other) { return !other.is_telling; });
  std::deque<Line> lines;
  {
    const std::lock_guard lock(waiting.mutex);
    lines = take_all(waiting);
  }
  if (lines.empty()) return;
  t_is_teller = true;
  try {
    const nb::object tell = nb::module_::import_("backplane._logging").attr("tell");
    for (const Line& line : lines) tell(line.level, nb::str(line.text.data(), line.text.size()));
  } catch (nb::python_error& error) {
    error.discard_as_unraisable("the log of backplane");
  }
}

}  // namespace bp::python
