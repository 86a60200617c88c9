// SPDX-License-Identifier: Apache-2.0
//
// Good-fit bins over segments: a block is taken from the smallest bin whose every block is large
// enough, split, and merged with free neighbours when it comes back. Small blocks rest on the shelf
// of the thread that frees them before that. All of it is intrusive, so a hit touches no heap.
#include "core/memory/allocator.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <utility>

#include "core/base/checked.hpp"
#include "core/base/log.hpp"
#include "core/base/thread_counter.hpp"

namespace bp {

struct MemorySegment {
  uint64_t handle;
  uint64_t bytes;
  Allocator::Pool* pool;
  Block* first;
  MemorySegment* next_retired = nullptr;
  bool is_released = false;  // on its way back to the device

  bool is_unused() const { return first->free && first->next == nullptr; }
};

namespace {

/// While a device is called, which may take any time.
class Unlocked {
 public:
  explicit Unlocked(std::unique_lock<std::mutex>& lock) : lock_(lock) { lock_.unlock(); }
  ~Unlocked() { lock_.lock(); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  std::unique_lock<std::mutex>& lock_;
};

constexpr uint64_t kSmallSegment = uint64_t{2} << 20;
constexpr uint64_t kSmallBlock = uint64_t{1} << 20;
constexpr size_t kSlabBlocks = 64;

// Of at most kMostBytes, so that nothing overflows.
uint64_t round_up(uint64_t value, uint64_t granule) {
  return checked_align_up(value, granule).value_or(UINT64_MAX);
}

// A segment for a large block has at most an eighth more, for a somewhat larger block that comes
// later: less makes room for none, and more lies idle until then. One of small blocks, which other
// streams cannot use, takes no more than an eighth of a small device.
uint64_t segment_for(uint64_t bytes, uint64_t memory_bytes) {
  if (bytes > kSmallBlock) return round_up(bytes, std::bit_floor(bytes) / 8);
  const uint64_t most = memory_bytes == 0 ? kSmallSegment : std::bit_floor(memory_bytes) / 8;
  return std::max(bytes, std::min(kSmallSegment, most));
}

// The bin that a free block of this size belongs to: every block in bin b has at least bin_floor(b)
// bytes.
size_t bin_of(uint64_t bytes) {
  const uint64_t granules = bytes / kGranule;
  const auto power = static_cast<size_t>(std::bit_width(granules)) - 1;
  const size_t step = power < 2 ? 0 : static_cast<size_t>((granules >> (power - 2)) & 3);
  return std::min<size_t>(power * 4 + step, 159);
}

// The smallest block of a bin that is large enough, out of the newest few.
Block* best_fit(Block* first, uint64_t bytes) {
  constexpr int kMostLookedAt = 32;
  Block* best = nullptr;
  int looked_at = 0;
  for (Block* block = first; block != nullptr && looked_at < kMostLookedAt;
       block = block->free_next, ++looked_at) {
    if (block->bytes < bytes) continue;
    if (best == nullptr || block->bytes < best->bytes) best = block;
  }
  return best;
}

std::string mib(uint64_t bytes) {
  if (bytes < uint64_t{1} << 20) return std::to_string(bytes) + " bytes";
  const uint64_t rest = bytes & ((uint64_t{1} << 20) - 1);
  return std::to_string(bytes >> 20) + "." + std::to_string(rest * 10 >> 20) + " MiB";
}

}  // namespace

std::string_view memory_tag_name(MemoryTag tag) {
  constexpr std::array<std::string_view, kMemoryTagCount> kNames = {
      "activations", "weights", "inputs and outputs", "workspace", "communication"};
  const auto index = static_cast<size_t>(tag);
  return index < kNames.size() ? kNames[index] : "other";
}

Allocator::Allocator(const DeviceTable& table, std::string device_name, Quiesce quiesce,
                     Explain explain)
    : table_(table),
      device_name_(std::move(device_name)),
      quiesce_(std::move(quiesce)),
      explain_(std::move(explain)) {}

Allocator::~Allocator() { close(); }

// What describes the segments stays: another thread may be letting go of a tensor.
void Allocator::close() {
  std::unique_lock lock(mutex_);
  if (std::exchange(is_closed_, true)) return;
  std::vector<std::unique_ptr<MemorySegment>> segments;
  segments.swap(segments_);
  {
    const Unlocked unlocked(lock);
    for (const auto& segment : segments) {
      if (!segment->is_released) give_back(*segment);
    }
  }
  segments.swap(segments_);
}

void Allocator::give_back(const MemorySegment& segment) noexcept {
  const bp_status code = table_.mem_free(segment.handle);
  if (code == BP_OK || table_.gate->is_abandoned()) return;
  [[maybe_unused]] const Status logged =
      contain([&] { log(BP_LOG_WARNING, explain_(code, "mem_free").to_string()); });
}

Allocator::Pool& Allocator::pool(const void* key) {
  std::lock_guard lock(mutex_);
  if (const auto found = pools_.find(key); found != pools_.end()) return *found->second;
  return *pools_.emplace(key, std::make_unique<Pool>()).first->second;
}

inline Block* Allocator::take_from_shelf(Shelf& shelf, uint64_t bytes, MemoryTag tag) {
  const std::lock_guard lock(shelf.lock);
  Block*& first = shelf.first[bytes / kGranule - 1];
  if (first == nullptr) return nullptr;
  Block* block = first;
  first = block->free_next;
  --shelf.count;
  ++shelf.alloc_count;
  shelf.tag_bytes[static_cast<size_t>(tag)] += static_cast<int64_t>(bytes);
  block->tag = tag;
  return block;
}

Result<Block*> Allocator::allocate(uint64_t bytes, MemoryTag tag, Pool& pool) {
  if (is_small(bytes)) [[likely]] {
    Shelf& shelf = pool.shelves[this_thread_cell() % kShelfCount];
    Block* const block = take_from_shelf(shelf, rounded(bytes), tag);
    if (block != nullptr) [[likely]]
      return block;
  }
  return allocate_elsewhere(bytes, tag, pool);
}

Result<Block*> Allocator::allocate_elsewhere(uint64_t bytes, MemoryTag tag, Pool& pool) {
  if (bytes > kMostBytes) {
    const std::lock_guard lock(mutex_);
    return out_of_memory(bytes, tag);
  }
  bytes = rounded(bytes);
  std::unique_lock lock(mutex_);
  reserve_blocks();
  Block* block = take_from_pool(pool, bytes, Fit::kGood);
  if (block == nullptr && bytes > kSmallBlock) block = make_way(pool, bytes, lock);
  if (block == nullptr) {
    BP_TRY_ASSIGN(block, grow_or_trim(pool, bytes, tag, lock));
  }
  block->tag = tag;
  stats_.alloc_count += 1;
  stats_.allocated_bytes += block->bytes;
  tag_bytes_[static_cast<size_t>(tag)] += static_cast<int64_t>(block->bytes);
  stats_.peak_allocated_bytes = std::max(stats_.peak_allocated_bytes, stats_.allocated_bytes);
  return block;
}

Result<Block*> Allocator::grow_or_trim(Pool& pool, uint64_t bytes, MemoryTag tag,
                                       std::unique_lock<std::mutex>& lock) {
  reserve_blocks();
  auto grown = grow(pool, bytes, tag, lock);
  if (grown.ok() || grown.status().code() != BP_OUT_OF_MEMORY) return grown;
  lock.unlock();
  BP_TRY(trim());
  lock.lock();
  reserve_blocks();
  grown = grow(pool, bytes, tag, lock);
  if (grown.ok() || grown.status().code() != BP_OUT_OF_MEMORY) return grown;
  // What others gave back meanwhile, and what lies where it had better not be taken from.
  if (Block* block = take_from_pool(pool, bytes, Fit::kAnywhere); block != nullptr) return block;
  return grown;
}

void Allocator::free(Block* block) {
  Pool& pool = *block->segment->pool;
  if (!is_small(block->bytes)) [[unlikely]]
    return free_large(pool, block);
  Block* surplus = nullptr;
  {
    // A thread that never allocated has no cell, for which memory would be needed.
    Shelf& shelf = pool.shelves[detail::own_cell % kShelfCount];
    const std::lock_guard lock(shelf.lock);
    shelf.tag_bytes[static_cast<size_t>(block->tag)] -= static_cast<int64_t>(block->bytes);
    Block*& first = shelf.first[block->bytes / kGranule - 1];
    block->free_next = first;
    first = block;
    if (++shelf.count > kMostOnShelf) surplus = shelf.take_all();
  }
  if (surplus == nullptr) return;
  const std::lock_guard lock(mutex_);
  put_back_list(pool, surplus);
}

// Apart from free(): what waits for the mutex keeps more at hand than most calls have to do.
[[gnu::noinline]] void Allocator::free_large(Pool& pool, Block* block) {
  const std::lock_guard lock(mutex_);
  stats_.allocated_bytes -= block->bytes;
  tag_bytes_[static_cast<size_t>(block->tag)] -= static_cast<int64_t>(block->bytes);
  put_back(pool, block);
}

[[gnu::noinline]] Block* Allocator::Shelf::take_all() {
  Block* all = nullptr;
  for (Block*& head : first) {
    while (head != nullptr) {
      Block* block = head;
      head = block->free_next;
      block->free_next = all;
      all = block;
    }
  }
  count = 0;
  return all;
}

void Allocator::put_back(Pool& pool, Block* block) {
  if (block->next != nullptr && block->next->free) {
    remove_free(pool, block->next);
    block = merge(block, block->next);
  }
  if (block->previous != nullptr && block->previous->free) {
    remove_free(pool, block->previous);
    block = merge(block->previous, block);
  }
  insert_free(pool, block);
}

void Allocator::put_back_list(Pool& pool, Block* first) {
  while (first != nullptr) {
    Block* block = first;
    first = block->free_next;
    stats_.allocated_bytes -= block->bytes;
    put_back(pool, block);
  }
}

void Allocator::clear_shelves(Pool& pool) {
  for (Shelf& shelf : pool.shelves) {
    Block* all = nullptr;
    {
      const std::lock_guard lock(shelf.lock);
      all = shelf.take_all();
    }
    put_back_list(pool, all);
  }
}

Status Allocator::trim() {
  MemorySegment* retired = nullptr;
  {
    const std::lock_guard lock(mutex_);
    stats_.trim_count += 1;
    for (const auto& [key, pool] : pools_) clear_shelves(*pool);
    retired = retire_unused(nullptr);
  }
  const Status idle = contain([&] { return quiesce_(Need::kRoom); });
  uint64_t released_bytes = 0;
  {
    std::unique_lock lock(mutex_);
    if (idle.ok()) {
      released_bytes = release(retired, lock);
    } else {
      reinstate(retired);
    }
    // What another thread has retired, or is bringing, may be what this one lacks. Its wait ends
    // like this one's.
    constexpr std::chrono::seconds kPatience{10};
    const auto is_settled = [this] { return retired_count_ + growing_count_ == 0; };
    if (idle.ok()) settled_.wait_for(lock, kPatience, is_settled);
  }
  BP_TRY(idle);
  log(BP_LOG_DEBUG, device_name_ + ": trimmed " + mib(released_bytes));
  return {};
}

void Allocator::set_limit_bytes(uint64_t limit_bytes) {
  std::lock_guard lock(mutex_);
  limit_bytes_ = limit_bytes;
}

MemoryStats Allocator::stats() const {
  std::lock_guard lock(mutex_);
  return gather_stats();
}

MemoryStats Allocator::gather_stats() const {
  MemoryStats sum = stats_;
  std::array<int64_t, kMemoryTagCount> tags = tag_bytes_;
  for (const auto& [key, pool] : pools_) {
    for (Shelf& shelf : pool->shelves) {
      const std::lock_guard lock(shelf.lock);
      sum.alloc_count += shelf.alloc_count;
      for (size_t i = 0; i < tags.size(); ++i) tags[i] += shelf.tag_bytes[i];
    }
  }
  sum.allocated_bytes = 0;
  for (size_t i = 0; i < tags.size(); ++i) {
    // Below zero for a moment, where a block moved while the shelves were read one by one.
    sum.tag_bytes[i] = static_cast<uint64_t>(std::max<int64_t>(tags[i], 0));
    sum.allocated_bytes += sum.tag_bytes[i];
  }
  return sum;
}

Block* Allocator::take_from_pool(Pool& pool, uint64_t bytes, Fit fit) {
  if (Block* block = take_from_bins(pool, bytes, fit); block != nullptr) return block;
  clear_shelves(pool);
  return take_from_bins(pool, bytes, fit);
}

Block* Allocator::take_from_bins(Pool& pool, uint64_t bytes, Fit fit) {
  // The bin of `bytes` itself may hold smaller blocks; every block of the next ones fits.
  for (size_t bin = bin_of(bytes); bin < kBinCount; ++bin) {
    const uint64_t rest = pool.filled[bin / 64] >> (bin % 64);
    if (rest == 0) {
      bin = (bin / 64 + 1) * 64 - 1;
      continue;
    }
    bin += static_cast<size_t>(std::countr_zero(rest));
    Block* block = best_fit(pool.bins[bin], bytes);
    if (block == nullptr) continue;
    // A small request must not eat into a large segment: it would keep it from ever going back.
    if (fit == Fit::kGood && bytes <= kSmallBlock && block->segment->bytes > kSmallSegment &&
        block->bytes > 4 * kSmallSegment) {
      return nullptr;
    }
    remove_free(pool, block);
    split(pool, block, bytes);
    return block;
  }
  return nullptr;
}

void Allocator::insert_free(Pool& pool, Block* block) {
  const size_t bin = bin_of(block->bytes);
  block->free = true;
  block->free_previous = nullptr;
  block->free_next = pool.bins[bin];
  if (block->free_next != nullptr) block->free_next->free_previous = block;
  pool.bins[bin] = block;
  pool.filled[bin / 64] |= uint64_t{1} << (bin % 64);
}

void Allocator::remove_free(Pool& pool, Block* block) {
  const size_t bin = bin_of(block->bytes);
  block->free = false;
  if (block->free_next != nullptr) block->free_next->free_previous = block->free_previous;
  if (block->free_previous != nullptr) {
    block->free_previous->free_next = block->free_next;
  } else {
    pool.bins[bin] = block->free_next;
    if (pool.bins[bin] == nullptr) pool.filled[bin / 64] &= ~(uint64_t{1} << (bin % 64));
  }
}

void Allocator::split(Pool& pool, Block* block, uint64_t bytes) {
  if (block->bytes - bytes < kGranule) return;
  Block* rest = new_block();
  rest->handle = block->handle;
  rest->offset_bytes = block->offset_bytes + bytes;
  rest->bytes = block->bytes - bytes;
  rest->segment = block->segment;
  rest->previous = block;
  rest->next = block->next;
  if (rest->next != nullptr) rest->next->previous = rest;
  block->next = rest;
  block->bytes = bytes;
  insert_free(pool, rest);
}

Block* Allocator::merge(Block* left, Block* right) {
  left->bytes += right->bytes;
  left->next = right->next;
  if (left->next != nullptr) left->next->previous = left;
  delete_block(right);
  return left;
}

// Before a pool grows for a large block, its unused segments, which were all too small, go back:
// sizes that change from run to run would else leave a segment for each of them.
Block* Allocator::make_way(Pool& pool, uint64_t bytes, std::unique_lock<std::mutex>& lock) {
  clear_shelves(pool);
  MemorySegment* const retired = retire_unused(&pool);
  if (retired == nullptr) return nullptr;
  lock.unlock();
  const Status idle = contain([&] { return quiesce_(Need::kTidiness); });
  lock.lock();
  // Others may have given memory back meanwhile.
  const Status room = contain([&] { reserve_blocks(); });
  Block* const block = room.ok() ? take_from_pool(pool, bytes, Fit::kGood) : nullptr;
  if (block == nullptr && idle.ok()) {
    release(retired, lock);
  } else {
    reinstate(retired);
  }
  return block;
}

MemorySegment* Allocator::retire_unused(const Pool* pool) {
  MemorySegment* retired = nullptr;
  if (is_closed_) return nullptr;
  for (const auto& segment : segments_) {
    if ((pool != nullptr && segment->pool != pool) || !segment->is_unused()) continue;
    remove_free(*segment->pool, segment->first);
    segment->next_retired = std::exchange(retired, segment.get());
    ++retired_count_;
  }
  return retired;
}

void Allocator::reinstate(MemorySegment* retired) {
  while (retired != nullptr) {
    MemorySegment& segment = *std::exchange(retired, retired->next_retired);
    insert_free(*segment.pool, segment.first);
    --retired_count_;
  }
  settled_.notify_all();
}

uint64_t Allocator::release(MemorySegment* retired, std::unique_lock<std::mutex>& lock) {
  if (!is_closed_) {  // close() has given them back
    for (auto* segment = retired; segment != nullptr; segment = segment->next_retired) {
      segment->is_released = true;
    }
    const Unlocked unlocked(lock);
    for (auto* segment = retired; segment != nullptr; segment = segment->next_retired) {
      give_back(*segment);
    }
  }
  uint64_t released_bytes = 0;
  while (retired != nullptr) {
    MemorySegment& segment = *std::exchange(retired, retired->next_retired);
    released_bytes += segment.bytes;
    delete_block(std::exchange(segment.first, nullptr));
    --retired_count_;
  }
  std::erase_if(segments_, [](const auto& segment) { return segment->first == nullptr; });
  stats_.reserved_bytes -= released_bytes;
  settled_.notify_all();
  return released_bytes;
}

Result<Block*> Allocator::grow(Pool& pool, uint64_t bytes, MemoryTag tag,
                               std::unique_lock<std::mutex>& lock) {
  // All that needs host memory comes before the device's is taken, so that none of it is lost.
  auto segment = std::make_unique<MemorySegment>();
  segments_.reserve(segments_.size() + growing_count_ + 1);
  Block* const block = new_block();
  Block* const spare = new_block();  // for split()
  ++growing_count_;
  uint64_t segment_bytes = segment_for(bytes, table_.props.memory_bytes);
  uint64_t handle = 0;
  Status status = contain([&] { return take_segment(segment_bytes, tag, lock, &handle); });
  if (!status.ok() && segment_bytes > bytes) {  // a smaller segment may still fit
    segment_bytes = bytes;
    status = contain([&] { return take_segment(segment_bytes, tag, lock, &handle); });
  }
  --growing_count_;
  settled_.notify_all();
  delete_block(spare);
  if (!status.ok()) {
    delete_block(block);
    return status;
  }
  *segment = {.handle = handle, .bytes = segment_bytes, .pool = &pool, .first = block};
  block->handle = handle;
  block->bytes = segment_bytes;
  block->segment = segment.get();
  segments_.push_back(std::move(segment));
  split(pool, block, bytes);
  return block;
}

Status Allocator::take_segment(uint64_t bytes, MemoryTag tag, std::unique_lock<std::mutex>& lock,
                               uint64_t* out_handle) {
  if (is_closed_) return gone();
  const auto reserved = checked_add(stats_.reserved_bytes, bytes);
  const bool is_above_limit = limit_bytes_ != 0 && (!reserved || *reserved > limit_bytes_);
  const uint64_t most_bytes = table_.props.max_alloc_bytes;
  if (is_above_limit || (most_bytes != 0 && bytes > most_bytes)) return out_of_memory(bytes, tag);
  bp_alloc_args args{};
  args.struct_size = sizeof(args);
  args.bytes = bytes;
  args.alignment_bytes = kGranule;
  args.usage = tag == MemoryTag::kWeights ? BP_USAGE_WEIGHTS
               : tag == MemoryTag::kIo    ? BP_USAGE_IO
                                          : BP_USAGE_ACTIVATIONS;
  stats_.device_alloc_count += 1;
  stats_.reserved_bytes += bytes;  // others count with it while the device is asked
  bp_status code = BP_OK;
  {
    const Unlocked unlocked(lock);
    code = table_.mem_alloc(args, out_handle);
  }
  if (code != BP_OK) {
    stats_.reserved_bytes -= bytes;
    // Taken also where the core has better words, or a later failure would be told in them.
    Status told = explain_(code, "mem_alloc of " + std::to_string(bytes) + " bytes");
    return code == BP_OUT_OF_MEMORY ? out_of_memory(bytes, tag) : told;
  }
  if (const MemorySegment* other = find_overlap(*out_handle, bytes); other != nullptr) {
    // It stays the device's: to free it might free the other.
    stats_.reserved_bytes -= bytes;
    return Status(BP_INTERNAL, device_name_ + ": mem_alloc answered " + std::to_string(bytes) +
                                   " bytes that overlap with " + std::to_string(other->bytes) +
                                   " bytes it gave before: a defect of the plugin");
  }
  stats_.peak_reserved_bytes = std::max(stats_.peak_reserved_bytes, stats_.reserved_bytes);
  if (!is_closed_) return {};
  give_back({.handle = *out_handle, .bytes = bytes, .pool = nullptr, .first = nullptr});
  return gone();
}

const MemorySegment* Allocator::find_overlap(uint64_t handle, uint64_t bytes) const {
  if ((table_.props.flags & BP_DEVICE_ADDRESS_BIT) == 0) return nullptr;
  const auto found = std::find_if(segments_.begin(), segments_.end(), [&](const auto& segment) {
    const bool begins_in_it = handle - segment->handle < segment->bytes;
    return !segment->is_released && (begins_in_it || segment->handle - handle < bytes);
  });
  return found != segments_.end() ? found->get() : nullptr;
}

Status Allocator::gone() const {
  return Status(BP_GONE, device_name_ + " was closed with its Runtime");
}

Status Allocator::out_of_memory(uint64_t bytes, MemoryTag tag) const {
  const MemoryStats stats = gather_stats();
  std::array<size_t, kMemoryTagCount> order{};
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return stats.tag_bytes[a] > stats.tag_bytes[b]; });
  std::string text = device_name_ + ": out of memory for " + mib(bytes) + " of " +
                     std::string(memory_tag_name(tag)) + "; in use " + mib(stats.allocated_bytes) +
                     " of " + mib(stats.reserved_bytes) + " reserved";
  const uint64_t limit_bytes = limit_bytes_ != 0 ? limit_bytes_ : table_.props.memory_bytes;
  if (limit_bytes != 0) text += ", limit " + mib(limit_bytes);
  const uint64_t most_bytes = table_.props.max_alloc_bytes;
  if (most_bytes != 0 && bytes > most_bytes) text += ", at most " + mib(most_bytes) + " at once";
  for (size_t index : order) {
    if (stats.tag_bytes[index] == 0) break;
    text += "; " + std::string(memory_tag_name(static_cast<MemoryTag>(index))) + " " +
            mib(stats.tag_bytes[index]);
  }
  return Status(BP_OUT_OF_MEMORY, text);
}

void Allocator::reserve_blocks() {
  if (unused_blocks_ != nullptr && unused_blocks_->next != nullptr) return;
  block_slabs_.push_back(std::make_unique<Block[]>(kSlabBlocks));
  for (size_t i = 0; i < kSlabBlocks; ++i) {
    block_slabs_.back()[i].next = unused_blocks_;
    unused_blocks_ = &block_slabs_.back()[i];
  }
}

Block* Allocator::new_block() {
  Block* block = unused_blocks_;
  unused_blocks_ = block->next;
  *block = Block{};
  return block;
}

void Allocator::delete_block(Block* block) {
  block->next = unused_blocks_;
  unused_blocks_ = block;
}

}  // namespace bp
