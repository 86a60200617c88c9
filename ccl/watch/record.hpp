// SPDX-License-Identifier: Apache-2.0
//
// What is known of one operation of one rank, while it runs and after: what the recorder keeps,
// dumps carry, and the trace compares.
#ifndef BACKPLANE_CCL_WATCH_RECORD_HPP
#define BACKPLANE_CCL_WATCH_RECORD_HPP

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ccl/operation.hpp"
#include "core/base/status.hpp"

namespace bp::ccl {

/// How the bytes of an operation go.
enum class OperationPath : uint32_t {
  kNative,   // by the collective of the device's plugin
  kHost,     // by our schedule, from host memory to host memory
  kStaged,   // by our schedule, with copies between the device and the host
  kIslands,  // by the plugin's among ranks that are linked, by our schedule between these
};
inline constexpr uint32_t kOperationPathCount = 4;
/// "native".
std::string_view path_name(OperationPath path);

enum class RecordState : uint32_t {
  kScheduled,  // called
  kStarted,
  kCompleted,
  kFailed,
};
inline constexpr uint32_t kRecordStateCount = 4;
/// "scheduled".
std::string_view state_name(RecordState state);

/// An operation as it begins on a rank.
struct RecordEntry {
  Operation operation;  // one that check_operation() lets pass
  /// From 1. Of a collective: among those of the group. Of a send or recv: among those from the one
  /// rank to the other.
  uint64_t sequence = 0;
  uint64_t send_bytes = 0;
  uint64_t recv_bytes = 0;
  uint64_t timeout_ns = 0;  // 0: none
  OperationPath path = OperationPath::kHost;

  bool is_of_two() const { return kind_info(operation.kind).is_of_two; }
};

struct Record {
  uint64_t id = 0;  // from 0, in the order of the calls
  RecordEntry entry;
  RecordState state = RecordState::kScheduled;
  bp_status error = BP_OK;  // of a failed one
  // By the wall clock; 0: not yet.
  int64_t created_ns = 0;
  int64_t started_ns = 0;
  int64_t completed_ns = 0;  // also when it failed
};

/// Why a group ended.
struct GroupError {
  bp_status code = BP_OK;
  std::string words;
  std::vector<uint32_t> culprits;  // ranks, where they are known
};

/// What a dump says beside the operations.
struct GroupInfo {
  std::string name;
  /// The same on all ranks, and another each time that ranks join: what tells runs apart.
  uint64_t id = 0;
  uint64_t epoch = 0;
  RankPlace place;
  /// By rank of the group: the rank of the job that it is. By these the ranks of several groups are
  /// known to be the same. Empty: equal numbers.
  std::vector<uint32_t> job_ranks;
  GroupError error;

  uint32_t job_rank(uint32_t rank) const { return job_ranks.empty() ? rank : job_ranks[rank]; }
};

/// The latest collectives of a rank; 0: none.
struct LastSequences {
  uint64_t entered = 0;
  uint64_t started = 0;
  uint64_t completed = 0;
};

}  // namespace bp::ccl

#endif
