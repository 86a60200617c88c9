// SPDX-License-Identifier: Apache-2.0
//
// A large operation as a row of chunks: ranges of its elements, or of each of its blocks. Two are
// run at a time, so that the messages of one go on while the other is reduced, or waits for a
// handshake; meanwhile the next is brought to the host and the last is taken from there. All ranks
// of a group cut alike, also those whose memory is the host's.
#ifndef BACKPLANE_CCL_GROUP_CHUNKED_RUN_HPP
#define BACKPLANE_CCL_GROUP_CHUNKED_RUN_HPP

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ccl/group/call.hpp"
#include "ccl/group/host_run.hpp"

namespace bp::ccl {

/// How an operation is cut.
struct ChunkPlan {
  uint64_t count = 0;        // elements of the whole, or of the largest block
  uint64_t chunk_count = 0;  // ... of a chunk, but for the last
  uint64_t element_bytes = 1;
  uint64_t send_blocks =
      0;  // of this rank's buffers: 1 where the kind has none, 0 without a buffer
  uint64_t recv_blocks = 0;
  bool has_blocks = false;  // on some rank
  /// Where blocks differ in size: those of this rank's buffers, one where a buffer has none.
  std::vector<Block> send_listed = {};
  std::vector<Block> recv_listed = {};

  bool is_cut() const { return chunk_count < count; }
  uint64_t chunks() const { return is_cut() ? (count + chunk_count - 1) / chunk_count : 1; }
  uint64_t first(uint64_t index) const { return index * chunk_count; }
  uint64_t count_of(uint64_t index) const { return std::min(chunk_count, count - first(index)); }
  uint64_t last_count() const { return count_of(chunks() - 1); }
  /// Where the chunk's part of a block lies in the buffer that has it.
  Block send_part(uint64_t block, uint64_t index) const {
    return part_of(send_listed.empty() ? Block{block * count, count} : send_listed[block], index);
  }
  Block recv_part(uint64_t block, uint64_t index) const {
    return part_of(recv_listed.empty() ? Block{block * count, count} : recv_listed[block], index);
  }
  Block part_of(const Block& block, uint64_t index) const {
    const uint64_t skipped = std::min(first(index), block.count);
    return {block.first + skipped, std::min(chunk_count, block.count - skipped)};
  }
  uint64_t recv_count(uint64_t index) const {
    uint64_t elements = 0;
    for (uint64_t block = 0; block < recv_blocks; ++block) {
      elements += recv_part(block, index).count;
    }
    return elements;
  }
  /// One memory may serve for what is sent and for what is received.
  bool is_in_place() const { return !has_blocks && send_blocks == 1 && recv_blocks == 1; }
};
/// Pure, and alike on all ranks: no buffer of a chunk has more than `chunk_bytes`, unless one
/// element of each block has. 0: one chunk. Of all_to_all whose ranks know their own blocks alone
/// these have as many chunks as their largest block wants; messages of two ranks fit together all
/// the same, since parts of a block are.
/// It is of one chunk. The same on all ranks.
bool fits_chunk(const CheckedCall& call, RankPlace place, uint64_t chunk_bytes);
ChunkPlan plan_chunks(const CheckedCall& call, RankPlace place, uint64_t chunk_bytes);
/// The blocks of chunk `index`, in memory one behind the other. Errors: OUT_OF_MEMORY.
Result<Blocks> blocks_of_chunk(const Blocks& blocks, const ChunkPlan& plan, uint64_t index);

/// Where the chunks of an operation lie while they are sent and received, as many at once as there
/// are tracks. Driven.
class ChunkMemory {
 public:
  virtual ~ChunkMemory() = default;
  /// Begins to bring what is sent in chunk `index` and those behind it, as far as there is room.
  /// True: that of `index` is there. Errors: those of copies.
  virtual Result<bool> bring(uint64_t index) = 0;
  virtual HostBuffers at(uint64_t index) const = 0;
  /// The chunk is over: begins to take what was received to where it is wanted. Errors: as above.
  virtual Status take(uint64_t index) = 0;
  /// Sees which copies have ended. Errors: the failure of one.
  virtual Status ask() { return {}; }
  /// Some had not, when this was last asked.
  virtual bool has_copies() const { return false; }
};
/// Of a rank whose tensors the host may touch. Where blocks are cut their parts are gathered.
/// Errors: OUT_OF_MEMORY.
Result<std::unique_ptr<ChunkMemory>> make_host_chunks(const ChunkPlan& plan, HostBuffers buffers);

/// Of a chunk and those behind it, as far as another one's.
struct ChunkSchedule {
  uint64_t first = 0;
  std::shared_ptr<const Schedule> schedule;
};

/// Driven.
class ChunkedRun {
 public:
  struct Args {
    ChunkPlan plan;
    std::vector<ChunkSchedule> schedules = {};  // the first one from chunk 0 on
    std::unique_ptr<ChunkMemory> memory = {};
    std::unique_ptr<HostRun> second_run = {};
  };
  explicit ChunkedRun(Args args) : args_(std::move(args)) {}

  /// True: all chunks are done, and their results where they are wanted. Errors: the runs'; those
  /// of copies. `run`: of the first track.
  Result<bool> advance(HostRun& run, Wire& wire);
  /// The error was one of copies.
  bool has_failed() const { return has_failed_; }
  /// Of the second track, beside the one that advance() is given.
  HostRun& second_run() const { return *args_.second_run; }
  bool has_copies() const { return args_.memory->has_copies(); }
  /// No copy is on its way, whether the run is over or not.
  bool is_at_rest() noexcept;

 private:
  /// Every second chunk.
  struct Track {
    uint64_t index;       // of the chunk in progress, or the next
    size_t schedule = 0;  // number of the chunk's
    bool is_in_chunk = false;
  };
  Result<bool> bring(uint64_t index);
  Status take(uint64_t index);
  RunPart next_part(Track* track) const;
  Result<bool> advance_track(Track* track, HostRun& run, Wire& wire);

  Args args_;
  std::array<Track, kTracks> tracks_{Track{0}, Track{1}};
  bool has_failed_ = false;
};

}  // namespace bp::ccl

#endif
