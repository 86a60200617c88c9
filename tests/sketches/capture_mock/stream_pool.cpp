// SPDX-License-Identifier: Apache-2.0
//
// Finding a block that fits and may be used again.
#include "tests/sketches/capture_mock/stream_pool.hpp"

#include <algorithm>

namespace bp::sketch {

StreamPool::~StreamPool() {
  for (const auto& [handle, bytes] : all_) device_.memory().free(handle);
}

PoolBlock StreamPool::take_new(uint64_t bytes, uint64_t alignment_bytes) {
  device_.driver_call();
  const PoolBlock block{device_.memory().alloc(bytes, alignment_bytes), bytes};
  all_[block.handle] = bytes;
  return block;
}

uint64_t StreamPool::alloc(const bp_stream* stream, uint64_t bytes, uint64_t alignment_bytes) {
  const std::scoped_lock lock(mutex_);
  const auto found = std::find_if(idle_.begin(), idle_.end(), [&](const Idle& idle) {
    return idle.block.bytes >= bytes &&
           idle.block.handle % std::max<uint64_t>(alignment_bytes, 1) == 0 &&
           (idle.stream == stream || idle.done->load());
  });
  PoolBlock block{};
  if (found != idle_.end()) {
    block = found->block;
    idle_.erase(found);
  } else {
    block = take_new(bytes, alignment_bytes);
  }
  used_[block.handle] = block.bytes;
  return block.handle;
}

void StreamPool::free(const bp_stream* stream, uint64_t handle,
                      std::shared_ptr<std::atomic<bool>> done) {
  const std::scoped_lock lock(mutex_);
  const auto found = used_.find(handle);
  if (found == used_.end()) sdk::refuse("mem_free_async: the handle is not mem_alloc_async's");
  idle_.push_back({{handle, found->second}, stream, std::move(done)});
  used_.erase(found);
}

PoolBlock StreamPool::take_for_capture(const bp_stream* origin, uint64_t bytes,
                                       uint64_t alignment_bytes) {
  const std::scoped_lock lock(mutex_);
  const auto [first, last] = of_captures_.equal_range(origin);
  const auto found = std::find_if(first, last, [&](const auto& entry) {
    return entry.second.bytes >= bytes &&
           entry.second.handle % std::max<uint64_t>(alignment_bytes, 1) == 0;
  });
  if (found == last) return take_new(bytes, alignment_bytes);
  const PoolBlock block = found->second;
  of_captures_.erase(found);
  return block;
}

void StreamPool::give_from_capture(const bp_stream* origin, const PoolBlock& block) {
  const std::scoped_lock lock(mutex_);
  of_captures_.emplace(origin, block);
}

void StreamPool::forget_stream(const bp_stream* stream) {
  const std::scoped_lock lock(mutex_);
  // A later stream may have the same address; what is idle serves it only once it is done.
  for (Idle& idle : idle_) {
    if (idle.stream == stream) idle.stream = nullptr;
  }
  of_captures_.erase(stream);
}

}  // namespace bp::sketch
