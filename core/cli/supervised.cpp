// SPDX-License-Identifier: Apache-2.0
//
// Lines of the pipe: "begin STEP", "log LINE", "report CODE BYTES" with the text behind it.
#include "core/cli/supervised.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "sdk/conform/platform.hpp"

namespace bp::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kBegin = "begin ";
constexpr std::string_view kLog = "log ";
constexpr std::string_view kReport = "report ";

void send(int results, std::string_view word, std::string_view text) {
  std::string line(text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  conform::write_all(results, fmt::format("{}{}\n", word, line));
}

/// Takes whole messages from the front of what was read.
class Inbox {
 public:
  explicit Inbox(SupervisedResult* result) : result_(result) {}
  std::string& unread() { return unread_; }
  /// True if a step began, or the report came.
  bool take() {
    bool began = false;
    while (true) {
      const size_t end = unread_.find('\n');
      if (end == std::string::npos) return began;
      const std::string line = unread_.substr(0, end);
      if (line.starts_with(kReport)) {
        if (!take_report(line, end + 1)) return began;
        began = true;
        continue;
      }
      if (line.starts_with(kBegin)) result_->step = line.substr(kBegin.size());
      if (line.starts_with(kLog)) result_->log.push_back(line.substr(kLog.size()));
      began = began || line.starts_with(kBegin);
      unread_.erase(0, end + 1);
    }
  }

 private:
  bool take_report(const std::string& line, size_t text_begin) {
    int code = 0;
    size_t bytes = 0;
    if (std::sscanf(line.c_str(), "report %d %zu", &code, &bytes) != 2) bytes = SIZE_MAX;
    if (unread_.size() - text_begin < bytes) return false;
    result_->exit_code = code;
    result_->step = "its end, after the report";
    result_->report = unread_.substr(text_begin, bytes);
    unread_.erase(0, text_begin + bytes);
    return true;
  }

  SupervisedResult* const result_;
  std::string unread_;
};

/// Reads both pipes until the child has ended, or no step began for `patience`.
void listen(const conform::Child& child, std::chrono::seconds patience, SupervisedResult* result) {
  constexpr std::chrono::milliseconds kLook(100);
  constexpr std::chrono::seconds kWord(10);
  Inbox inbox(result);
  auto last = Clock::now();
  auto last_word = last;
  for (bool has_ended = false; !has_ended;) {
    has_ended = conform::has_ended(child);  // before the last reading
    if (!has_ended) conform::wait_readable(std::array{child.results, child.output}, kLook);
    // Taken before reading, so that the time in which this process itself stands still behind that
    // does not count against a word that came meanwhile.
    const auto looked = Clock::now();
    std::string output;
    static_cast<void>(conform::read_available(child.output, &output));
    std::fwrite(output.data(), 1, output.size(), stderr);
    static_cast<void>(conform::read_available(child.results, &inbox.unread()));
    if (inbox.take()) last = last_word = Clock::now();
    if (!has_ended && Clock::now() - last_word >= kWord) {
      last_word = Clock::now();
      std::fprintf(stderr, "still at %s\n", result->step.c_str());
    }
    if (has_ended || looked - last < patience) continue;
    result->defect = fmt::format("did not return within {} s", patience.count());
    conform::kill_child(child);
    return;
  }
}

}  // namespace

void Progress::begin(std::string_view step) const { send(results_, kBegin, step); }
void Progress::log(std::string_view line) const { send(results_, kLog, line); }
void Progress::report(int exit_code, std::string_view text) const {
  conform::write_all(results_, fmt::format("{}{} {}\n{}", kReport, exit_code, text.size(), text));
}

Result<SupervisedResult> run_supervised(std::chrono::seconds patience,
                                        const std::function<void(const Progress&)>& body) {
  BP_TRY_ASSIGN(conform::Child child, conform::start_child([&](int results) {
                  body(Progress(results));
                  return 0;
                }));
  SupervisedResult result;
  listen(child, patience, &result);
  const conform::Ending ending = conform::reap_child(&child);
  if (result.defect.empty() && !ending.words.empty()) result.defect = "ended by " + ending.words;
  return result;
}

}  // namespace bp::cli
