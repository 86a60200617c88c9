// SPDX-License-Identifier: Apache-2.0
//
// The chunks of an operation whose tensors lie where the host cannot touch them: copied to host
// memory before they are sent, and back when they have come, on a stream of the group's own.
#ifndef BACKPLANE_CCL_GROUP_STAGED_CHUNKS_HPP
#define BACKPLANE_CCL_GROUP_STAGED_CHUNKS_HPP

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "ccl/bridge/staging_ring.hpp"
#include "ccl/group/chunked_run.hpp"
#include "core/runtime/stream.hpp"

namespace bp::ccl {

struct StagedChunksArgs {
  ChunkPlan plan;
  bp_mem send{};  // on the stream's device; used by nobody else from the first bring() on
  bp_mem recv{};
  Stream* stream = nullptr;  // for copies alone, which wait for nobody
  std::shared_ptr<StagingRing> ring;
  std::array<StagingRing::Slot, StagingRing::kSlots> slots = {};  // of the ring
  std::atomic<uint64_t>* copied_bytes = nullptr;                  // counts
};

class StagedChunks final : public ChunkMemory {
 public:
  explicit StagedChunks(StagedChunksArgs args);
  Result<bool> bring(uint64_t index) override;
  HostBuffers at(uint64_t index) const override;
  Status take(uint64_t index) override;
  Status ask() override;
  bool has_copies() const override { return copy_count_ > 0; }

 private:
  enum class State : uint8_t { kFree, kComes, kIsThere, kGoes };
  size_t slot_of(uint64_t index) const { return index % StagingRing::kSlots; }
  Status begin(uint64_t index, State state);
  void list_copies(uint64_t index, State state);

  const StagedChunksArgs args_;
  std::array<State, StagingRing::kSlots> states_{};
  size_t copy_count_ = 0;             // slots with copies on their way
  uint64_t next_ = 0;                 // the first chunk that has not begun to come
  std::vector<bp_copy_args> copies_;  // room for those of one chunk
};

}  // namespace bp::ccl

#endif
