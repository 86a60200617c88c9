// SPDX-License-Identifier: Apache-2.0
//
// A large operation as a row of chunks: ranges of its elements, or of each of its blocks, which are
// run one after the other, so that the next is brought to the host and the last is taken from there
// meanwhile. All ranks of a group cut alike, also those whose memory is the host's.
#ifndef BACKPLANE_CCL_GROUP_CHUNKED_RUN_HPP
#define BACKPLANE_CCL_GROUP_CHUNKED_RUN_HPP

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "ccl/group/host_run.hpp"

namespace bp::ccl {

/// How an operation is cut.
struct ChunkPlan {
  uint64_t count = 0;        // elements of the whole, or of each block
  uint64_t chunk_count = 0;  // ... of a chunk, but for the last
  uint64_t element_bytes = 1;
  uint64_t send_blocks =
      0;  // of this rank's buffers: 1 where the kind has none, 0 without a buffer
  uint64_t recv_blocks = 0;
  bool has_blocks = false;  // on some rank

  bool is_cut() const { return chunk_count < count; }
  uint64_t chunks() const { return is_cut() ? (count + chunk_count - 1) / chunk_count : 1; }
  uint64_t first(uint64_t index) const { return index * chunk_count; }
  uint64_t count_of(uint64_t index) const { return std::min(chunk_count, count - first(index)); }
  uint64_t last_count() const { return count_of(chunks() - 1); }
  /// One memory may serve for what is sent and for what is received.
  bool is_in_place() const { return !has_blocks && send_blocks == 1 && recv_blocks == 1; }
};
/// Pure, and alike on all ranks: no buffer of a chunk has more than `chunk_bytes`, unless one
/// element of each block has. 0: one chunk.
ChunkPlan plan_chunks(const Operation& operation, RankPlace place, uint64_t chunk_bytes);

/// Where the chunks of an operation lie while they are sent and received. Driven.
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

/// Driven.
class ChunkedRun {
 public:
  struct Args {
    ChunkPlan plan;
    std::shared_ptr<const Schedule> schedule = {};       // of a chunk
    std::shared_ptr<const Schedule> last_schedule = {};  // of the last one
    std::unique_ptr<ChunkMemory> memory = {};
  };
  explicit ChunkedRun(Args args) : args_(std::move(args)) {}

  /// True: all chunks are done, and their results where they are wanted. Errors: the run's; those
  /// of copies.
  Result<bool> advance(HostRun& run, Wire& wire);
  /// The error was one of copies.
  bool has_failed() const { return has_failed_; }
  bool has_copies() const { return args_.memory->has_copies(); }
  /// No copy is on its way, whether the run is over or not.
  bool is_at_rest() noexcept;

 private:
  Result<bool> bring();
  Status take();
  RunPart part() const;

  Args args_;
  uint64_t index_ = 0;
  bool is_in_chunk_ = false;
  bool has_failed_ = false;
};

}  // namespace bp::ccl

#endif
