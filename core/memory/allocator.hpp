// SPDX-License-Identifier: Apache-2.0
//
// The only pool between the core and a device's mem_alloc: segments are taken from the device,
// split into blocks, and kept when blocks come back. Blocks live in the pool of the stream that
// allocated them, so that reuse in that stream's order needs no wait; a thread that frees a block
// that another stream still uses first makes the home stream wait (runtime/storage.cpp).
#ifndef BACKPLANE_CORE_MEMORY_ALLOCATOR_HPP
#define BACKPLANE_CORE_MEMORY_ALLOCATOR_HPP

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/spin_lock.hpp"
#include "core/base/status.hpp"
#include "core/device/device_table.hpp"

namespace bp {

/// What memory is for: the unit of statistics and of out-of-memory reports.
enum class MemoryTag : uint32_t { kActivations, kWeights, kIo, kWorkspace, kComm };
inline constexpr size_t kMemoryTagCount = 5;
std::string_view memory_tag_name(MemoryTag tag);

struct MemoryStats {
  uint64_t allocated_bytes = 0;       // in live blocks, rounding included
  uint64_t reserved_bytes = 0;        // taken from the device
  uint64_t peak_allocated_bytes = 0;  // blocks at hand for a thread's next request included
  uint64_t peak_reserved_bytes = 0;
  uint64_t alloc_count = 0;
  uint64_t device_alloc_count = 0;  // calls of mem_alloc
  uint64_t trim_count = 0;
  std::array<uint64_t, kMemoryTagCount> tag_bytes{};
};

/// Blocks begin at multiples of this, and are multiples of it.
inline constexpr uint64_t kGranule = 256;

struct MemorySegment;

/// A piece of a segment. Owned by its Allocator.
struct alignas(64) Block {  // neighbours belong to different threads
  uint64_t handle = 0;
  uint64_t offset_bytes = 0;
  uint64_t bytes = 0;

  // The allocator's own.
  MemorySegment* segment = nullptr;
  Block* previous = nullptr;  // neighbours in the segment
  Block* next = nullptr;
  Block* free_previous = nullptr;  // neighbours in a bin; next also links unused Block objects
  Block* free_next = nullptr;
  MemoryTag tag = MemoryTag::kActivations;
  bool free = false;
};

class Allocator {
 public:
  /// The free blocks that one stream may take without a wait. Owned by the allocator.
  struct Pool;

  /// A code that a slot answered, and which slot: in the plugin's words.
  using Explain = std::function<Status(bp_status, std::string_view)>;
  /// Why the device's work has to end.
  enum class Need {
    kTidiness,  // for order alone: an error does no harm
    kRoom,      // there is no memory else
  };
  using Quiesce = std::function<Status(Need)>;
  /// `quiesce` waits for all work of the device; called, without locks held, before memory goes
  /// back to it. `table` outlives the allocator.
  Allocator(const DeviceTable& table, std::string device_name, Quiesce quiesce, Explain explain);
  /// close(), unless that came before.
  ~Allocator();
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  /// The pool of the stream that `key` names; made at first use. Any thread.
  Pool& pool(const void* key);
  /// At least `bytes` (0 counts as 1), aligned as the device aligns and to 256 bytes, at home in
  /// `pool`. Errors: OUT_OF_MEMORY, after trimming and one retry, with the largest tags. Any
  /// thread.
  Result<Block*> allocate(uint64_t bytes, MemoryTag tag, Pool& pool);
  /// The block may be handed out again at once, in the order of its home stream. Any thread.
  void free(Block* block);
  /// Gives every segment back, also under live blocks: no work may use them any more. From now on
  /// blocks can be freed, but not allocated.
  void close();
  /// Gives unused segments back to the device. Any thread; blocks until the device is idle.
  Status trim();

  /// 0: no limit but the device's. Counts reserved bytes. Any thread.
  void set_limit_bytes(uint64_t limit_bytes);
  MemoryStats stats() const;

 private:
  static constexpr size_t kBinCount = 160;  // 40 powers of two from 256 bytes, 4 steps each
  static uint64_t rounded(uint64_t bytes) {
    return (std::max<uint64_t>(bytes, 1) + kGranule - 1) / kGranule * kGranule;
  }
  static constexpr size_t kShelfSizes = 64;
  static constexpr size_t kShelfCount = 4;
  static constexpr uint64_t kMostOnShelf = 256;
  struct Shelf;
  static bool is_small(uint64_t rounded_bytes) { return rounded_bytes <= kShelfSizes * kGranule; }

  Result<Block*> allocate_elsewhere(uint64_t bytes, MemoryTag tag, Pool& pool);
  Block* take_from_shelf(Shelf& shelf, uint64_t bytes, MemoryTag tag);
  void free_large(Pool& pool, Block* block);
  enum class Fit {
    kGood,
    kAnywhere,  // a small block even in a large segment
  };
  Block* take_from_pool(Pool& pool, uint64_t bytes, Fit fit);
  Block* take_from_bins(Pool& pool, uint64_t bytes, Fit fit);
  void put_back(Pool& pool, Block* block);
  /// Blocks that came off a shelf, linked by free_next. These two need mutex_.
  void put_back_list(Pool& pool, Block* first);
  void clear_shelves(Pool& pool);
  void insert_free(Pool& pool, Block* block);
  void remove_free(Pool& pool, Block* block);
  void split(Pool& pool, Block* block, uint64_t bytes);
  Block* merge(Block* left, Block* right);
  /// These three let go of the lock while the device is asked, which may take any time, and hold it
  /// again on return.
  Result<Block*> grow(Pool& pool, uint64_t bytes, MemoryTag tag,
                      std::unique_lock<std::mutex>& lock);
  Status take_segment(uint64_t bytes, MemoryTag tag, std::unique_lock<std::mutex>& lock,
                      uint64_t* out_handle);
  Result<Block*> grow_or_trim(Pool& pool, uint64_t bytes, MemoryTag tag,
                              std::unique_lock<std::mutex>& lock);
  Block* make_way(Pool& pool, uint64_t bytes, std::unique_lock<std::mutex>& lock);
  /// Memory goes back to the device in two steps, and the device's work ends in between: unused
  /// segments are retired, so that no thread starts work on them while that is waited for; then
  /// they are released, or reinstated if the wait failed. All three need mutex_; release() lets go
  /// of it while the device is called.
  MemorySegment* retire_unused(const Pool* pool);  // nullptr: of all pools
  uint64_t release(MemorySegment* retired, std::unique_lock<std::mutex>& lock);  // how many bytes
  void give_back(const MemorySegment& segment) noexcept;
  void reinstate(MemorySegment* retired);
  MemoryStats gather_stats() const;                           // needs mutex_
  Status out_of_memory(uint64_t bytes, MemoryTag tag) const;  // needs mutex_
  Status gone() const;
  /// A segment that shares bytes with these, as far as handles are addresses; nullptr: none does.
  const MemorySegment* find_overlap(uint64_t handle, uint64_t bytes) const;
  /// Makes sure of two unused blocks, the most that one allocation takes, so that no host memory
  /// is asked for while lists are being changed.
  void reserve_blocks();
  Block* new_block();
  void delete_block(Block* block);

  const DeviceTable& table_;
  const std::string device_name_;
  const Quiesce quiesce_;
  const Explain explain_;
  mutable std::mutex mutex_;  // a shelf's may be taken under it, never the other way round
  std::unordered_map<const void*, std::unique_ptr<Pool>> pools_;
  std::vector<std::unique_ptr<MemorySegment>> segments_;
  size_t retired_count_ = 0;
  size_t growing_count_ = 0;         // segments that the device is asked for
  std::condition_variable settled_;  // both are 0
  std::vector<std::unique_ptr<Block[]>> block_slabs_;
  Block* unused_blocks_ = nullptr;
  uint64_t limit_bytes_ = 0;
  bool is_closed_ = false;
  MemoryStats stats_;  // allocated_bytes: shelves included; alloc_count: without them
  std::array<int64_t, kMemoryTagCount> tag_bytes_{};  // without what the shelves count
};

/// Small blocks that came back last wait here, by size, for the same size to be asked for again:
/// unmerged, and not free to their neighbours. Merged when there are many of them or the bins have
/// nothing that fits. Threads have different shelves by their cells (base/thread_counter.hpp), so
/// that a few of them never meet at a lock.
struct alignas(64) Allocator::Shelf {
  SpinLock lock;
  std::array<Block*, kShelfSizes> first{};
  uint64_t count = 0;
  uint64_t alloc_count = 0;
  std::array<int64_t, kMemoryTagCount> tag_bytes{};  // negative where others' blocks came back

  Block* take_all();
};

struct Allocator::Pool {
  std::array<Shelf, kShelfCount> shelves;
  std::array<Block*, kBinCount> bins{};
  std::array<uint64_t, (kBinCount + 63) / 64> filled{};
};

}  // namespace bp

#endif
