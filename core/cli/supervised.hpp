// SPDX-License-Identifier: Apache-2.0
//
// A command in a process of its own: what plugins do to that process, its user still hears of. A
// crash or a call that never returns would end doctor without a word, on the plugin that it is to
// find.
#ifndef BACKPLANE_CORE_CLI_SUPERVISED_HPP
#define BACKPLANE_CORE_CLI_SUPERVISED_HPP

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.hpp"

namespace bp::cli {

/// The child's line to its parent. Any thread.
class Progress {
 public:
  explicit Progress(int results) : results_(results) {}
  /// What comes next: "npu:0: copies".
  void begin(std::string_view step) const;
  /// A line of the log, in case there is no report.
  void log(std::string_view line) const;
  /// What the command prints, once, and its exit code.
  void report(int exit_code, std::string_view text) const;

 private:
  const int results_;
};

struct SupervisedResult {
  int exit_code = -1;  // -1: there was none
  std::string report;
  std::string step;              // the last one that began
  std::vector<std::string> log;  // all lines so far
  std::string defect;            // "ended by signal 11 (...)", "did not return within 60 s"
};

/// Runs `body` in a child, whose own output goes to standard error as it comes. The child is ended
/// if no step begins for `patience`. Errors: UNAVAILABLE if there is no process for it.
Result<SupervisedResult> run_supervised(std::chrono::seconds patience,
                                        const std::function<void(const Progress&)>& body);

}  // namespace bp::cli

#endif
