// SPDX-License-Identifier: Apache-2.0
//
// See chunked_run.hpp.
#include "ccl/group/chunked_run.hpp"

#include <cstring>
#include <vector>

#include "core/base/checked.hpp"
#include "core/base/dtype.hpp"

namespace bp::ccl {
namespace {

bool is_of_blocks(Extent extent) {
  return extent == Extent::kBlocks || extent == Extent::kBlocksAtRoot;
}

/// Blocks of this rank's buffer.
uint64_t blocks_of(Extent extent, const Operation& operation, RankPlace place) {
  const bool is_at_root = extent == Extent::kCountAtRoot || extent == Extent::kBlocksAtRoot;
  if (extent == Extent::kNone || (is_at_root && operation.root != place.rank)) return 0;
  return is_of_blocks(extent) ? place.rank_count : 1;
}

/// Without blocks a chunk is a range of the tensor itself.
class Ranges final : public ChunkMemory {
 public:
  Ranges(const ChunkPlan& plan, HostBuffers buffers) : plan_(plan), buffers_(buffers) {}
  Result<bool> bring(uint64_t) override { return true; }
  HostBuffers at(uint64_t index) const override {
    const uint64_t offset = plan_.first(index) * plan_.element_bytes;
    HostBuffers chunk;
    if (buffers_.send != nullptr) chunk.send = buffers_.send + offset;
    if (buffers_.recv != nullptr) chunk.recv = buffers_.recv + offset;
    return chunk;
  }
  Status take(uint64_t) override { return {}; }

 private:
  const ChunkPlan plan_;
  const HostBuffers buffers_;
};

/// With blocks it is a range of each of them.
class GatheredRanges final : public ChunkMemory {
 public:
  GatheredRanges(const ChunkPlan& plan, HostBuffers buffers)
      : plan_(plan),
        buffers_(buffers),
        send_(plan.send_blocks * plan.chunk_count * plan.element_bytes),
        recv_(plan.recv_blocks * plan.chunk_count * plan.element_bytes) {}

  Result<bool> bring(uint64_t index) override {
    if (index + 1 == brought_) return true;
    for (uint64_t block = 0; block < plan_.send_blocks; ++block) {
      std::memcpy(send_.data() + block * bytes_of(index), buffers_.send + place_of(block, index),
                  bytes_of(index));
    }
    brought_ = index + 1;
    return true;
  }
  HostBuffers at(uint64_t) const override {
    return {send_.data(), const_cast<std::byte*>(recv_.data())};
  }
  Status take(uint64_t index) override {
    for (uint64_t block = 0; block < plan_.recv_blocks; ++block) {
      std::memcpy(buffers_.recv + place_of(block, index), recv_.data() + block * bytes_of(index),
                  bytes_of(index));
    }
    return {};
  }

 private:
  uint64_t bytes_of(uint64_t index) const { return plan_.count_of(index) * plan_.element_bytes; }
  uint64_t place_of(uint64_t block, uint64_t index) const {
    return (block * plan_.count + plan_.first(index)) * plan_.element_bytes;
  }

  const ChunkPlan plan_;
  const HostBuffers buffers_;
  std::vector<std::byte> send_;
  std::vector<std::byte> recv_;
  uint64_t brought_ = 0;  // chunks
};

}  // namespace

ChunkPlan plan_chunks(const Operation& operation, RankPlace place, uint64_t chunk_bytes) {
  const KindInfo& kind = kind_info(operation.kind);
  ChunkPlan plan;
  plan.count = operation.count;
  plan.chunk_count = operation.count;
  if (operation.kind == Kind::kBarrier) return plan;
  plan.element_bytes = dtype_bits(operation.dtype) / 8;
  plan.send_blocks = blocks_of(kind.send, operation, place);
  plan.recv_blocks = blocks_of(kind.recv, operation, place);
  plan.has_blocks = is_of_blocks(kind.send) || is_of_blocks(kind.recv);
  if (chunk_bytes == 0) return plan;
  const uint64_t least = plan.element_bytes * (plan.has_blocks ? place.rank_count : 1);
  if (checked_mul(least, operation.count).value_or(UINT64_MAX) <= chunk_bytes) return plan;
  // Whole vectors for the kernels that reduce.
  constexpr uint64_t kVector = 64;
  const uint64_t most = std::max<uint64_t>(1, chunk_bytes / least);
  plan.chunk_count = most < kVector ? most : most / kVector * kVector;
  return plan;
}

Result<std::unique_ptr<ChunkMemory>> make_host_chunks(const ChunkPlan& plan, HostBuffers buffers) {
  return contain([&]() -> Result<std::unique_ptr<ChunkMemory>> {
    if (!plan.has_blocks) return std::unique_ptr<ChunkMemory>(new Ranges(plan, buffers));
    return std::unique_ptr<ChunkMemory>(new GatheredRanges(plan, buffers));
  });
}

RunPart ChunkedRun::part() const {
  const bool is_last = index_ + 1 == args_.plan.chunks();
  return {is_last ? args_.last_schedule : args_.schedule, args_.memory->at(index_),
          args_.plan.count_of(index_)};
}

Result<bool> ChunkedRun::bring() {
  auto is_there = args_.memory->bring(index_);
  has_failed_ = !is_there.ok();
  return is_there;
}

Status ChunkedRun::take() {
  const Status taken = args_.memory->take(index_);
  has_failed_ = !taken.ok();
  return taken;
}

Result<bool> ChunkedRun::advance(HostRun& run, Wire& wire) {
  while (index_ < args_.plan.chunks()) {
    BP_TRY_ASSIGN(const bool is_there, bring());
    if (!is_in_chunk_) {
      if (!is_there) return false;
      run.begin_part(part());
      is_in_chunk_ = true;
    }
    BP_TRY_ASSIGN(const bool is_done, run.advance(wire));
    if (!is_done) return false;
    BP_TRY(take());
    ++index_;
    is_in_chunk_ = false;
  }
  const Status asked = args_.memory->ask();
  has_failed_ = !asked.ok();
  BP_TRY(asked);
  return !has_copies();
}

bool ChunkedRun::is_at_rest() noexcept {
  // What has failed has ended, too.
  [[maybe_unused]] const Status asked = contain([this] { return args_.memory->ask(); });
  return !has_copies();
}

}  // namespace bp::ccl
