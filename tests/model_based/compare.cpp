// SPDX-License-Identifier: Apache-2.0
//
// What the host is entitled to know once it has waited or asked: bytes that no unfinished work
// writes, events and streams that are over, host calls that were made once and in order.
#include <algorithm>
#include <chrono>
#include <thread>

#include "tests/model_based/runner.hpp"

namespace bp::model {
namespace {

template <class Query>
bp_status ask_until_done(Query query) {
  bp_status status = query();
  for (int i = 0; i < 1000 && status == BP_PENDING; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    status = query();
  }
  return status;
}

}  // namespace

bp_status Runner::query_over(bp_stream* stream) const {
  return ask_until_done([&] { return table_.stream_query(stream); });
}
bp_status Runner::query_over(bp_event* event) const {
  return ask_until_done([&] { return table_.event_query(event); });
}

std::string Runner::compare_all() {
  for (auto compare : {&Runner::compare_finished, &Runner::compare_states,
                       &Runner::compare_host_memory, &Runner::compare_device_memory}) {
    std::string problem = (this->*compare)();
    if (!problem.empty()) return problem;
  }
  return {};
}

std::string Runner::compare_finished() {
  for (const Work& work : model_.take_finished()) {
    if (work.token == kNone) continue;
    const auto index = static_cast<size_t>(work.token);
    if (host_calls_[index] == nullptr) {
      if (launch_tokens_[index].expired()) continue;
      return "launch " + std::to_string(work.token) + " is over, but what it needed is still held";
    }
    std::string problem = compare_host_call(*host_calls_[index], work);
    if (!problem.empty()) return problem;
  }
  return {};
}

std::string Runner::compare_host_call(const HostCall& call, const Work& work) {
  const std::string name = "host call " + std::to_string(call.token);
  const std::lock_guard lock(log_mutex_);
  if (call.positions.size() != 1) {
    return name + " is over, but was made " + std::to_string(call.positions.size()) + " times";
  }
  if (call.status != BP_OK && !work.uncertain) {
    return name + " was told status " + std::to_string(call.status) + " though nothing can fail";
  }
  for (size_t i = 0; i < call.seen.size(); ++i) {
    if (call.known[i] == 0 || call.seen[i] == call.expected[i]) continue;
    return name + " saw byte " + std::to_string(i) + " as " + std::to_string(call.seen[i]) +
           ", expected " + std::to_string(call.expected[i]);
  }
  const size_t position = call.positions.front();
  for (const auto& [other, other_position] : done_calls_) {
    // What a destroyed stream waited for may come after its calls.
    const bool same_stream = other.stream == work.stream;
    if (!same_stream && (call.status != BP_OK || other.uncertain)) continue;
    const bool other_first = covers(work.clock, other.stream, other.seq);
    const bool other_last = covers(other.clock, work.stream, work.seq);
    if ((other_first && other_position > position) || (other_last && other_position < position)) {
      return name + " and host call " + std::to_string(other.token) + " were made out of order";
    }
  }
  done_calls_.emplace_back(work, position);
  return {};
}

std::string Runner::compare_states() {
  for (int slot = 0; slot < kEventSlots; ++slot) {
    if (!model_.event(slot).alive || !model_.event_is_over(slot)) continue;
    const bp_status status = query_over(events_[static_cast<size_t>(slot)]);
    if (status == BP_OK || (status != BP_PENDING && model_.event(slot).may_fail)) continue;
    return "event " + std::to_string(slot) + " is over, but a query answers status " +
           std::to_string(status);
  }
  for (int slot = 0; slot < kStreamSlots; ++slot) {
    const StreamState& stream = model_.stream(slot);
    if (!stream.alive || !model_.stream_is_over(slot)) continue;
    const bp_status status = query_over(streams_[static_cast<size_t>(slot)]);
    if (status == stream.failure || (status != BP_PENDING && stream.may_fail)) continue;
    return "stream " + std::to_string(slot) + " is over, but a query answers status " +
           std::to_string(status);
  }
  return {};
}

std::string Runner::compare_bytes(int slot, const std::byte* found, uint64_t begin, uint64_t end) {
  const MemoryState& memory = model_.memory(slot);
  for (uint64_t i = begin; i < end; ++i) {
    const auto byte = static_cast<uint8_t>(found[i - begin]);
    compared_byte_count_ += memory.known[i];
    if (memory.known[i] == 0 || byte == memory.bytes[i]) continue;
    return "memory " + std::to_string(slot) + " byte " + std::to_string(i) + " is " +
           std::to_string(byte) + ", expected " + std::to_string(memory.bytes[i]);
  }
  return {};
}

std::string Runner::compare_host_memory() {
  for (int slot = kDeviceMemorySlots; slot < kMemorySlots; ++slot) {
    const MemoryState& memory = model_.memory(slot);
    if (!memory.alive || !model_.is_quiet(slot, 0, memory.bytes.size())) continue;
    std::string problem = compare_bytes(slot, address({slot, 0}), 0, memory.bytes.size());
    if (!problem.empty()) return problem;
  }
  return {};
}

std::string Runner::compare_device_memory() {
  for (int slot = 0; slot < kDeviceMemorySlots; ++slot) {
    const MemoryState& memory = model_.memory(slot);
    if (!memory.alive || memory.map_access != 0) continue;
    if (!model_.is_quiet(slot, 0, memory.bytes.size())) continue;
    std::vector<std::byte> found(memory.bytes.size());
    bp_copy_args args{};
    args.struct_size = sizeof(args);
    args.kind = BP_COPY_DEVICE_TO_HOST;
    args.dst = {reinterpret_cast<uint64_t>(found.data()), 0};
    args.src = mem({slot, 0});
    args.bytes = found.size();
    const bp_status status = table_.mem_copy(args);
    if (status != BP_OK) {
      return "reading memory " + std::to_string(slot) + " answered status " +
             std::to_string(status);
    }
    std::string problem = compare_bytes(slot, found.data(), 0, found.size());
    if (!problem.empty()) return problem;
  }
  return {};
}

}  // namespace bp::model
