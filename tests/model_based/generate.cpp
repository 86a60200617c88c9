// SPDX-License-Identifier: Apache-2.0
//
// Proposes calls by weight, makes those legal that would race (by an event or by a wait of the
// host), and plays the patterns that go wrong in practice: diamonds, events recorded anew or
// destroyed while they are waited for, streams destroyed with work pending.
#include "tests/model_based/generate.hpp"

#include <algorithm>
#include <random>

namespace bp::model {
namespace {

constexpr uint32_t kAllocSizes[] = {4, 64, 100, 256, 1000, 1024, 4096};

class Generator {
 public:
  Generator(uint64_t seed, const Traits& traits) : random_(seed), model_(traits) {
    // One sequence in two keeps clear of what makes later answers uncertain.
    destroys_pending_ = chance(50);
  }

  std::vector<Step> run(size_t count);

 private:
  uint64_t below(uint64_t bound) { return random_() % bound; }
  bool chance(uint64_t percent) { return below(100) < percent; }
  int any(int count) { return static_cast<int>(below(static_cast<uint64_t>(count))); }

  bool emit(const Step& step);
  void order(const Step& step);
  void propose();
  void propose_transfer();
  void set_up();
  void diamond();
  void record_again();
  void destroy_waited_event();
  void destroy_busy_stream();

  int stream_slot() { return any(kStreamSlots); }
  int event_slot() { return any(kEventSlots); }
  int device_slot() { return any(kDeviceMemorySlots); }
  int host_slot() { return kDeviceMemorySlots + any(kMemorySlots - kDeviceMemorySlots); }
  int some_stream() { return chance(85) ? stream_slot() : kNone; }
  Place place(int slot, uint32_t bytes);
  uint32_t size_within(int a, int b);
  Step copy(int stream);
  Step fill(int stream);
  Step launch(int stream);
  Step host_call(int stream);
  Step create_or_destroy();
  Step wait_or_ask();
  Step map_or_unmap();
  Step work(int stream);

  std::mt19937_64 random_;
  Model model_;
  std::vector<Step> steps_;
  bool destroys_pending_ = false;
};

/// Adds the step if it is legal, or can be made so.
bool Generator::emit(const Step& step) {
  if (!model_.is_well_formed(step)) return false;
  if (step.op == Op::kStreamDestroy && !destroys_pending_ && !model_.stream_is_over(step.stream)) {
    return false;
  }
  if (!model_.hazards(step).empty()) {
    if (chance(20)) return false;
    order(step);
    if (!model_.is_legal(step)) return false;
  }
  steps_.push_back(step);
  model_.apply(step);
  const bool waits = (step.flags & kNoWait) == 0;
  if (step.op == Op::kStreamSync && waits) model_.learn_stream(step.stream, BP_OK);
  if (step.op == Op::kEventSync && waits && !model_.event(step.event).may_fail) {
    model_.learn_event(step.event);
  }
  return true;
}

/// Puts waits before a step that would race: on the host, or on the step's stream.
void Generator::order(const Step& step) {
  for (int slot = 0; slot < kStreamSlots; ++slot) {
    const auto hazards = model_.hazards(step);
    if (hazards.empty()) return;
    int producer = kNone;
    for (int other = 0; other < kStreamSlots; ++other) {
      if (model_.stream(other).alive && model_.stream(other).id == hazards.front()->stream) {
        producer = other;
      }
    }
    if (producer == kNone) return;
    const int event = event_slot();
    if (step.stream == kNone) {
      const bool by_event =
          chance(50) && emit({.op = Op::kEventRecord, .stream = producer, .event = event});
      emit(by_event ? Step{.op = Op::kEventSync, .event = event}
                    : Step{.op = Op::kStreamSync, .stream = producer});
    } else if (emit({.op = Op::kEventRecord, .stream = producer, .event = event})) {
      emit({.op = Op::kEventWait, .stream = step.stream, .event = event});
    }
  }
}

Place Generator::place(int slot, uint32_t bytes) {
  const MemoryState& memory = model_.memory(slot);
  if (!memory.alive || memory.bytes.size() < bytes) return {slot, 0};
  auto offset = static_cast<uint32_t>(below(memory.bytes.size() - bytes + 1));
  if (chance(80)) offset -= offset % model_.traits().launch_alignment;
  return {slot, offset};
}

/// Bytes that fit into both; mostly whole floats, at times none at all.
uint32_t Generator::size_within(int a, int b) {
  const size_t most = std::min(model_.memory(a).bytes.size(), model_.memory(b).bytes.size());
  if (chance(5) || most == 0) return 0;
  const auto bytes = static_cast<uint32_t>(chance(30) ? most : 1 + below(most));
  return chance(85) ? bytes - bytes % 4 : bytes;
}

Step Generator::copy(int stream) {
  const uint64_t kind = below(3);
  const int dst = kind == 1 ? host_slot() : device_slot();
  const int src = kind == 0 ? host_slot() : device_slot();
  uint32_t bytes = size_within(dst, src);
  if (dst == src) bytes /= 3;
  return {.op = Op::kCopy,
          .stream = stream,
          .dst = place(dst, bytes),
          .src = place(src, bytes),
          .bytes = bytes};
}

Step Generator::fill(int stream) {
  const int dst = device_slot();
  const auto pattern_bytes = static_cast<uint32_t>(1u << below(4));
  const uint32_t bytes = size_within(dst, dst) / pattern_bytes * pattern_bytes;
  // Mostly numbers that kernels may read.
  constexpr uint64_t kTame = 0x4040'0000'c000'0000u;
  return {.op = Op::kFill,
          .stream = stream,
          .dst = place(dst, bytes),
          .bytes = bytes,
          .value = chance(70) ? (pattern_bytes == 4   ? below(2) * 0x41200000u
                                 : pattern_bytes == 8 ? kTame
                                                      : below(2) * 0x4040u)
                              : random_(),
          .pattern_bytes = pattern_bytes};
}

Step Generator::launch(int stream) {
  const int dst = device_slot();
  const int left = device_slot();
  const int right = device_slot();
  const uint32_t bytes =
      std::min(size_within(dst, left), static_cast<uint32_t>(model_.memory(right).bytes.size())) /
      4 * 4;
  const bool add = chance(60);
  return {.op = add ? Op::kAdd : Op::kRelu,
          .stream = stream,
          .dst = place(dst, bytes),
          .src = place(left, bytes),
          .src2 = add ? place(right, bytes) : Place(),
          .bytes = bytes};
}

Step Generator::host_call(int stream) {
  Step step{.op = Op::kHostCall, .stream = stream, .flags = chance(25) ? kSlow : 0};
  const uint64_t kind = below(3);
  const int slot = host_slot();
  if (kind > 0) step.bytes = size_within(slot, slot);
  if (kind == 1) step.src = place(slot, step.bytes);
  if (kind == 2) {
    step.dst = place(slot, step.bytes);
    step.value = below(1000);
  }
  return step;
}

Step Generator::work(int stream) {
  const uint64_t kind = below(10);
  if (kind < 5) return copy(stream);
  if (kind < 7) return launch(stream);
  if (kind < 9 || stream == kNone) return fill(stream);
  return host_call(stream);
}

Step Generator::create_or_destroy() {
  const bool create = chance(60);
  switch (below(3)) {
    case 0:
      return {.op = create ? Op::kStreamCreate : Op::kStreamDestroy, .stream = stream_slot()};
    case 1:
      return {.op = create ? Op::kEventCreate : Op::kEventDestroy,
              .event = event_slot(),
              .flags = create && chance(50) ? kTiming : 0};
    default:
      break;
  }
  const int slot = any(kMemorySlots);
  if (!create) return {.op = Op::kFree, .dst = {slot, 0}};
  return {.op = Op::kAlloc,
          .dst = {slot, 0},
          .bytes = chance(80) ? kAllocSizes[below(std::size(kAllocSizes))]
                              : static_cast<uint32_t>(1 + below(3000)),
          .value = is_host_memory(slot) || chance(70) ? 0 : uint64_t{1} << below(13),
          .flags = is_host_memory(slot) && chance(50) ? kPinned : 0};
}

Step Generator::wait_or_ask() {
  const uint32_t flags = chance(25) ? kNoWait : 0;
  switch (below(6)) {
    case 0:
      return {.op = Op::kStreamSync, .stream = stream_slot(), .flags = flags};
    case 1:
      return {.op = Op::kEventSync, .event = event_slot(), .flags = flags};
    case 2:
    case 3:
      return {.op = Op::kStreamQuery, .stream = stream_slot()};
    case 4:
      return {.op = Op::kEventElapsed, .event = event_slot(), .event2 = event_slot()};
    default:
      return {.op = Op::kEventQuery, .event = event_slot()};
  }
}

Step Generator::map_or_unmap() {
  const int slot = device_slot();
  const MemoryState& memory = model_.memory(slot);
  if (memory.map_access != 0) {
    if ((memory.map_access & kMapWrite) == 0) return {.op = Op::kUnmap, .dst = {slot, 0}};
    const auto bytes = static_cast<uint32_t>(below(memory.mapped_bytes + 1)) / 4 * 4;
    const auto offset = static_cast<uint32_t>(below(memory.mapped_bytes - bytes + 1));
    return {.op = Op::kUnmap,
            .dst = {slot, memory.mapped.offset + offset},
            .bytes = bytes,
            .value = below(1000)};
  }
  const uint32_t bytes = size_within(slot, slot);
  return {.op = Op::kMap,
          .dst = place(slot, bytes),
          .bytes = bytes,
          .flags = static_cast<uint32_t>(1 + below(3))};
}

void Generator::propose() {
  const uint64_t kind = below(100);
  if (kind < 40) {
    emit(work(some_stream()));
  } else if (kind < 52) {
    const bool record = chance(50);
    emit({.op = record ? Op::kEventRecord : Op::kEventWait,
          .stream = stream_slot(),
          .event = event_slot()});
  } else if (kind < 64) {
    emit(create_or_destroy());
  } else if (kind < 76) {
    emit(wait_or_ask());
  } else if (kind < 84) {
    const int slot = host_slot();
    const uint32_t bytes = size_within(slot, slot);
    emit({.op = Op::kWriteHost, .dst = place(slot, bytes), .bytes = bytes, .value = below(1000)});
  } else if (kind < 92) {
    emit(map_or_unmap());
  } else if (kind < 95) {
    diamond();
  } else if (kind < 97) {
    record_again();
  } else if (kind < 99) {
    destroy_waited_event();
  } else {
    destroy_busy_stream();
  }
}

/// One producer, two in the middle, one consumer, each on a stream of its own.
void Generator::diamond() {
  const int first = stream_slot();
  const auto after = [&](int waiter, int producer) {
    const int event = event_slot();
    if (!emit({.op = Op::kEventRecord, .stream = producer, .event = event})) return;
    emit({.op = Op::kEventWait, .stream = waiter, .event = event});
  };
  emit(host_call(first));
  emit(copy(first));
  for (int side = 1; side <= 2; ++side) {
    const int middle = (first + side) % kStreamSlots;
    after(middle, first);
    emit(work(middle));
    after((first + 3) % kStreamSlots, middle);
  }
  emit(work((first + 3) % kStreamSlots));
}

/// The wait must keep to the record that was the latest when it was asked for.
void Generator::record_again() {
  const int event = event_slot();
  const int first = stream_slot();
  const int second = stream_slot();
  const int waiter = stream_slot();
  emit(work(first));
  emit({.op = Op::kEventRecord, .stream = first, .event = event});
  emit({.op = Op::kEventWait, .stream = waiter, .event = event});
  emit(host_call(second));
  emit({.op = Op::kEventRecord, .stream = second, .event = event});
  emit(work(waiter));
}

void Generator::destroy_waited_event() {
  const int event = event_slot();
  const int producer = stream_slot();
  emit(host_call(producer));
  emit(work(producer));
  emit({.op = Op::kEventRecord, .stream = producer, .event = event});
  const int waiter = stream_slot();
  emit({.op = Op::kEventWait, .stream = waiter, .event = event});
  emit({.op = Op::kEventDestroy, .event = event});
  emit(work(waiter));
}

void Generator::destroy_busy_stream() {
  const int stream = stream_slot();
  emit(host_call(stream));
  emit(work(stream));
  emit({.op = Op::kEventRecord, .stream = stream, .event = event_slot()});
  emit({.op = Op::kStreamDestroy, .stream = stream});
}

/// Enough objects that the first proposals find something to work on.
void Generator::set_up() {
  for (int slot = 0; slot < 3; ++slot) {
    emit({.op = Op::kStreamCreate, .stream = slot});
    emit({.op = Op::kEventCreate, .event = slot, .flags = slot == 0 ? kTiming : 0});
    emit({.op = Op::kAlloc, .dst = {slot, 0}, .bytes = 1024});
  }
  for (int slot = kDeviceMemorySlots; slot < kDeviceMemorySlots + 2; ++slot) {
    emit({.op = Op::kAlloc,
          .dst = {slot, 0},
          .bytes = 1024,
          .flags = slot == kDeviceMemorySlots ? kPinned : 0});
    emit({.op = Op::kWriteHost, .dst = {slot, 0}, .bytes = 1024, .value = below(1000)});
  }
  for (int slot = 0; slot < 3; ++slot) {
    emit({.op = Op::kCopy, .dst = {slot, 0}, .src = {kDeviceMemorySlots, 0}, .bytes = 1024});
  }
}

std::vector<Step> Generator::run(size_t count) {
  set_up();
  while (steps_.size() < count) propose();
  return std::move(steps_);
}

}  // namespace

std::vector<Step> generate(uint64_t seed, size_t count, const Traits& traits) {
  return Generator(seed, traits).run(count);
}

}  // namespace bp::model
