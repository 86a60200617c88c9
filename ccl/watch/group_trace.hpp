// SPDX-License-Identifier: Apache-2.0
//
// What the dumps of one epoch of a group say together, in two parts: of collectives, and of sends
// and recvs.
#ifndef BACKPLANE_CCL_WATCH_GROUP_TRACE_HPP
#define BACKPLANE_CCL_WATCH_GROUP_TRACE_HPP

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ccl/watch/trace.hpp"
#include "ccl/watch/wait_cycles.hpp"

namespace bp::ccl {

/// By rank, each of another; they agree about the group.
using GroupDumps = std::vector<const RankDump*>;

/// One rank's part in an operation.
struct Entered {
  const RankDump* dump;
  const Record* record;

  uint32_t rank() const { return dump->group.place.rank; }
  const Operation& operation() const { return record->entry.operation; }
  bool is_completed() const { return record->state == RecordState::kCompleted; }
  /// A call whose stream has not come to it yet keeps nobody but those who wait for this rank.
  bool has_started() const { return record->started_ns != 0 || is_completed(); }
  bool is_failed() const { return record->state == RecordState::kFailed; }
  bool is_overdue() const {
    const int64_t age_ns = dump->dumped_ns - record->created_ns;
    const uint64_t timeout_ns = record->entry.timeout_ns;
    return timeout_ns != 0 && age_ns > 0 && static_cast<uint64_t>(age_ns) > timeout_ns;
  }
};

struct GroupFindings {
  std::string group;
  uint64_t epoch = 0;
  std::vector<Finding> findings;
  std::vector<Wait> waits;

  void add(FindingKind kind, uint64_t sequence, std::vector<uint32_t> ranks, std::string words) {
    findings.push_back({kind, group, epoch, sequence, std::move(ranks), std::move(words)});
  }
};

/// Mismatches, ranks that never entered, and the first collective that is not completed by all.
void find_in_collectives(const GroupDumps& dumps, GroupFindings* out);
/// The same of the first send or recv of each two ranks that has such a fault.
void find_in_pairs(const GroupDumps& dumps, GroupFindings* out);

/// ": rank 0 with TIMEOUT, ranks 1 and 2 with CANCELLED".
std::string failure_words(const std::vector<Entered>& failed);

/// The collective that all entered last, over those that are recorded of all; 0: none.
uint64_t last_in_common(const GroupDumps& dumps);

}  // namespace bp::ccl

#endif
