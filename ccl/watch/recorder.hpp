// SPDX-License-Identifier: Apache-2.0
//
// The latest operations of one process group on one rank, always recorded: what hung and who is
// missing is asked after the fact. Nothing here allocates or waits for long once it is made.
#ifndef BACKPLANE_CCL_WATCH_RECORDER_HPP
#define BACKPLANE_CCL_WATCH_RECORDER_HPP

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ccl/watch/dump.hpp"
#include "ccl/watch/record.hpp"
#include "core/base/status.hpp"

namespace bp::ccl {

/// Any thread, as many at once as like; readers stop no writer. Whoever has read the clock already
/// gives the time, since reading it costs more than all else here.
class Recorder {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr uint64_t kCapacity = 4096;

  Recorder();

  /// A call; answers the number of its record.
  uint64_t begin(const RecordEntry& entry, Clock::time_point now = Clock::now()) noexcept {
    return begin(entry, now, kIsScheduled);
  }
  /// ... and its data moves at once.
  uint64_t begin_started(const RecordEntry& entry, Clock::time_point now) noexcept {
    return begin(entry, now, kIsStarted);
  }
  /// Its data moves. The first time counts; no effect once it is completed, or when kCapacity
  /// others began since.
  void started(uint64_t id, Clock::time_point now = Clock::now()) noexcept;
  /// BP_OK, or what it failed with. The first time counts.
  void completed(uint64_t id, bp_status code, Clock::time_point now = Clock::now()) noexcept;

  /// The collective with this sequence; nullopt: it was not called, or kCapacity others were since.
  std::optional<Operation> find_collective(uint64_t sequence) const;
  /// The latest kCapacity, by number. Each is whole; they need not be of one moment.
  std::vector<Record> records() const;
  RankDump dump(const GroupInfo& group) const;

  std::string to_json(const GroupInfo& group) const { return dump_text(dump(group)); }
  /// Errors: write_dump_file()'s.
  Status write_dump(const std::string& folder, const GroupInfo& group) const;

 private:
  enum Phase : uint64_t { kIsScheduled, kIsStarted, kIsOver };
  enum Word : size_t {
    kKindAndDtype,
    kReductionAndRoot,
    kCount,
    kSequence,
    kSendBytes,
    kRecvBytes,
    kTimeout,
    kPathAndDeterminism,
    kBlocks,
    kCreated,
    kStarted,
    kCompleted,
    kError,
    kWordCount,
  };
  /// The stamp says which record is in a slot, its phase, and whether it is being written: so it
  /// never takes a value twice, and a reader that finds the same one before and after has read a
  /// whole record.
  struct alignas(64) Slot {
    std::atomic<uint64_t> stamp{0};
    std::array<std::atomic<uint64_t>, kWordCount> words{};
  };

  static constexpr uint64_t kBusy = 1;
  static uint64_t stamp_of(uint64_t id, Phase phase) { return ((id + 1) << 3) | (phase << 1); }
  static uint64_t pack(uint32_t low, uint32_t high) { return low | (uint64_t{high} << 32); }
  static void put(Slot* slot, Word word, uint64_t value) {
    // Release: who reads a value that is being written finds the slot busy, or of another stamp.
    slot->words[word].store(value, std::memory_order_release);
  }
  uint64_t begin(const RecordEntry& entry, Clock::time_point now, Phase phase) noexcept;
  static bool take(Slot* slot, uint64_t id, Phase last_phase);
  static bool take_for_new(Slot* slot, uint64_t id);
  static void raise(std::atomic<uint64_t>* latest, const Slot& slot);
  bool read(const Slot& slot, Record* out_record) const;
  int64_t wall_ns(uint64_t steady_ns) const;

  const std::unique_ptr<Slot[]> slots_;
  const int64_t wall_offset_ns_;  // wall clock less steady clock, when this was made
  // Written by whoever calls, and by whoever drives: apart, so that they do not wait for a line.
  alignas(64) std::atomic<uint64_t> next_{0};
  std::atomic<uint64_t> last_entered_{0};
  alignas(64) std::atomic<uint64_t> last_started_{0};
  std::atomic<uint64_t> last_completed_{0};
};

}  // namespace bp::ccl

#endif
