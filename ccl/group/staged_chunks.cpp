// SPDX-License-Identifier: Apache-2.0
//
// See staged_chunks.hpp.
#include "ccl/group/staged_chunks.hpp"

#include "core/runtime/copy_args.hpp"
#include "core/runtime/runtime.hpp"

namespace bp::ccl {

StagedChunks::StagedChunks(StagedChunksArgs args) : args_(std::move(args)) {
  copies_.reserve(std::max(args_.plan.send_blocks, args_.plan.recv_blocks));
}

Status StagedChunks::ask() {
  Status first;
  for (size_t i = 0; i < states_.size(); ++i) {
    State& state = states_[i];
    if (state != State::kComes && state != State::kGoes) continue;
    DeviceHold& hold = *args_.slots[i].hold;
    const bp_status code = hold.query();
    if (code == BP_PENDING) continue;
    --copy_count_;
    state = code == BP_OK && state == State::kComes ? State::kIsThere : State::kFree;
    if (code != BP_OK && first.ok()) first = hold.explain(code);
  }
  return first;
}

/// What a chunk's copies are: a range of each block, in memory one behind the other.
void StagedChunks::list_copies(uint64_t index, State state) {
  const ChunkPlan& plan = args_.plan;
  const bool comes = state == State::kComes;
  const HostBuffers chunk = at(index);
  const std::byte* host = comes ? chunk.send : chunk.recv;
  const bp_mem device = comes ? args_.send : args_.recv;
  copies_.clear();
  for (uint64_t block = 0; block < (comes ? plan.send_blocks : plan.recv_blocks); ++block) {
    const Block part = comes ? plan.send_part(block, index) : plan.recv_part(block, index);
    const uint64_t bytes = part.count * plan.element_bytes;
    if (bytes == 0) continue;
    const bp_mem there{device.handle, device.offset_bytes + part.first * plan.element_bytes};
    const bp_mem here = host_end(host);
    copies_.push_back(comes ? copy_args(BP_COPY_DEVICE_TO_HOST, here, there, bytes)
                            : copy_args(BP_COPY_HOST_TO_DEVICE, there, here, bytes));
    host += bytes;
  }
}

Status StagedChunks::begin(uint64_t index, State state) {
  const RuntimeUse use(args_.stream->device().runtime());
  if (!use.granted()) return Status(BP_CANCELLED, "the Runtime is being closed");
  BP_TRY(args_.stream->device().check_open());
  list_copies(index, state);
  const size_t slot = slot_of(index);
  if (copies_.empty()) {
    states_[slot] = state == State::kComes ? State::kIsThere : State::kFree;
    return {};
  }
  BP_TRY(args_.slots[slot].hold->copy(*args_.stream, copies_));
  states_[slot] = state;
  ++copy_count_;
  uint64_t bytes = 0;
  for (const bp_copy_args& copy : copies_) bytes += copy.bytes;
  args_.copied_bytes->fetch_add(bytes, std::memory_order_relaxed);
  return {};
}

Result<bool> StagedChunks::bring(uint64_t index) {
  BP_TRY(ask());
  while (next_ < args_.plan.chunks() && states_[slot_of(next_)] == State::kFree) {
    BP_TRY(begin(next_, State::kComes));
    ++next_;
  }
  return index < next_ && states_[slot_of(index)] == State::kIsThere;
}

HostBuffers StagedChunks::at(uint64_t index) const {
  const StagingRing::Slot& slot = args_.slots[slot_of(index)];
  return {args_.plan.is_in_place() ? slot.recv : slot.send, slot.recv};
}

Status StagedChunks::take(uint64_t index) { return begin(index, State::kGoes); }

}  // namespace bp::ccl
