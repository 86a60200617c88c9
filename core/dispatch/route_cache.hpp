// SPDX-License-Identifier: Apache-2.0
//
// Inside core/dispatch: the routes of calls, bounded. Finding one takes no lock and no heap: the
// reader names the entry that it uses (core/base/hazard.hpp), and a thread that adds one beyond the
// bound drops another and frees it once no reader names it.
//
// Who goes first: an entry that was never asked again goes before all that were. So a program with
// endless new shapes does not push out the shapes that it keeps using.
#ifndef BACKPLANE_CORE_DISPATCH_ROUTE_CACHE_HPP
#define BACKPLANE_CORE_DISPATCH_ROUTE_CACHE_HPP

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/base/hash.hpp"
#include "core/base/hazard.hpp"
#include "core/dispatch/dispatcher.hpp"
#include "core/runtime/tensor.hpp"

namespace bp {

/// What a route depends on in one input, wherever that is described.
struct ArgKey {
  uint32_t dtype;
  const Dims& sizes;
  const Dims& strides;
  uint64_t offset_bytes;

  friend bool operator==(const ArgKey& a, const ArgKey& b) {
    if (a.dtype != b.dtype || (a.offset_bytes ^ b.offset_bytes) % 256 != 0) return false;
    if (a.sizes.size() != b.sizes.size()) return false;
    for (size_t i = 0; i < a.sizes.size(); ++i) {  // there are as many strides
      if (a.sizes[i] != b.sizes[i] || a.strides[i] != b.strides[i]) return false;
    }
    return true;
  }
};

/// Told apart by the dtype, so that a tensor's key has no more to compare.
inline constexpr uint32_t kConstantInput = 1u << 31;

inline ArgKey key_of(const ArgType& type) {
  const uint32_t constant = type.is_constant ? kConstantInput : 0;
  return {type.dtype | constant, type.sizes, type.strides, type.offset_bytes};
}
inline ArgKey key_of(const Tensor* tensor) {
  return {tensor->dtype(), tensor->sizes(), tensor->strides(), tensor->offset_bytes()};
}

/// A call as the cache knows it. Input: ArgType or Tensor*.
template <class Input>
struct CallKey {
  const OpSchema& schema;
  OpId op;
  CallMode mode;
  std::span<const Input> inputs;
  const void* attributes;

  /// The operator and the mode in one word. Compared as members they would be read at once right
  /// after they were written one by one, for which the processor waits.
  uint64_t what() const {
    return uint64_t{op} << 33 | uint64_t{mode.any_order_outputs} << 1 |
           (mode.deterministic ? 1 : 0);
  }
  uint64_t hash() const {
    uint64_t hash = mix(hash_attributes(schema, attributes), what());
    for (const Input& input : inputs) {
      const ArgKey key = key_of(input);
      hash = mix(hash, uint64_t{key.dtype} << 16 | key.sizes.size() << 8 | key.offset_bytes % 256);
      for (size_t i = 0; i < key.sizes.size(); ++i) {
        const auto stride = static_cast<uint64_t>(key.strides[i]);
        hash = mix(hash, static_cast<uint64_t>(key.sizes[i]) + stride * 0x9e3779b97f4a7c15u);
      }
    }
    return hash;
  }
};

using RoutePtr = std::shared_ptr<const Route>;

class RouteCache {
 public:
  /// The most entries of a device.
  static constexpr size_t kCapacity = 4096;

  /// Operators are numbers below op_count. `capacity`: a power of two, 8 at least.
  RouteCache(size_t op_count, size_t capacity);
  ~RouteCache();
  RouteCache(const RouteCache&) = delete;
  RouteCache& operator=(const RouteCache&) = delete;

  /// The route of a call, which lives as long as `hazard` keeps it; nullptr: none is known, or
  /// the thread has no place to keep it. Any thread.
  template <class Input>
  const RoutePtr* find(const CallKey<Input>& call, Hazard* hazard) const {
    const Entry* entry = hazard->protect(latest_[call.op]);
    if (entry != nullptr && entry->fits(call)) [[likely]] {
      entry->touch();
      return &entry->route;
    }
    return find_elsewhere(call, hazard);
  }
  /// find(), where the caller keeps the route. Takes a lock only in a thread without a place. Any
  /// thread.
  RoutePtr find_shared(const CallKey<ArgType>& call) const;

  /// Keeps a route, and drops another beyond the bound. What was kept for the same call before
  /// stays. Frees what was dropped earlier, which may call the plugin. Throws bad_alloc, and then
  /// nothing was kept. Any thread.
  void insert(const CallKey<ArgType>& call, Attributes attributes, RoutePtr route);

  /// All entries kept. Any thread.
  size_t size() const;
  /// All entries dropped so far. Any thread.
  uint64_t dropped_count() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  struct Entry {
    uint64_t what = 0;  // CallKey::what()
    uint64_t hash = 0;
    std::vector<ArgType> inputs;  // without host data
    Attributes attributes;
    RoutePtr route;
    mutable std::atomic<bool> asked{false};  // since it was last looked at by the one who drops
    bool is_settled = false;  // under mutex_: no reader can make it the latest any more

    OpId op() const { return static_cast<OpId>(what >> 33); }
    template <class Input>
    [[gnu::always_inline]] bool fits(const CallKey<Input>& call) const {
      if (what != call.what()) return false;
      if (inputs.size() != call.inputs.size()) return false;
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (!(key_of(inputs[i]) == key_of(call.inputs[i]))) return false;
      }
      return call.schema.attrs.empty() ||
             equal_attributes(call.schema, attributes.data(), call.attributes);
    }
    // Readers of one entry share its cache line: it is written once.
    void touch() const {
      if (!asked.load(std::memory_order_relaxed)) asked.store(true, std::memory_order_relaxed);
    }
  };

  static constexpr size_t kWays = 4;
  static constexpr size_t kMostUnfreed = 64;
  static constexpr uint64_t kDropsPerLook = 4;
  /// One cache line. The hash spares readers from looking at entries of other calls.
  struct alignas(64) Bucket {
    std::array<std::atomic<uint64_t>, kWays> hashes{};
    std::array<std::atomic<const Entry*>, kWays> entries{};
  };

  template <class Input>
  const RoutePtr* find_elsewhere(const CallKey<Input>& call, Hazard* hazard) const {
    const uint64_t hash = call.hash();
    for (const size_t neighbour : {size_t{0}, size_t{1}}) {
      const Bucket& bucket = buckets_[(hash & mask_) ^ neighbour];
      for (size_t way = 0; way < kWays; ++way) {
        if (bucket.hashes[way].load(std::memory_order_relaxed) != hash) continue;
        const Entry* entry = hazard->protect(bucket.entries[way]);
        if (entry == nullptr || !entry->fits(call)) continue;
        entry->touch();
        latest_[call.op].store(entry, std::memory_order_release);
        return &entry->route;
      }
    }
    return nullptr;
  }

  using Line = std::list<Entry>;

  RoutePtr find_locked(const CallKey<ArgType>& call) const;
  void place(Entry* entry);
  void hide(Entry* entry);
  void drop_one();
  void keep_front(Line* line);
  void look_at_oldest_kept();
  Line take_unused();

  const size_t capacity_;
  const size_t mask_;
  const std::unique_ptr<Bucket[]> buckets_;
  /// By operator, what was found last: programs mostly call an operator as the time before.
  mutable std::vector<std::atomic<const Entry*>> latest_;
  std::atomic<uint64_t> dropped_{0};

  mutable std::mutex mutex_;
  Line young_;    // not asked again yet, the oldest first
  Line kept_;     // asked again, the oldest first
  Line unfreed_;  // dropped; readers may still use them
};

inline const Route* Dispatcher::find(OpId op, std::span<Tensor* const> inputs,
                                     const void* attributes, bool deterministic,
                                     Hazard* hazard) const {
  for (const Tensor* input : inputs) {
    if (input == nullptr || input->device() != &device_) return nullptr;
  }
  const CallKey<Tensor*> call{
      registry_.schema(op), op, {.deterministic = deterministic}, inputs, attributes};
  const RoutePtr* found = routes_->find(call, hazard);
  return found == nullptr ? nullptr : found->get();
}

}  // namespace bp

#endif
