// SPDX-License-Identifier: Apache-2.0
//
// A counter that many threads add to and few read: each thread adds to a cell of its own, so that
// counting costs a load and a store instead of an atomic addition.
#ifndef BACKPLANE_CORE_BASE_THREAD_COUNTER_HPP
#define BACKPLANE_CORE_BASE_THREAD_COUNTER_HPP

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace bp {

/// A number below kThreadCells that no other living thread has; kThreadCells: all are taken.
inline constexpr size_t kThreadCells = 64;
namespace detail {
inline constexpr size_t kNoCellYet = SIZE_MAX;
extern constinit thread_local size_t own_cell;
size_t take_own_cell();
}  // namespace detail
inline size_t this_thread_cell() {
  const size_t cell = detail::own_cell;
  return cell != detail::kNoCellYet ? cell : detail::take_own_cell();
}

class ThreadCounter {
 public:
  /// Any thread.
  [[gnu::always_inline]] void add(uint64_t amount) {
    const size_t cell = this_thread_cell();
    std::atomic<uint64_t>& value = cells_[cell].value;
    if (cell == kThreadCells) [[unlikely]] {
      value.fetch_add(amount, std::memory_order_relaxed);  // shared by all further threads
    } else {
      value.store(value.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
    }
  }

  /// The sum. Additions that are under way may be missing. Any thread.
  uint64_t load() const {
    uint64_t sum = 0;
    for (const Cell& cell : cells_) sum += cell.value.load(std::memory_order_relaxed);
    return sum;
  }

 private:
  struct alignas(64) Cell {
    std::atomic<uint64_t> value{0};
  };
  std::array<Cell, kThreadCells + 1> cells_{};
};

}  // namespace bp

#endif
