// SPDX-License-Identifier: Apache-2.0
//
// The calls. What is compared, and when, is in compare.cpp.
#include "tests/model_based/runner.hpp"

#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

namespace bp::model {
namespace {

// Far longer than any sequence takes: a hang becomes a mismatch.
constexpr uint64_t kDeadlineNs = 60'000'000'000;
constexpr auto kSlowCall = std::chrono::microseconds(300);

std::string answered(const Step& step, bp_status status) {
  return "`" + to_text(step) + "` answered status " + std::to_string(status);
}

}  // namespace

std::optional<Mismatch> Runner::run(std::span<const Step> steps) {
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!model_.is_legal(steps[i])) continue;
    ++executed_count_;
    waited_ = false;
    std::string problem = execute(steps[i]);
    if (problem.empty() && waited_) problem = compare_all();
    if (!problem.empty()) return Mismatch{i, std::move(problem)};
  }
  std::string problem = finish();
  if (!problem.empty()) return Mismatch{steps.size(), std::move(problem)};
  return std::nullopt;
}

std::string Runner::execute(const Step& step) {
  switch (step.op) {
    case Op::kStreamCreate:
    case Op::kEventCreate:
      return create(step);
    case Op::kStreamDestroy:
    case Op::kEventDestroy:
      return destroy(step);
    case Op::kStreamSync:
    case Op::kStreamQuery:
      return sync_stream(step);
    case Op::kEventSync:
    case Op::kEventQuery:
      return sync_event(step);
    case Op::kEventRecord:
      return accept(step, table_.event_record(events_[static_cast<size_t>(step.event)],
                                              streams_[static_cast<size_t>(step.stream)]));
    case Op::kEventWait:
      return accept(step, table_.event_wait(events_[static_cast<size_t>(step.event)],
                                            streams_[static_cast<size_t>(step.stream)]));
    case Op::kEventElapsed:
      return elapsed(step);
    case Op::kAlloc:
      return allocate(step);
    case Op::kFree:
      return free(step);
    case Op::kWriteHost:
      for (uint32_t i = 0; i < step.bytes; ++i) {
        address(step.dst)[i] = static_cast<std::byte>(written_byte(step.value, i));
      }
      model_.apply(step);
      return {};
    case Op::kCopy:
    case Op::kFill:
      return transfer(step);
    case Op::kHostCall:
      return host_call(step);
    case Op::kAdd:
    case Op::kRelu:
      return launch(step);
    case Op::kMap:
      return map(step);
    case Op::kUnmap:
      return unmap(step);
  }
  return "no such step";
}

bp_mem Runner::mem(const Place& place) const {
  return {memories_[static_cast<size_t>(place.memory)].handle, place.offset};
}

std::byte* Runner::address(const Place& place) const {
  return reinterpret_cast<std::byte*>(memories_[static_cast<size_t>(place.memory)].handle) +
         place.offset;
}

std::string Runner::create(const Step& step) {
  bp_status status = BP_OK;
  if (step.op == Op::kStreamCreate) {
    const bp_stream_args args{sizeof(args), 0};
    status = table_.stream_create(args, &streams_[static_cast<size_t>(step.stream)]);
  } else {
    const bp_event_args args{sizeof(args), (step.flags & kTiming) != 0 ? BP_EVENT_TIMING_BIT : 0u};
    status = table_.event_create(args, &events_[static_cast<size_t>(step.event)]);
  }
  return accept(step, status);
}

std::string Runner::destroy(const Step& step) {
  if (step.op == Op::kEventDestroy) {
    bp_event* event = std::exchange(events_[static_cast<size_t>(step.event)], nullptr);
    return accept(step, table_.event_destroy(event));
  }
  bp_stream* stream = std::exchange(streams_[static_cast<size_t>(step.stream)], nullptr);
  const bp_status status = table_.stream_destroy(stream);
  if (status != BP_OK) return answered(step, status);
  model_.apply(step);
  waited_ = true;
  return {};
}

std::string Runner::sync_stream(const Step& step) {
  bp_stream* stream = streams_[static_cast<size_t>(step.stream)];
  if (step.op == Op::kStreamQuery) {
    return judge_stream(step.stream, table_.stream_query(stream), false);
  }
  const bool waits = (step.flags & kNoWait) == 0;
  const bp_status status = table_.stream_sync(stream, waits ? kDeadlineNs : 0);
  if (!waits && status == BP_TIMEOUT) return judge_stream(step.stream, BP_PENDING, false);
  return judge_stream(step.stream, status, waits);
}

/// `waited`: a failure too means that the stream's work is over.
std::string Runner::judge_stream(int slot, bp_status status, bool waited) {
  const StreamState& stream = model_.stream(slot);
  const std::string name = "stream " + std::to_string(slot);
  if (status == BP_PENDING) {
    if (!model_.stream_is_over(slot)) return {};
    status = query_over(streams_[static_cast<size_t>(slot)]);
    if (status == BP_PENDING) return name + " is pending though its work is over";
  }
  if (status == BP_OK) {
    if (stream.failure != BP_OK) {
      return name + " forgot its failure " + std::to_string(stream.failure);
    }
    model_.learn_stream(slot, BP_OK);
  } else if (status == BP_TIMEOUT || !stream.may_fail) {
    return name + " answered status " + std::to_string(status) + " though nothing of it can fail";
  } else if (stream.failure != BP_OK && stream.failure != status) {
    return name + " answered status " + std::to_string(status) + " after " +
           std::to_string(stream.failure);
  } else if (waited) {
    model_.learn_stream(slot, status);
  } else {
    model_.learn_failure(slot, status);
  }
  waited_ = true;
  return {};
}

std::string Runner::sync_event(const Step& step) {
  bp_event* event = events_[static_cast<size_t>(step.event)];
  if (step.op == Op::kEventQuery) {
    return judge_event(step.event, table_.event_query(event), false);
  }
  const bool waits = (step.flags & kNoWait) == 0;
  const bp_status status = table_.event_sync(event, waits ? kDeadlineNs : 0);
  if (!waits && status == BP_TIMEOUT) return judge_event(step.event, BP_PENDING, false);
  return judge_event(step.event, status, waits);
}

std::string Runner::judge_event(int slot, bp_status status, bool waited) {
  const std::string name = "event " + std::to_string(slot);
  if (status == BP_PENDING && !waited) {
    if (!model_.event_is_over(slot)) return {};
    status = query_over(events_[static_cast<size_t>(slot)]);
    if (status == BP_PENDING) return name + " is pending though its work is over";
  }
  if (status == BP_OK) {
    model_.learn_event(slot);
    waited_ = true;
    return {};
  }
  if (status != BP_TIMEOUT && status != BP_PENDING && model_.event(slot).may_fail) return {};
  return name + " answered status " + std::to_string(status) + " though nothing before it can fail";
}

std::string Runner::elapsed(const Step& step) {
  uint64_t elapsed_ns = UINT64_MAX;
  const bp_status status =
      table_.event_elapsed(events_[static_cast<size_t>(step.event)],
                           events_[static_cast<size_t>(step.event2)], &elapsed_ns);
  const EventState& start = model_.event(step.event);
  const EventState& end = model_.event(step.event2);
  if (status == BP_OK && elapsed_ns == UINT64_MAX) return answered(step, status) + " and no time";
  if (start.may_fail || end.may_fail) return {};
  const bool over = model_.event_is_over(step.event) && model_.event_is_over(step.event2);
  const bool ordered = covers(end.clock, start.stream, start.seq);
  const bool fine = status == BP_OK || (status == BP_PENDING && !over) ||
                    (status == BP_INVALID_ARGUMENT && !ordered);
  return fine ? "" : answered(step, status);
}

std::string Runner::allocate(const Step& step) {
  Memory& memory = memories_[static_cast<size_t>(step.dst.memory)];
  bp_status status = BP_OK;
  uint64_t alignment = 1;
  if (!is_host_memory(step.dst.memory)) {
    bp_alloc_args args{};
    args.struct_size = sizeof(args);
    args.bytes = step.bytes;
    args.alignment_bytes = step.value;
    status = table_.mem_alloc(args, &memory.handle);
    if ((table_.props.flags & BP_DEVICE_ADDRESS_BIT) != 0) {
      alignment = std::max(table_.props.alignment_bytes, step.value);
    }
  } else if ((step.flags & kPinned) != 0) {
    const bp_host_alloc_args args{
        .struct_size = sizeof(bp_host_alloc_args), .flags = 0, .bytes = step.bytes};
    void* ptr = nullptr;
    status = table_.host_alloc(args, &ptr);
    memory.handle = reinterpret_cast<uint64_t>(ptr);
    alignment = 64;
  } else {
    memory.plain = std::make_unique<std::byte[]>(step.bytes);
    memory.handle = reinterpret_cast<uint64_t>(memory.plain.get());
  }
  if (status == BP_OK && memory.handle % alignment != 0) {
    return answered(step, status) + " and a handle that is not aligned to " +
           std::to_string(alignment);
  }
  return accept(step, status);
}

std::string Runner::free(const Step& step) {
  Memory& memory = memories_[static_cast<size_t>(step.dst.memory)];
  bp_status status = BP_OK;
  if (!is_host_memory(step.dst.memory)) {
    status = table_.mem_free(memory.handle);
  } else if (memory.plain == nullptr) {
    status = table_.host_free(reinterpret_cast<void*>(memory.handle));
  }
  memory = {};
  return accept(step, status);
}

std::string Runner::map(const Step& step) {
  bp_map_args args{};
  args.struct_size = sizeof(args);
  args.mem = mem(step.dst);
  args.bytes = step.bytes;
  args.access = step.flags & 3;
  void* ptr = nullptr;
  const bp_status status = table_.mem_map(args, &ptr);
  if (status != BP_OK) return answered(step, status);
  memories_[static_cast<size_t>(step.dst.memory)].mapped = ptr;
  model_.apply(step);
  if ((step.flags & kMapRead) == 0) return {};
  return compare_bytes(step.dst.memory, static_cast<std::byte*>(ptr), step.dst.offset,
                       step.dst.offset + step.bytes);
}

std::string Runner::unmap(const Step& step) {
  const uint32_t begin = model_.memory(step.dst.memory).mapped.offset;
  void* ptr = std::exchange(memories_[static_cast<size_t>(step.dst.memory)].mapped, nullptr);
  for (uint32_t i = 0; i < step.bytes; ++i) {
    static_cast<std::byte*>(ptr)[step.dst.offset - begin + i] =
        static_cast<std::byte>(written_byte(step.value, i));
  }
  return accept(step, table_.mem_unmap(ptr));
}

std::string Runner::transfer(const Step& step) {
  bp_stream* stream = step.stream == kNone ? nullptr : streams_[static_cast<size_t>(step.stream)];
  if (step.op == Op::kFill) {
    bp_fill_args args{};
    args.struct_size = sizeof(args);
    args.dst = mem(step.dst);
    args.bytes = step.bytes;
    args.pattern = step.value;
    args.pattern_bytes = step.pattern_bytes;
    args.stream = stream;
    return accept(step, table_.mem_fill(args));
  }
  bp_copy_args args{};
  args.struct_size = sizeof(args);
  args.kind = is_host_memory(step.src.memory)   ? BP_COPY_HOST_TO_DEVICE
              : is_host_memory(step.dst.memory) ? BP_COPY_DEVICE_TO_HOST
                                                : BP_COPY_DEVICE_TO_DEVICE;
  args.dst = mem(step.dst);
  args.src = mem(step.src);
  args.bytes = step.bytes;
  if (stream == nullptr) return accept(step, table_.mem_copy(args));
  return accept(step, table_.mem_copy_async(stream, args));
}

void Runner::on_host_call(void* user, bp_status status) {
  auto& call = *static_cast<HostCall*>(user);
  if (call.slow) std::this_thread::sleep_for(kSlowCall);
  // After a failure the waits before this call may have been cut short: the memory is not ours.
  if (status == BP_OK && call.source != nullptr) {
    call.seen.resize(call.bytes);
    if (call.bytes > 0) std::memcpy(call.seen.data(), call.source, call.bytes);
  }
  if (status == BP_OK && call.target != nullptr) {
    for (size_t i = 0; i < call.bytes; ++i) {
      call.target[i] = static_cast<std::byte>(written_byte(call.value, i));
    }
  }
  const std::lock_guard lock(call.runner->log_mutex_);
  call.positions.push_back(call.runner->call_count_++);
  call.status = status;
}

std::string Runner::host_call(const Step& step) {
  auto call = std::make_unique<HostCall>();
  call->runner = this;
  call->token = static_cast<int>(host_calls_.size());
  call->slow = (step.flags & kSlow) != 0;
  call->bytes = step.bytes;
  call->value = step.value;
  if (step.src.memory != kNone) {
    const MemoryState& source = model_.memory(step.src.memory);
    const auto part = [&](const std::vector<uint8_t>& bytes) {
      const auto first = bytes.begin() + step.src.offset;
      return std::vector<uint8_t>(first, first + step.bytes);
    };
    call->source = address(step.src);
    call->expected = part(source.bytes);
    call->known = part(source.known);
  } else if (step.dst.memory != kNone) {
    call->target = address(step.dst);
  }
  HostCall* user = call.get();
  host_calls_.push_back(std::move(call));
  launch_tokens_.emplace_back();
  const bp_status status =
      table_.stream_host_call(streams_[static_cast<size_t>(step.stream)], on_host_call, user);
  if (status != BP_OK) return answered(step, status);  // it works on a failed stream too
  model_.apply(step, user->token);
  return {};
}

std::string Runner::launch(const Step& step) {
  const int64_t elements = step.bytes / 4;
  const int64_t stride = 1;
  std::vector<Place> places{step.src};
  if (step.op == Op::kAdd) places.push_back(step.src2);
  places.push_back(step.dst);
  std::vector<bp_tensor> tensors;
  for (const Place& place : places) {
    bp_tensor tensor{};
    tensor.handle = mem(place).handle;
    tensor.offset_bytes = place.offset;
    tensor.storage_bytes = model_.memory(place.memory).bytes.size();
    tensor.dtype = BP_DTYPE_F32;
    tensor.rank = 1;
    tensor.sizes = &elements;
    tensor.strides = &stride;
    tensors.push_back(tensor);
  }
  bp_stream* stream = step.stream == kNone ? nullptr : streams_[static_cast<size_t>(step.stream)];
  auto token = std::make_shared<int>(0);
  host_calls_.emplace_back();
  launch_tokens_.emplace_back(token);
  const bp_status status = target_.launch(step.op, stream, tensors, std::move(token));
  return accept(step, status, static_cast<int>(launch_tokens_.size()) - 1);
}

/// The model follows an accepted call. On a stream that may have failed a refusal is right too.
std::string Runner::accept(const Step& step, bp_status status, int token) {
  if (step.stream == kNone || step.op == Op::kStreamCreate) {
    if (status != BP_OK) return answered(step, status);
    model_.apply(step, token);
    return {};
  }
  const StreamState& stream = model_.stream(step.stream);
  if (status == BP_POISONED && stream.may_fail) return {};
  if (status != BP_OK) return answered(step, status);
  if (stream.failure == BP_OK) {
    model_.apply(step, token);
    return {};
  }
  // A wait for nothing adds no work, so a failed stream may accept it.
  return step.op == Op::kEventWait ? "" : answered(step, status) + " on a failed stream";
}

std::string Runner::finish() {
  for (int slot = 0; slot < kStreamSlots; ++slot) {
    if (!model_.stream(slot).alive) continue;
    std::string problem = sync_stream({.op = Op::kStreamSync, .stream = slot});
    if (!problem.empty()) return problem;
  }
  std::string problem = compare_all();
  if (!problem.empty()) return problem;
  for (const auto& call : host_calls_) {
    if (call == nullptr) continue;
    const std::lock_guard lock(log_mutex_);
    if (call->positions.size() != 1) {
      return "host call " + std::to_string(call->token) + " was made " +
             std::to_string(call->positions.size()) + " times in all";
    }
  }
  return {};
}

void Runner::clean_up() {
  for (bp_stream*& stream : streams_) {
    if (stream != nullptr) table_.stream_destroy(std::exchange(stream, nullptr));
  }
  for (bp_event*& event : events_) {
    if (event != nullptr) table_.event_destroy(std::exchange(event, nullptr));
  }
  for (int slot = 0; slot < kMemorySlots; ++slot) {
    Memory& memory = memories_[static_cast<size_t>(slot)];
    if (memory.mapped != nullptr) table_.mem_unmap(memory.mapped);
    if (memory.handle != 0 && !is_host_memory(slot)) {
      table_.mem_free(memory.handle);
    } else if (memory.handle != 0 && memory.plain == nullptr) {
      table_.host_free(reinterpret_cast<void*>(memory.handle));
    }
    memory = {};
  }
}

}  // namespace bp::model
