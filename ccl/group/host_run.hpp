// SPDX-License-Identifier: Apache-2.0
//
// One operation on one rank by messages: runs a schedule over host memory. It never waits:
// advance() goes as far as it can, and is called again when something has arrived.
#ifndef BACKPLANE_CCL_GROUP_HOST_RUN_HPP
#define BACKPLANE_CCL_GROUP_HOST_RUN_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ccl/bridge/combiner.hpp"
#include "ccl/engine/engine.hpp"
#include "ccl/group/blocks.hpp"
#include "ccl/group/message.hpp"
#include "ccl/schedule/schedule.hpp"

namespace bp::ccl {

/// A payload that waits for its operation.
struct Arrival {
  Header header;
  uint64_t token;
};

/// What a run needs of its group: messages by rank. All while the messenger is driven.
class Wire {
 public:
  virtual void send(uint32_t rank, const Header& header, const void* data, Transfer* transfer) = 0;
  /// Of payloads of another rank: those of collectives, or of sends alone, on one track.
  struct Queue {
    uint32_t rank = 0;
    bool is_of_two = false;
    uint32_t track = 0;
  };
  /// The oldest that no run has taken; nullptr: none.
  virtual const Arrival* front(const Queue& queue) = 0;
  /// Takes it into memory of its size.
  virtual void receive_front(const Queue& queue, void* into, Transfer* transfer) = 0;
  virtual void cancel(Transfer* transfer) = 0;
  /// "rank 2 (npu:0)".
  virtual std::string rank_name(uint32_t rank) const = 0;

 protected:
  ~Wire() = default;
};

/// The memory of an operation on this rank, as the schedule's buffers name it.
struct HostBuffers {
  const std::byte* send = nullptr;
  std::byte* recv = nullptr;
};

/// What a run does at once: the operation, or a chunk of it.
struct RunPart {
  std::shared_ptr<const Schedule> schedule;
  HostBuffers buffers;
  uint64_t recv_count = 0;  // elements that this rank receives
};

/// What a run needs.
struct HostRunArgs {
  Operation operation;
  uint64_t group = 0;  // as headers have it
  uint64_t sequence = 0;
  RankPlace place;
  uint32_t track = 0;
  RunPart part;                                                       // the first one
  std::vector<std::shared_ptr<const Schedule>> later_schedules = {};  // where those differ
  Combiner* combiner = nullptr;               // where the operation reduces here; outlives the run
  std::shared_ptr<const Blocks> blocks = {};  // null: none, or all of one size
};

class HostRun {
 public:
  /// Errors: OUT_OF_MEMORY for scratch.
  static Result<std::unique_ptr<HostRun>> make(const HostRunArgs& args);
  /// Once more from the beginning, with other memory. None of it is in progress.
  void begin(uint64_t sequence, HostBuffers buffers, Combiner* combiner);

  /// The part before is done; its messages and those of the next are numbered on.
  void begin_part(const RunPart& part);
  /// True: the part is done. False: it waits. An error fails the group: its words tell of both
  /// sides.
  Result<bool> advance(Wire& wire);
  /// No transfer uses memory any more when this returns. Idempotent.
  void cancel(Wire& wire);
  const HostRunArgs& args() const { return args_; }
  bool is_done() const { return is_done_; }
  /// As much as any part needs.
  uint64_t scratch_bytes() const;
  /// Whose messages it waits for now, and who takes its own.
  std::vector<Wire::Queue> waits_for() const;
  /// With an error of advance(): who disagrees or is gone.
  std::optional<uint32_t> culprit() const { return culprit_; }

 private:
  /// A send or recv of the round in progress.
  struct InFlight {
    const Step* step = nullptr;
    Transfer transfer;
    bool has_begun = false;
  };
  explicit HostRun(const HostRunArgs& args);
  std::span<InFlight> in_flight() const { return {flights_.get(), flight_count_}; }
  std::byte* place_of(const Part& part) const;
  Header header_with(uint32_t peer, bool sends) const;
  uint64_t bytes_of(const Part& part) const { return part.count * element_bytes_; }
  void begin_round(Wire& wire);
  Result<bool> messages_are_over(Wire& wire);
  Status begin_receives(Wire& wire);
  Status check_arrival(const Arrival& arrival, const Step& step, uint32_t message, Wire& wire);
  Status tell_difference(const Arrival& arrival, const Header& ours, uint32_t peer, Wire& wire);
  Status run_local(const Step& step);
  Status end_round();
  Status finish();
  Wire::Queue queue_of(uint32_t rank) const { return {rank, is_of_two_, args_.track}; }
  Status blame(uint32_t rank, bp_status code, const std::string& words);

  HostRunArgs args_;
  const uint64_t element_bytes_;
  const bool is_of_two_;
  Header header_;  // of all its messages, but for `step`, `bytes`, and counts of own blocks
  RunPart part_;
  std::unique_ptr<std::byte[]> scratch_;
  size_t next_step_ = 0;  // of the schedule: behind the round in progress
  size_t round_begin_ = 0;
  bool is_in_round_ = false;
  bool is_done_ = false;
  std::unique_ptr<InFlight[]> flights_;  // as many as any round has
  size_t flight_count_ = 0;              // of the round in progress
  std::vector<uint32_t> sent_counts_;    // messages of this operation, by rank
  std::vector<uint32_t> received_counts_;
  std::optional<uint32_t> culprit_;
};

}  // namespace bp::ccl

#endif
