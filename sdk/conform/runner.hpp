// SPDX-License-Identifier: Apache-2.0
//
// Runs cases in children, so that a crash or a hang is a result and not the end. The calling
// process never maps a plugin; it must have one thread, since it forks. Cases of level 0 have a
// child each. Those of the others share one in batches, and whatever is not good in a batch is
// run again alone.
#ifndef BACKPLANE_SDK_CONFORM_RUNNER_HPP
#define BACKPLANE_SDK_CONFORM_RUNNER_HPP

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/conform/case.hpp"
#include "sdk/conform/target.hpp"

namespace bp::conform {

enum class Verdict {
  kPass,
  kFail,
  kCrash,
  kTimeout,
  kLeak,
  kUnsupported,
  kNotRun,
  kExpectedFail,    // exceptions.hpp
  kUnexpectedPass,  // and so a failure
};
std::string_view verdict_name(Verdict verdict);  // "PASS"

struct Outcome {
  Verdict verdict = Verdict::kNotRun;
  std::string words;  // why it isn't PASS
};

/// Runs a case of levels 1 to 4 in this process.
Outcome run_case(Context& context, const Case& tested);

struct RunOptions {
  std::vector<std::string> filters;  // see choose_cases; empty: all
  double slowness = 1;               // of this machine and build: deadlines are multiplied by it
  double deadline_s = 10;            // of one case, before that
  size_t jobs = 1;                   // children at a time
  size_t batch = 32;                 // cases per child of levels 1 and 2
  bool native = true;                // with all bands as the device has them
  bool emulated = true;              // and with those that a case exercises taken from the device
  bool each_band = false;            // and with each of these alone, and one call at a time
  uint64_t masked = 0;               // taken in every run
  bool fail_fast = false;            // the first failure ends the run; what is left is NOT RUN
  /// How many rows have their verdict, of how many; after each child's news.
  std::function<void(size_t done, size_t total)> on_progress = {};
};

/// A case in one mode.
struct Row {
  const Case* tested = nullptr;
  uint64_t masked = 0;    // bands taken from the device
  bool emulated = false;  // the core stands in for a band that the case exercises
  Outcome outcome;
};

struct DeviceRows {
  Target target;
  std::string absent;     // not empty: why this machine lacks the hardware; then there are no rows
  uint64_t features = 0;  // native bands
  std::string driver;     // as its props say
  std::vector<Row> rows;

  size_t count(Verdict verdict) const;
  /// Rows with a verdict of their own: neither UNSUPPORTED nor NOT RUN.
  size_t executed_count() const;
  size_t failed_count() const;
};

/// A filter is an id, or its beginning up to a dot, or either with * for any text.
/// INVALID_ARGUMENT for a filter that fits no case.
Result<std::vector<const Case*>> choose_cases(std::span<const Case> cases,
                                              std::span<const std::string> filters);

/// INVALID_ARGUMENT for a filter that fits no case, and for a device that there is not; INTERNAL
/// where the plugin cannot be opened.
Result<DeviceRows> run_cases(std::span<const Case> cases, const Target& target,
                             const RunOptions& options);

bool matches(std::string_view pattern, std::string_view id);

}  // namespace bp::conform

#endif
