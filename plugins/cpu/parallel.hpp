// SPDX-License-Identifier: Apache-2.0
//
// All parallelism of this plugin. Our loops and oneDNN share one OpenMP runtime, libgomp, because
// two runtimes in one process fight over the cores. A device opens at most one parallel region at a
// time: a caller that comes while another thread computes runs serial instead of oversubscribing
// the cores or waiting.
#ifndef BACKPLANE_PLUGINS_CPU_PARALLEL_HPP
#define BACKPLANE_PLUGINS_CPU_PARALLEL_HPP

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace bp::cpu {

/// Costs are counted in units of about one addition of two f32 in cache, loads and store included.
/// Opening a region costs some microseconds on a busy machine, so work below this opens none.
inline constexpr int64_t kRegionCost = 32768;

/// Whether regions may be opened now. Where another program has the cores, a thread of a region
/// waits for its turn, and the caller for that thread: the OpenMP runtime spins, for milliseconds.
/// After such a region the device goes on with one thread for a while, longer each time. Any thread
/// may ask; only who has the region tells.
class RegionPause {
 public:
  bool is_over(int64_t now_ns) const noexcept {
    return now_ns >= until_ns_.load(std::memory_order_relaxed);
  }

  /// Whether the caller's work is to be taken on the clock of its own thread, which stands still
  /// while another program has its core. That clock costs as much as a short region, so that it is
  /// read only after a region that took long.
  bool is_watching() const noexcept { return is_watching_; }

  /// After a region: how long the caller worked, and how much longer the region took: until the
  /// other threads were done, and, on the clock of its own, until the caller had a core again.
  void note(int64_t now_ns, int64_t work_ns, int64_t wait_ns) noexcept {
    const bool was_held_up = wait_ns >= kLeastWait && wait_ns > work_ns;
    length_ns_ = was_held_up ? std::clamp(2 * length_ns_, kShortest, kLongest) : length_ns_ / 2;
    if (was_held_up) until_ns_.store(now_ns + length_ns_, std::memory_order_relaxed);
    is_watching_ = work_ns + wait_ns >= kLong;
  }

 private:
  static constexpr int64_t kLeastWait = 1'000'000;  // ns; a virtual machine wakes a thread in less
  static constexpr int64_t kLong = 1'000'000;
  static constexpr int64_t kShortest = 10'000'000;
  static constexpr int64_t kLongest = 640'000'000;

  std::atomic<int64_t> until_ns_{0};
  int64_t length_ns_ = 0;
  bool is_watching_ = false;
};

/// Of a clock that never goes back.
int64_t now_ns() noexcept;

/// The threads of one device. Any number of host threads may use it at once.
class Workers {
 public:
  /// thread_count: how many threads a region has, the caller included; at least 1.
  explicit Workers(int thread_count)
      : thread_count_(thread_count), shares_(std::make_unique<Share[]>(thread_count)) {}
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int thread_count() const noexcept { return thread_count_; }
  RegionPause& pause() noexcept { return pause_; }

  /// Whether work of this cost should have a region.
  bool pays(int64_t item_count, int64_t item_cost) const noexcept {
    return thread_count_ > 1 && item_count > 1 &&
           item_count > kRegionCost / std::max<int64_t>(item_cost, 1);
  }

  /// Calls body(begin, end) for ranges that together cover [0, item_count) once, in any order and
  /// on several threads if that pays and no other caller has the region; returns when all are
  /// done. A thread begins with the same part of [0, item_count) each time, which its own caches
  /// may still have from the launch before, and helps the others when that part is done.
  /// item_cost: see kRegionCost; below 1 counts as 1. body must not throw.
  template <class Body>
  void for_ranges(int64_t item_count, int64_t item_cost, const Body& body) {
    static_assert(std::is_nothrow_invocable_v<const Body&, int64_t, int64_t>);
    if (item_count <= 0) return;
    if (!pays(item_count, item_cost)) {
      body(int64_t{0}, item_count);
      return;
    }
    run(item_count, &call<Body>, &body);
  }

 private:
  friend class RegionLease;
  using RangeFunction = void (*)(const void* body, int64_t begin, int64_t end);
  struct Region;
  /// What is left of a thread's part of the items. In a cache line of its own.
  struct alignas(64) Share {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };

  template <class Body>
  static void call(const void* body, int64_t begin, int64_t end) {
    (*static_cast<const Body*>(body))(begin, end);
  }

  void run(int64_t item_count, RangeFunction function, const void* body) noexcept;
  static void work(void* region) noexcept;

  const int thread_count_;
  const std::unique_ptr<Share[]> shares_;  // of the region that is open, a thread each
  std::atomic<bool> region_taken_{false};
  RegionPause pause_;
};

/// The right to open the device's one region, held for the life of the object if it was granted.
/// Not granted: another thread has it, the caller is inside a parallel region of its own program,
/// regions pause, or `wanted` is false.
class RegionLease {
 public:
  RegionLease(Workers& workers, bool wanted) noexcept;
  ~RegionLease();
  RegionLease(const RegionLease&) = delete;
  RegionLease& operator=(const RegionLease&) = delete;

  bool granted() const noexcept { return granted_; }

 private:
  Workers& workers_;
  bool granted_;
};

/// While it lives, parallel regions that a library opens on this thread have `thread_count`
/// threads. The user's own setting of this thread comes back afterwards.
class ThreadCountSetting {
 public:
  explicit ThreadCountSetting(int thread_count) noexcept;
  ~ThreadCountSetting();
  ThreadCountSetting(const ThreadCountSetting&) = delete;
  ThreadCountSetting& operator=(const ThreadCountSetting&) = delete;

 private:
  int previous_thread_count_;
  int previous_dynamic_;
};

/// Whether the caller runs inside a parallel region of its own program.
bool is_inside_region() noexcept;

/// The most threads that the OpenMP runtime gives a region (OMP_THREAD_LIMIT).
int runtime_thread_limit() noexcept;

}  // namespace bp::cpu

#endif
