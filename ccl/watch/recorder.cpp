// SPDX-License-Identifier: Apache-2.0
//
// A ring of slots, each with a stamp that is its lock and tells readers whether they read a whole.
#include "ccl/watch/recorder.hpp"

#include <algorithm>
#include <thread>

namespace bp::ccl {
namespace {

/// For whoever meets a slot that is being written. A handful of stores is soon over, but their
/// thread may have lost the processor.
[[gnu::noinline]] void let_others_go(int turn) {
  constexpr int kYields = 1000;
  if (turn < kYields) {
    std::this_thread::yield();
  } else {  // a thread of lower priority runs only while none above it does
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

template <class Time>
int64_t ns_of(Time time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

/// Of the closest reading of both clocks: between two readings the thread may lose the processor.
int64_t wall_less_steady_ns() {
  constexpr int kReadings = 5;
  int64_t least_ns = INT64_MAX;
  int64_t offset_ns = 0;
  for (int i = 0; i < kReadings; ++i) {
    const int64_t before_ns = ns_of(Recorder::Clock::now());
    const int64_t wall_ns = ns_of(std::chrono::system_clock::now());
    const int64_t took_ns = ns_of(Recorder::Clock::now()) - before_ns;
    if (took_ns >= least_ns) continue;
    least_ns = took_ns;
    offset_ns = wall_ns - before_ns - took_ns / 2;
  }
  return offset_ns;
}

uint32_t low_half(uint64_t word) { return static_cast<uint32_t>(word); }
uint32_t high_half(uint64_t word) { return static_cast<uint32_t>(word >> 32); }

}  // namespace

Recorder::Recorder()
    : slots_(std::make_unique<Slot[]>(kCapacity)), wall_offset_ns_(wall_less_steady_ns()) {}

/// Takes the slot from an older record. False: a newer one is there already.
bool Recorder::take_for_new(Slot* slot, uint64_t id) {
  uint64_t found = slot->stamp.load(std::memory_order_relaxed);
  for (int turn = 0;;) {
    if (found >= stamp_of(id, kIsScheduled)) return false;
    if ((found & kBusy) != 0) {
      let_others_go(turn++);
      found = slot->stamp.load(std::memory_order_relaxed);
    } else if (slot->stamp.compare_exchange_weak(found, stamp_of(id, kIsScheduled) | kBusy,
                                                 std::memory_order_acquire,
                                                 std::memory_order_relaxed)) {
      return true;
    }
  }
}

/// Takes the slot if the record is still there, and in no later phase. What stays busy keeps its
/// old phase until it is let go with the new one.
bool Recorder::take(Slot* slot, uint64_t id, Phase last_phase) {
  uint64_t found = slot->stamp.load(std::memory_order_relaxed);
  for (int turn = 0;;) {
    if (found < stamp_of(id, kIsScheduled) || (found & ~kBusy) > stamp_of(id, last_phase)) {
      return false;
    }
    if ((found & kBusy) != 0) {
      let_others_go(turn++);
      found = slot->stamp.load(std::memory_order_relaxed);
    } else if (slot->stamp.compare_exchange_weak(found, found | kBusy, std::memory_order_acquire,
                                                 std::memory_order_relaxed)) {
      return true;
    }
  }
}

/// Remembers the sequence of a collective, in case that the ring is full of sends when it is asked.
void Recorder::raise(std::atomic<uint64_t>* latest, const Slot& slot) {
  const auto kind =
      static_cast<Kind>(low_half(slot.words[kKindAndDtype].load(std::memory_order_relaxed)));
  if (kind == Kind::kSend || kind == Kind::kRecv) return;
  const uint64_t sequence = slot.words[kSequence].load(std::memory_order_relaxed);
  uint64_t found = latest->load(std::memory_order_relaxed);
  while (found < sequence &&
         !latest->compare_exchange_weak(found, sequence, std::memory_order_relaxed)) {
  }
}

uint64_t Recorder::begin(const RecordEntry& entry, Clock::time_point now, Phase phase) noexcept {
  const uint64_t id = next_.fetch_add(1, std::memory_order_relaxed);
  Slot* const slot = &slots_[id % kCapacity];
  // The ring is larger than a cache: the slot of the next call comes meanwhile.
  const Slot* const following = &slots_[(id + 1) % kCapacity];
  __builtin_prefetch(following, 1);
  __builtin_prefetch(&following->words[kCreated], 1);
  if (!take_for_new(slot, id)) return id;
  const Operation& operation = entry.operation;
  put(slot, kKindAndDtype, pack(static_cast<uint32_t>(operation.kind), operation.dtype));
  put(slot, kReductionAndRoot, pack(static_cast<uint32_t>(operation.reduction), operation.root));
  put(slot, kCount, operation.count);
  put(slot, kSequence, entry.sequence);
  put(slot, kSendBytes, entry.send_bytes);
  put(slot, kRecvBytes, entry.recv_bytes);
  put(slot, kTimeout, entry.timeout_ns);
  put(slot, kPathAndDeterminism,
      pack(static_cast<uint32_t>(entry.path), operation.is_deterministic ? 1 : 0));
  put(slot, kBlocks, operation.blocks);
  put(slot, kCreated, static_cast<uint64_t>(ns_of(now)));
  put(slot, kStarted, phase == kIsStarted ? static_cast<uint64_t>(ns_of(now)) : 0);
  put(slot, kCompleted, 0);
  put(slot, kError, BP_OK);
  raise(&last_entered_, *slot);
  if (phase == kIsStarted) raise(&last_started_, *slot);
  slot->stamp.store(stamp_of(id, phase), std::memory_order_release);
  return id;
}

void Recorder::started(uint64_t id, Clock::time_point now) noexcept {
  Slot* const slot = &slots_[id % kCapacity];
  if (!take(slot, id, kIsScheduled)) return;
  put(slot, kStarted, static_cast<uint64_t>(ns_of(now)));
  raise(&last_started_, *slot);
  slot->stamp.store(stamp_of(id, kIsStarted), std::memory_order_release);
}

void Recorder::completed(uint64_t id, bp_status code, Clock::time_point now) noexcept {
  Slot* const slot = &slots_[id % kCapacity];
  if (!take(slot, id, kIsStarted)) return;
  put(slot, kCompleted, static_cast<uint64_t>(ns_of(now)));
  put(slot, kError, static_cast<uint64_t>(known_status(code)));
  if (code == BP_OK) raise(&last_completed_, *slot);
  slot->stamp.store(stamp_of(id, kIsOver), std::memory_order_release);
}

int64_t Recorder::wall_ns(uint64_t steady_ns) const {
  return steady_ns == 0 ? 0 : static_cast<int64_t>(steady_ns) + wall_offset_ns_;
}

/// False: there is none, or it is being written for as long as this waits.
bool Recorder::read(const Slot& slot, Record* out_record) const {
  constexpr int kMostTurns = 1100;
  std::array<uint64_t, kWordCount> words = {};
  uint64_t stamp = kBusy;
  for (int turn = 0;; ++turn) {
    stamp = slot.stamp.load(std::memory_order_acquire);
    if (stamp == 0 || turn == kMostTurns) return false;
    if ((stamp & kBusy) == 0) {
      for (size_t i = 0; i < kWordCount; ++i) {
        words[i] = slot.words[i].load(std::memory_order_acquire);
      }
      if (slot.stamp.load(std::memory_order_relaxed) == stamp) break;
    }
    let_others_go(turn);
  }
  RecordEntry& entry = out_record->entry;
  entry.operation.kind = static_cast<Kind>(low_half(words[kKindAndDtype]));
  entry.operation.dtype = high_half(words[kKindAndDtype]);
  entry.operation.reduction = static_cast<Reduction>(low_half(words[kReductionAndRoot]));
  entry.operation.root = high_half(words[kReductionAndRoot]);
  entry.operation.count = words[kCount];
  entry.operation.is_deterministic = high_half(words[kPathAndDeterminism]) != 0;
  entry.operation.blocks = words[kBlocks];
  entry.sequence = words[kSequence];
  entry.send_bytes = words[kSendBytes];
  entry.recv_bytes = words[kRecvBytes];
  entry.timeout_ns = words[kTimeout];
  entry.path = static_cast<OperationPath>(low_half(words[kPathAndDeterminism]));
  out_record->id = (stamp >> 3) - 1;
  out_record->error = static_cast<bp_status>(words[kError]);
  out_record->state = static_cast<RecordState>((stamp >> 1) & 3);
  if (out_record->error != BP_OK) out_record->state = RecordState::kFailed;
  out_record->created_ns = wall_ns(words[kCreated]);
  out_record->started_ns = wall_ns(words[kStarted]);
  out_record->completed_ns = wall_ns(words[kCompleted]);
  return true;
}

std::optional<Operation> Recorder::find_collective(uint64_t sequence) const {
  for (uint64_t i = 0; i < kCapacity; ++i) {
    Record record;
    if (!read(slots_[i], &record)) continue;
    const RecordEntry& entry = record.entry;
    if (!entry.is_of_two() && entry.sequence == sequence) return entry.operation;
  }
  return std::nullopt;
}

std::vector<Record> Recorder::records() const {
  std::vector<Record> records;
  records.reserve(std::min(kCapacity, next_.load(std::memory_order_relaxed)));
  for (uint64_t i = 0; i < kCapacity; ++i) {
    Record record;
    if (read(slots_[i], &record)) records.push_back(record);
  }
  std::sort(records.begin(), records.end(),
            [](const Record& a, const Record& b) { return a.id < b.id; });
  return records;
}

RankDump Recorder::dump(const GroupInfo& group) const {
  RankDump dump;
  dump.group = group;
  dump.records = records();
  // After the records: no record has a sequence above these.
  dump.last = {last_entered_.load(), last_started_.load(), last_completed_.load()};
  set_origin(&dump);
  return dump;
}

Status Recorder::write_dump(const std::string& folder, const GroupInfo& group) const {
  return contain([&] { return write_dump_file(folder, dump(group)); });
}

}  // namespace bp::ccl
