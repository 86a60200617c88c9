// SPDX-License-Identifier: Apache-2.0
//
// Counted ownership for what every call of every thread owns for a moment: a counter in one place
// would be an atomic addition each time, and threads would wait for each other at its cache line.
// So threads count in cells of their own while somebody is known who stays an owner, as percpu_ref
// does in Linux; when that one leaves, the cells are added up, and from then on there is one
// counter.
#ifndef BACKPLANE_CORE_BASE_SPREAD_COUNTED_HPP
#define BACKPLANE_CORE_BASE_SPREAD_COUNTED_HPP

#include <array>
#include <atomic>
#include <cstdint>
#include <thread>

#include "core/base/fork.hpp"
#include "core/base/process_fence.hpp"
#include "core/base/thread_counter.hpp"

namespace bp {

/// Base of such objects, for Ref<T>. They start with one owner, whom Ref<T>::adopt takes over, and
/// with one counter. Who has no owner may become one by try_retain(), as long as somebody keeps the
/// memory there. Any thread; no heap.
template <class T>
class SpreadCounted {
 public:
  SpreadCounted(const SpreadCounted&) = delete;
  SpreadCounted& operator=(const SpreadCounted&) = delete;

  void retain() const {
    if (!count_here(1)) shared_.fetch_add(1, std::memory_order_relaxed);
  }
  /// False: the last owner is gone.
  bool try_retain() const {
    if (count_here(1)) return true;
    int64_t count = shared_.load(std::memory_order_relaxed);
    do {
      if (count <= 0) return false;
    } while (!shared_.compare_exchange_weak(count, count + 1, std::memory_order_relaxed));
    return true;
  }
  void release() const {
    if (count_here(-1) || shared_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    // An owner that comes and goes within the destructor is not the last.
    shared_.store(INT64_MIN / 2, std::memory_order_relaxed);
    // In a forked child what a destructor would end is not there, and its locks may be held.
    if (!forked()) T::end(static_cast<const T*>(this));
  }

  /// Threads count in cells from now on: the caller is an owner, and stays one until gather() has
  /// returned. To be called once; does nothing where the system has no fence for all threads.
  void spread() {
    if (!kSequential && !has_process_fence()) return;
    // What is in one counter says nothing while there are others: it never seems to be the last.
    shared_.fetch_add(kMany, std::memory_order_relaxed);
    spread_.store(true, std::memory_order_release);
  }
  /// One counter again.
  void gather() {
    if (!spread_.exchange(false, std::memory_order_seq_cst)) return;
    if (!kSequential) process_fence();
    int64_t sum = -kMany;
    for (const Cell& cell : cells_) {
      while (cell.busy.load(kLoadOrder) && !forked()) std::this_thread::yield();
      sum += cell.count.load(std::memory_order_relaxed);
    }
    shared_.fetch_add(sum, std::memory_order_acq_rel);
  }

  /// What happens without owners; T may hide it.
  static void end(const T* object) { delete object; }

 protected:
  SpreadCounted() = default;
  ~SpreadCounted() = default;

 private:
  // ThreadSanitizer does not know the fence of the process.
#if defined(__SANITIZE_THREAD__)
  static constexpr bool kSequential = true;
#else
  static constexpr bool kSequential = false;
#endif
  static constexpr auto kLoadOrder =
      kSequential ? std::memory_order_seq_cst : std::memory_order_acquire;
  static constexpr auto kStoreOrder =
      kSequential ? std::memory_order_seq_cst : std::memory_order_relaxed;
  static constexpr int64_t kMany = int64_t{1} << 40;

  struct alignas(64) Cell {
    std::atomic<int64_t> count{0};
    std::atomic<bool> busy{false};
  };

  /// False: the shared counter has to count it.
  bool count_here(int64_t change) const {
    // Not this_thread_cell(), whose first call on a thread asks for memory.
    const size_t own = detail::own_cell;
    if (own >= kThreadCells) [[unlikely]]
      return false;
    Cell& cell = cells_[own];
    cell.busy.store(true, kStoreOrder);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // the processor's is gather()'s part
    const bool here = spread_.load(kLoadOrder);
    if (here) [[likely]] {
      cell.count.store(cell.count.load(std::memory_order_relaxed) + change,
                       std::memory_order_relaxed);
    }
    cell.busy.store(false, std::memory_order_release);
    return here;
  }

  mutable std::atomic<int64_t> shared_{1};
  std::atomic<bool> spread_{false};
  mutable std::array<Cell, kThreadCells> cells_{};
};

}  // namespace bp

#endif
