// SPDX-License-Identifier: Apache-2.0
//
// What each call does, and what it may not overlap with.
#include "tests/model_based/model.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace bp::model {
namespace {

void merge(Clock* clock, const Clock& other) {
  for (const auto& [stream, seq] : other) (*clock)[stream] = std::max((*clock)[stream], seq);
}

}  // namespace

bool overlap(const Access& a, const Access& b) {
  return a.memory == b.memory && a.begin < b.end && b.begin < a.end;
}

float MemoryState::float_at(uint64_t offset) const {
  float value = 0;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

bool MemoryState::all_known(uint64_t begin, uint64_t count) const {
  const auto first = known.begin() + static_cast<ptrdiff_t>(begin);
  return std::all_of(first, first + static_cast<ptrdiff_t>(count), [](uint8_t k) { return k; });
}

bool covers(const Clock& clock, uint32_t stream, uint32_t seq) {
  const auto found = clock.find(stream);
  return found != clock.end() && found->second >= seq;
}

uint8_t written_byte(uint64_t value, uint64_t index) {
  uint64_t mixed = (value + index / 4) * 0x9e3779b97f4a7c15u;
  mixed ^= mixed >> 29;
  const float number = static_cast<float>(static_cast<int>(mixed % 33) - 16);
  uint8_t bytes[sizeof(number)];
  std::memcpy(bytes, &number, sizeof(number));
  return bytes[index % 4];
}

std::vector<Access> Model::accesses(const Step& step) const {
  const auto range = [&](const Place& place, bool write) {
    return Access{place.memory, place.offset, place.offset + step.bytes, write};
  };
  switch (step.op) {
    case Op::kFree:
    case Op::kMap:
      return {{step.dst.memory, 0, memory(step.dst.memory).bytes.size(), true}};
    case Op::kCopy:
    case Op::kRelu:
      return {range(step.dst, true), range(step.src, false)};
    case Op::kAdd:
      return {range(step.dst, true), range(step.src, false), range(step.src2, false)};
    case Op::kHostCall:
      if (step.src.memory != kNone) return {range(step.src, false)};
      [[fallthrough]];
    case Op::kWriteHost:
    case Op::kFill:
      if (step.dst.memory != kNone) return {range(step.dst, true)};
      return {};
    default:
      return {};
  }
}

std::vector<const Work*> Model::hazards(const Step& step) const {
  const Clock& before = step.stream == kNone ? host_ : stream(step.stream).clock;
  std::vector<const Work*> found;
  const std::vector<Access> own = accesses(step);
  for (const Work& work : unfinished_) {
    if (covers(before, work.stream, work.seq)) continue;
    const bool races = std::any_of(own.begin(), own.end(), [&](const Access& mine) {
      return std::any_of(work.accesses.begin(), work.accesses.end(), [&](const Access& other) {
        return (mine.write || other.write) && overlap(mine, other);
      });
    });
    if (races) found.push_back(&work);
  }
  return found;
}

void Model::apply(const Step& step, int token) {
  switch (step.op) {
    case Op::kStreamCreate:
      stream_at(step.stream) = {};
      stream_at(step.stream).alive = true;
      stream_at(step.stream).id = next_stream_id_++;
      return;
    case Op::kStreamDestroy:
      return destroy_stream(step.stream);
    case Op::kEventCreate:
      event_at(step.event) = {};
      event_at(step.event).alive = true;
      event_at(step.event).timing = (step.flags & kTiming) != 0;
      return;
    case Op::kEventDestroy:
      event_at(step.event).alive = false;
      return;
    case Op::kAlloc:
      memory_at(step.dst.memory) = {};
      memory_at(step.dst.memory).alive = true;
      memory_at(step.dst.memory).bytes.resize(step.bytes);
      memory_at(step.dst.memory).known.resize(step.bytes);
      return;
    case Op::kFree:
      memory_at(step.dst.memory).alive = false;
      return;
    case Op::kMap:
      memory_at(step.dst.memory).map_access = step.flags & 3;
      memory_at(step.dst.memory).mapped = step.dst;
      memory_at(step.dst.memory).mapped_bytes = step.bytes;
      return;
    case Op::kUnmap:
      memory_at(step.dst.memory).map_access = 0;
      return compute(step);
    case Op::kStreamSync:
    case Op::kStreamQuery:
    case Op::kEventSync:
    case Op::kEventQuery:
    case Op::kEventElapsed:
      return;  // the answer decides: learn_stream, learn_event
    default:
      compute(step);
      if (step.stream != kNone) enqueue(step, token);
  }
}

void Model::compute(const Step& step) {
  if (step.dst.memory == kNone) return;
  MemoryState& dst = memory_at(step.dst.memory);
  for (uint32_t i = 0; i < step.bytes; ++i) {
    uint8_t byte = written_byte(step.value, i);
    uint8_t known = 1;
    if (step.op == Op::kFill) {
      byte = static_cast<uint8_t>(step.value >> (8 * (i % step.pattern_bytes)));
    } else if (step.op == Op::kCopy) {
      byte = memory(step.src.memory).bytes[step.src.offset + i];
      known = memory(step.src.memory).known[step.src.offset + i];
    } else if (step.op == Op::kAdd || step.op == Op::kRelu) {
      const uint32_t at = i / 4 * 4;
      const MemoryState& left = memory(step.src.memory);
      float value = left.float_at(step.src.offset + at);
      known = left.all_known(step.src.offset + at, 4) ? 1 : 0;
      if (step.op == Op::kAdd) {
        const MemoryState& right = memory(step.src2.memory);
        value += right.float_at(step.src2.offset + at);
        known = known != 0 && right.all_known(step.src2.offset + at, 4) ? 1 : 0;
      } else if (value < 0) {
        value = 0;
      }
      uint8_t bytes[4];
      std::memcpy(bytes, &value, 4);
      byte = bytes[i % 4];
    }
    dst.bytes[step.dst.offset + i] = byte;
    dst.known[step.dst.offset + i] = known;
  }
}

void Model::enqueue(const Step& step, int token) {
  StreamState& stream = stream_at(step.stream);
  if (step.op == Op::kEventWait) {
    merge(&stream.clock, event(step.event).clock);
    stream.may_fail = stream.may_fail || event(step.event).may_fail;
  }
  stream.clock[stream.id] = ++stream.seq;
  unfinished_.push_back(
      {stream.id, stream.seq, stream.clock, accesses(step), token, stream.may_fail});
  if (stream.may_fail) {
    for (const Access& access : unfinished_.back().accesses) forget(access);
  }
  if (step.op == Op::kEventRecord) {
    EventState& event = event_at(step.event);
    event.recorded = true;
    event.may_fail = stream.may_fail;
    event.stream = stream.id;
    event.seq = stream.seq;
    event.clock = stream.clock;
  }
}

/// Its work is done or abandoned, and with abandoned work everything that was to come after it.
void Model::destroy_stream(int slot) {
  StreamState& dead = stream_at(slot);
  dead.alive = false;
  const uint32_t known = host_[dead.id];
  const auto depends = [&](const Clock& clock) { return covers(clock, dead.id, known + 1); };
  for (Work& work : unfinished_) {
    if (!depends(work.clock)) continue;
    work.uncertain = true;
    for (const Access& access : work.accesses) forget(access);
  }
  for (StreamState& other : streams_) other.may_fail = other.may_fail || depends(other.clock);
  for (EventState& event : events_) event.may_fail = event.may_fail || depends(event.clock);
  host_[dead.id] = dead.seq;
  finish_known();
}

void Model::forget(const Access& access) {
  if (!access.write) return;
  auto& known = memory_at(access.memory).known;
  std::fill(known.begin() + static_cast<ptrdiff_t>(access.begin),
            known.begin() + static_cast<ptrdiff_t>(access.end), uint8_t{0});
}

void Model::learn_stream(int slot, bp_status status) {
  StreamState& stream = stream_at(slot);
  stream.told_seq = stream.seq;
  if (status == BP_OK) {
    stream.may_fail = false;
    merge(&host_, stream.clock);
  } else {
    // Of what it waited for nothing is known: the failure may have come first.
    stream.failure = status;
    host_[stream.id] = stream.seq;
  }
  finish_known();
}

void Model::learn_failure(int slot, bp_status status) { stream_at(slot).failure = status; }

void Model::learn_event(int slot) {
  merge(&host_, event(slot).clock);
  finish_known();
}

void Model::finish_known() {
  std::erase_if(unfinished_, [&](const Work& work) {
    if (!covers(host_, work.stream, work.seq)) return false;
    finished_.push_back(work);
    return true;
  });
}

bool Model::event_is_over(int slot) const {
  const EventState& found = event(slot);
  return !found.recorded || covers(host_, found.stream, found.seq);
}

bool Model::is_quiet(int memory, uint64_t begin, uint64_t end) const {
  return std::none_of(unfinished_.begin(), unfinished_.end(), [&](const Work& work) {
    return std::any_of(work.accesses.begin(), work.accesses.end(), [&](const Access& access) {
      return access.write && overlap(access, {memory, begin, end, false});
    });
  });
}

std::vector<Work> Model::take_finished() { return std::exchange(finished_, {}); }

}  // namespace bp::model
