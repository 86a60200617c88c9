// SPDX-License-Identifier: Apache-2.0
//
// The reference model of streams, events and memory: what device_api/include/backplane/stream.h and
// memory.h promise, and nothing about how it is done. It has no threads. Where a call is legal
// (nothing that may still be running touches the same bytes), running everything in the order of
// the calls gives the same bytes as any true execution, so that is what it does; beside the bytes
// it keeps which work the host knows to be over, by one vector clock per stream and event.
#ifndef BACKPLANE_TESTS_MODEL_BASED_MODEL_HPP
#define BACKPLANE_TESTS_MODEL_BASED_MODEL_HPP

#include <map>
#include <vector>

#include "backplane/status.h"
#include "tests/model_based/step.hpp"

namespace bp::model {

/// How much of each stream's work (by stream id) comes before something.
using Clock = std::map<uint32_t, uint32_t>;
bool covers(const Clock& clock, uint32_t stream, uint32_t seq);

/// What the device at hand can do.
struct Traits {
  bool has_add = true;
  bool has_relu = true;
  uint32_t launch_alignment = 4;  // of a tensor's first element
};

struct Access {
  int memory = kNone;
  uint64_t begin = 0;
  uint64_t end = 0;
  bool write = false;
};
bool overlap(const Access& a, const Access& b);

/// Something that was enqueued and that the host does not know to be over.
struct Work {
  uint32_t stream = 0;  // id
  uint32_t seq = 0;
  Clock clock;  // itself included
  std::vector<Access> accesses;
  int token = kNone;       // the caller's name for it
  bool uncertain = false;  // it may be skipped, since a stream was destroyed before it was done
};

struct StreamState {
  bool alive = false;
  uint32_t id = 0;  // never used again
  uint32_t seq = 0;
  uint32_t told_seq = 0;  // up to here the stream itself has said that it is done
  Clock clock;
  bool may_fail = false;
  bp_status failure = BP_OK;
};

struct EventState {
  bool alive = false, timing = false, recorded = false, may_fail = false;
  uint32_t stream = 0;  // id
  uint32_t seq = 0;
  Clock clock;
};

struct MemoryState {
  bool alive = false;
  uint32_t map_access = 0;  // 0: not mapped
  Place mapped;
  uint32_t mapped_bytes = 0;
  std::vector<uint8_t> bytes;
  std::vector<uint8_t> known;  // 0: this byte may have any value

  float float_at(uint64_t offset) const;
  bool all_known(uint64_t begin, uint64_t count) const;
};

class Model {
 public:
  explicit Model(const Traits& traits) : traits_(traits) {}

  const StreamState& stream(int slot) const { return streams_.at(static_cast<size_t>(slot)); }
  const EventState& event(int slot) const { return events_.at(static_cast<size_t>(slot)); }
  const MemoryState& memory(int slot) const { return memories_.at(static_cast<size_t>(slot)); }
  const Traits& traits() const { return traits_; }

  /// The objects are there and the arguments in range.
  bool is_well_formed(const Step& step) const;
  /// Unfinished work that the step would race with.
  std::vector<const Work*> hazards(const Step& step) const;
  bool is_legal(const Step& step) const { return is_well_formed(step) && hazards(step).empty(); }

  /// A legal step was answered BP_OK. `token` names the work, if it is any.
  void apply(const Step& step, int token = kNone);

  /// The host has learned, by a sync or query, that all work of the stream so far is over.
  void learn_stream(int slot, bp_status status);
  /// The stream answered this failure, but work of it may still run.
  void learn_failure(int slot, bp_status status);
  /// The event's recorded work is over, without failure.
  void learn_event(int slot);

  /// A record that the host knows to be over (or an event without one): a query must say so. A
  /// stream must only say again what it has said: an event may be quicker than its own stream.
  bool event_is_over(int slot) const;
  bool stream_is_over(int slot) const { return stream(slot).told_seq == stream(slot).seq; }
  /// No unfinished work writes there.
  bool is_quiet(int memory, uint64_t begin, uint64_t end) const;
  /// Work that has become known to be over since the last call.
  std::vector<Work> take_finished();

 private:
  std::vector<Access> accesses(const Step& step) const;
  bool objects_are_there(const Step& step) const;
  bool is_range(const Place& place, uint64_t bytes) const;
  bool is_operand(const Place& place, uint32_t bytes) const;
  void compute(const Step& step);
  void enqueue(const Step& step, int token);
  void destroy_stream(int slot);
  void forget(const Access& access);
  void finish_known();
  StreamState& stream_at(int slot) { return streams_.at(static_cast<size_t>(slot)); }
  EventState& event_at(int slot) { return events_.at(static_cast<size_t>(slot)); }
  MemoryState& memory_at(int slot) { return memories_.at(static_cast<size_t>(slot)); }

  Traits traits_;
  std::array<StreamState, kStreamSlots> streams_;
  std::array<EventState, kEventSlots> events_;
  std::array<MemoryState, kMemorySlots> memories_;
  uint32_t next_stream_id_ = 1;
  Clock host_;  // what the host knows to be over
  std::vector<Work> unfinished_;
  std::vector<Work> finished_;
};

/// The bytes that a host write with this value leaves: small whole numbers as float.
uint8_t written_byte(uint64_t value, uint64_t index);

}  // namespace bp::model

#endif
