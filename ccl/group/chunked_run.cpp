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
  GatheredRanges(const ChunkPlan& plan, HostBuffers buffers) : plan_(plan), buffers_(buffers) {
    for (Room& room : rooms_) {
      room.send.resize(plan.send_blocks * plan.chunk_count * plan.element_bytes);
      room.recv.resize(plan.recv_blocks * plan.chunk_count * plan.element_bytes);
    }
  }

  Result<bool> bring(uint64_t index) override {
    Room& room = rooms_[index % kTracks];
    if (index + 1 == room.brought) return true;
    std::byte* to = room.send.data();
    for (uint64_t block = 0; block < plan_.send_blocks; ++block) {
      to = copy(to, buffers_.send, plan_.send_part(block, index));
    }
    room.brought = index + 1;
    return true;
  }
  HostBuffers at(uint64_t index) const override {
    const Room& room = rooms_[index % kTracks];
    return {room.send.data(), const_cast<std::byte*>(room.recv.data())};
  }
  Status take(uint64_t index) override {
    const std::byte* from = rooms_[index % kTracks].recv.data();
    for (uint64_t block = 0; block < plan_.recv_blocks; ++block) {
      const Block part = plan_.recv_part(block, index);
      const uint64_t bytes = part.count * plan_.element_bytes;
      if (bytes > 0) std::memcpy(buffers_.recv + part.first * plan_.element_bytes, from, bytes);
      from += bytes;
    }
    return {};
  }

 private:
  /// The place behind it.
  std::byte* copy(std::byte* to, const std::byte* from, const Block& part) const {
    const uint64_t bytes = part.count * plan_.element_bytes;
    if (bytes > 0) std::memcpy(to, from + part.first * plan_.element_bytes, bytes);
    return to + bytes;
  }

  /// For the chunks of one track.
  struct Room {
    std::vector<std::byte> send;
    std::vector<std::byte> recv;
    uint64_t brought = 0;  // the chunk that was, plus 1
  };

  const ChunkPlan plan_;
  const HostBuffers buffers_;
  std::array<Room, kTracks> rooms_;
};

/// Of blocks that differ in size.
void list_blocks(const CheckedCall& call, RankPlace place, ChunkPlan* plan) {
  const Blocks& blocks = *call.blocks;
  const auto list = [&](const BlockLayout& layout, uint64_t count, bool is_of_blocks) {
    std::vector<Block> listed;
    for (uint32_t block = 0; block < count; ++block) {
      listed.push_back({layout.first(block), layout.count(block)});
    }
    if (!is_of_blocks && count > 0) listed = {{0, layout.count(place.rank)}};
    return listed;
  };
  const KindInfo& kind = kind_info(call.operation.kind);
  const bool is_all_to_all = call.operation.kind == Kind::kAllToAll;
  const BlockLayout& send = is_all_to_all ? blocks.send : blocks.all;
  plan->send_listed = list(send, plan->send_blocks, is_of_blocks(kind.send));
  plan->recv_listed = list(blocks.all, plan->recv_blocks, is_of_blocks(kind.recv));
  plan->count = blocks.all.largest_count();
  if (is_all_to_all) plan->count = std::max(plan->count, blocks.send.largest_count());
  plan->chunk_count = plan->count;
}

}  // namespace

bool fits_chunk(const CheckedCall& call, RankPlace place, uint64_t chunk_bytes) {
  const Operation& operation = call.operation;
  if (operation.kind == Kind::kBarrier || chunk_bytes == 0) return true;
  // Nobody knows whether what others have of it fits.
  if (operation.blocks == kOwnBlocks) return false;
  const KindInfo& kind = kind_info(operation.kind);
  const bool has_blocks = is_of_blocks(kind.send) || is_of_blocks(kind.recv);
  uint64_t of_each = dtype_bits(operation.dtype) / 8;
  if (has_blocks && operation.blocks == 0) of_each *= place.rank_count;
  return checked_mul(of_each, operation.count).value_or(UINT64_MAX) <= chunk_bytes;
}

ChunkPlan plan_chunks(const CheckedCall& call, RankPlace place, uint64_t chunk_bytes) {
  const Operation& operation = call.operation;
  const KindInfo& kind = kind_info(operation.kind);
  ChunkPlan plan;
  plan.count = operation.count;
  plan.chunk_count = operation.count;
  if (operation.kind == Kind::kBarrier) return plan;
  plan.element_bytes = dtype_bits(operation.dtype) / 8;
  plan.send_blocks = blocks_of(kind.send, operation, place);
  plan.recv_blocks = blocks_of(kind.recv, operation, place);
  plan.has_blocks = is_of_blocks(kind.send) || is_of_blocks(kind.recv);
  if (call.blocks) list_blocks(call, place, &plan);
  if (fits_chunk(call, place, chunk_bytes)) return plan;
  const uint64_t least = plan.element_bytes * (plan.has_blocks ? place.rank_count : 1);
  // Whole vectors for the kernels that reduce.
  constexpr uint64_t kVector = 64;
  const uint64_t most = std::max<uint64_t>(1, chunk_bytes / least);
  plan.chunk_count = std::min(plan.count, most < kVector ? most : most / kVector * kVector);
  return plan;
}

Result<Blocks> blocks_of_chunk(const Blocks& blocks, const ChunkPlan& plan, uint64_t index) {
  const auto cut = [&](const BlockLayout& layout) {
    std::vector<uint64_t> counts;
    for (uint32_t block = 0; block < layout.size(); ++block) {
      counts.push_back(plan.part_of({0, layout.count(block)}, index).count);
    }
    return BlockLayout::packed(counts);
  };
  return contain([&]() -> Result<Blocks> {
    Blocks chunk;
    BP_TRY_ASSIGN(chunk.all, cut(blocks.all));
    BP_TRY_ASSIGN(chunk.send, cut(blocks.send));
    return chunk;
  });
}

Result<std::unique_ptr<ChunkMemory>> make_host_chunks(const ChunkPlan& plan, HostBuffers buffers) {
  return contain([&]() -> Result<std::unique_ptr<ChunkMemory>> {
    if (!plan.has_blocks) return std::unique_ptr<ChunkMemory>(new Ranges(plan, buffers));
    return std::unique_ptr<ChunkMemory>(new GatheredRanges(plan, buffers));
  });
}

RunPart ChunkedRun::next_part(Track* track) const {
  const auto begins = [&](size_t number) {
    return number < args_.schedules.size() && args_.schedules[number].first <= track->index;
  };
  while (begins(track->schedule + 1)) ++track->schedule;
  return {args_.schedules[track->schedule].schedule, args_.memory->at(track->index),
          args_.plan.recv_count(track->index)};
}

Result<bool> ChunkedRun::bring(uint64_t index) {
  auto is_there = args_.memory->bring(index);
  has_failed_ = !is_there.ok();
  return is_there;
}

Status ChunkedRun::take(uint64_t index) {
  const Status taken = args_.memory->take(index);
  has_failed_ = !taken.ok();
  return taken;
}

/// True: it has no chunk any more.
Result<bool> ChunkedRun::advance_track(Track* track, HostRun& run, Wire& wire) {
  while (track->index < args_.plan.chunks()) {
    BP_TRY_ASSIGN(const bool is_there, bring(track->index));
    if (!track->is_in_chunk) {
      if (!is_there) return false;
      run.begin_part(next_part(track));
      track->is_in_chunk = true;
    }
    BP_TRY_ASSIGN(const bool is_done, run.advance(wire));
    if (!is_done) return false;
    BP_TRY(take(track->index));
    track->index += kTracks;
    track->is_in_chunk = false;
  }
  return true;
}

Result<bool> ChunkedRun::advance(HostRun& run, Wire& wire) {
  BP_TRY_ASSIGN(const bool is_first_done, advance_track(&tracks_[0], run, wire));
  BP_TRY_ASSIGN(const bool is_second_done, advance_track(&tracks_[1], second_run(), wire));
  if (!is_first_done || !is_second_done) return false;
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
