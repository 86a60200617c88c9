// SPDX-License-Identifier: Apache-2.0
//
// A rank for tests of dumps and traces: what it calls is recorded as a group records it.
#ifndef BACKPLANE_CCL_WATCH_FILLED_RECORDER_TEST_HPP
#define BACKPLANE_CCL_WATCH_FILLED_RECORDER_TEST_HPP

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "ccl/watch/recorder.hpp"

namespace bp::ccl {

inline Operation all_reduce(uint64_t count = uint64_t{1} << 20) {
  return {Kind::kAllReduce, BP_DTYPE_F32, Reduction::kSum, 0, count, false};
}
inline Operation broadcast(uint32_t root, uint64_t count = 16) {
  return {Kind::kBroadcast, BP_DTYPE_I8, Reduction::kSum, root, count, false};
}
inline Operation send_to(uint32_t rank, uint64_t count = 8) {
  return {Kind::kSend, BP_DTYPE_F32, Reduction::kSum, rank, count, false};
}
inline Operation recv_from(uint32_t rank, uint64_t count = 8) {
  return {Kind::kRecv, BP_DTYPE_F32, Reduction::kSum, rank, count, false};
}

class FilledRecorder {
 public:
  using Clock = Recorder::Clock;

  FilledRecorder(std::string name, RankPlace place) {
    group.name = std::move(name);
    group.place = place;
  }

  /// Begins an operation that stays as it is.
  uint64_t call(const Operation& operation, uint64_t sequence) {
    RecordEntry entry;
    entry.operation = operation;
    entry.sequence = sequence;
    entry.timeout_ns = timeout_ns;
    return recorder.begin(entry, now);
  }
  uint64_t enter(const Operation& operation, uint64_t sequence) {
    const uint64_t id = call(operation, sequence);
    recorder.started(id, now);
    return id;
  }
  void complete(const Operation& operation, uint64_t sequence, bp_status code = BP_OK) {
    recorder.completed(enter(operation, sequence), code, now);
  }
  /// All collectives up to this one.
  void complete_to(uint64_t sequence) {
    for (uint64_t each = 1; each <= sequence; ++each) complete(all_reduce(), each);
  }
  void wait_ms(int64_t ms) { now += std::chrono::milliseconds(ms); }

  RankDump dump() const {
    RankDump dump = recorder.dump(group);
    dump.path = "rank" + std::to_string(group.place.rank) + ".json";
    return dump;
  }

  std::shared_ptr<Recorder> owned = std::make_shared<Recorder>();
  Recorder& recorder = *owned;
  GroupInfo group;
  uint64_t timeout_ns = uint64_t{3'600'000'000'000};
  Clock::time_point now = Clock::now();
};

}  // namespace bp::ccl

#endif
