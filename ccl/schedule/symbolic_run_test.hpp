// SPDX-License-Identifier: Apache-2.0
//
// Runs the schedules of all ranks on symbols instead of numbers. A value is what it was made of:
// the tree of its combinations, with the contribution of a rank at each leaf. So one run proves
// what a schedule does to any numbers.
#ifndef BACKPLANE_CCL_SCHEDULE_SYMBOLIC_RUN_TEST_HPP
#define BACKPLANE_CCL_SCHEDULE_SYMBOLIC_RUN_TEST_HPP

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ccl/schedule/build.hpp"
#include "ccl/schedule/cost.hpp"

namespace bp::ccl::symbolic {

/// Trees of combinations. Equal trees, operand order included, have one number; that of a leaf is
/// its rank. Numbers are exact: no two different trees share one.
class Expressions {
 public:
  using Id = uint32_t;

  explicit Expressions(uint32_t rank_count);

  uint32_t rank_count() const { return rank_count_; }
  Id combine(Id first, Id second);
  /// Empty: the contribution of each rank is a leaf, once. Else the words say which is not.
  std::string problem_of_leaves(Id id);
  /// ((0 + 1) + 2) + 3..., to the last rank.
  bool is_in_rank_order(Id id) const { return ranks_in_order_[id] == rank_count_; }

 private:
  struct Node {
    Id first;
    Id second;
  };
  void grow();

  uint32_t rank_count_;
  std::vector<Node> nodes_;               // of leaves: nothing
  std::vector<uint32_t> ranks_in_order_;  // of each: how many from rank 0 it has, in order; or 0
  std::vector<bool> is_complete_;         // of each: was found to have every leaf once
  std::vector<Id> slots_;                 // by hash; 0: free
};

/// Elements with one expression: those of the contributions from `element` on.
struct Run {
  uint64_t first = 0;
  uint64_t count = 0;
  Expressions::Id value = 0;
  uint64_t element = 0;

  friend bool operator==(const Run&, const Run&) = default;
};

/// What a buffer holds. Elements that were never written are in no run; neighbours that continue
/// each other are one run, so that equal contents are equal runs.
class Memory {
 public:
  const std::vector<Run>& runs() const { return runs_; }
  /// Into `found`, counted from 0. False: something there was never written.
  bool read(uint64_t first, uint64_t count, std::vector<Run>* found) const;
  void write(uint64_t first, const std::vector<Run>& values);
  void clear() { runs_.clear(); }

 private:
  std::vector<Run> runs_;
  std::vector<Run> rest_;  // of write(), kept for its memory
};

/// One rank as the run sees it.
struct Rank {
  Schedule schedule;
  BufferCounts counts;
  bool is_in_place = false;
  uint64_t own_block = 0;  // in place: where the smaller buffer lies in the larger one
};

/// What a run found.
struct Outcome {
  std::string problem;  // empty: all went well
  Cost cost;            // measured as Cost says
};

/// One group. Its ranks' schedules are run as the runner of the product would, with messages that
/// wait for their other end.
class SymbolicRun {
 public:
  explicit SymbolicRun(Expressions* expressions) : expressions_(*expressions) {}

  /// `hosts`: of each rank, where the schedules know them; else all messages are between hosts.
  Outcome run(Kind kind, const std::vector<Rank>& ranks, std::span<const uint32_t> hosts);
  /// After a run: what the recv buffer of a rank holds, counted from its begin. Until the next
  /// call.
  const std::vector<Run>& received(uint32_t rank);

 private:
  enum Place : uint8_t { kSendMemory, kRecvMemory, kScratchMemory, kMemoryCount };
  struct Spot {
    Place memory = kSendMemory;
    uint64_t first = 0;
    uint64_t count = 0;
    bool is_written = false;
  };
  struct Waiting {
    uint32_t peer;
    const Step* step;
  };
  struct State {
    std::array<Memory, kMemoryCount> memories;
    uint32_t round = 0;    // in progress
    size_t next = 0;       // step after the round in progress
    size_t locals = 0;     // the first of its steps that is no message
    uint32_t open = 0;     // messages of it that are not over
    bool is_over = false;  // the schedule
    std::vector<Waiting> sends_to_here;
    std::vector<Waiting> recvs;
    std::vector<uint64_t> known;    // of barrier: bits of ranks that have come
    std::vector<uint64_t> learned;  // in this round
  };

  void prepare();
  void begin_round(uint32_t rank);
  void post(uint32_t rank, const Step& step);
  void transfer(uint32_t from, const Step& send, uint32_t to, const Step& recv);
  void end_message(uint32_t rank);
  void finish_round(uint32_t rank);
  void run_local(uint32_t rank, const Step& step);
  void check_overlap(uint32_t rank, size_t begin, size_t end);
  void measure(uint32_t rank, size_t begin, size_t end);
  bool is_within_host(uint32_t rank, const Step& step) const;
  void check_barrier();
  std::string stuck_words() const;

  /// Sets the problem where the part is not in the buffer, or must not be written.
  Spot spot(uint32_t rank, const Part& part, bool is_written);
  bool read(uint32_t rank, const Spot& spot, std::vector<Run>* found);
  void fail(uint32_t rank, const std::string& words);

  Kind kind_ = Kind::kBarrier;
  Expressions& expressions_;
  const std::vector<Rank>* ranks_ = nullptr;
  std::span<const uint32_t> hosts_;
  std::vector<State> states_;
  std::vector<uint32_t> ready_;  // ranks whose round is over
  std::vector<Cost> rounds_;     // measured
  std::string problem_;
  std::vector<Run> first_operand_;
  std::vector<Run> second_operand_;
  std::vector<Run> result_;
  std::vector<Spot> spots_;
};

}  // namespace bp::ccl::symbolic

#endif
