// SPDX-License-Identifier: Apache-2.0
//
// From the dumps of several ranks to what went wrong, in one sentence each: who never came, who
// called something else, who waits for whom.
#ifndef BACKPLANE_CCL_WATCH_TRACE_HPP
#define BACKPLANE_CCL_WATCH_TRACE_HPP

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ccl/watch/dump.hpp"
#include "core/base/status.hpp"

namespace bp::ccl {

/// The gravest first: what causes others stands before them.
enum class FindingKind : uint32_t {
  kMismatch,      // ranks entered different operations at one sequence
  kCycle,         // ranks wait for each other
  kNeverEntered,  // a rank did not come to an operation of others
  kNoDump,        // a rank of the group gave none
  kNotCompleted,  // some ranks completed an operation that others are in
  kFailed,        // an operation ended with an error
  kOverdue,       // all are in an operation, longer than it may take
  kReported,      // the group itself ended with an error
  kOtherRun,      // the dumps are of a run before; nothing else is said of them
  kRunning,       // no fault: all are in an operation
  kWell,          // no fault: all that was entered is completed
};
inline constexpr uint32_t kFindingKindCount = 11;
/// "never_entered".
std::string_view finding_name(FindingKind kind);
inline bool is_fault(FindingKind kind) { return kind < FindingKind::kRunning; }

struct Finding {
  FindingKind kind = FindingKind::kWell;
  std::string group;  // empty: several
  uint64_t epoch = 0;
  uint64_t sequence = 0;        // 0: none
  std::vector<uint32_t> ranks;  // of the group; of several groups: ranks of the job
  std::string words;
};

/// How far a rank of a group came.
struct RankRow {
  std::string group;
  uint64_t epoch = 0;
  uint32_t rank = 0;
  uint32_t job_rank = 0;
  std::string host;
  uint64_t process_id = 0;
  uint64_t last_entered = 0;  // 0: none
  uint64_t last_completed = 0;
  /// Behind the first rank in the latest operation that all entered; clocks of two hosts differ.
  std::optional<double> lag_ms;
};

struct Trace {
  std::vector<Finding> findings;  // the gravest first
  std::vector<RankRow> rows;      // by group, epoch and rank
  bool is_well() const { return findings.empty() || !is_fault(findings.front().kind); }
};

/// The dumps of one job, of about one moment. Groups that were over before any of the job began, in
/// other processes, are told as such and left out. Errors: INVALID_ARGUMENT naming two files that
/// are of one rank, of two runs of their group, or disagree about it.
Result<Trace> trace_dumps(const std::vector<RankDump>& dumps);

/// Files, and of a folder those that end with .json. Errors: read_dump()'s; UNAVAILABLE for a
/// folder that cannot be read or has none.
Result<std::vector<RankDump>> read_dumps(const std::vector<std::string>& paths);

}  // namespace bp::ccl

#endif
