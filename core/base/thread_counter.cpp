// SPDX-License-Identifier: Apache-2.0
//
// Cells go to threads as they come, and back when they end.
#include "core/base/thread_counter.hpp"

#include <bit>
#include <mutex>
#include <utility>

namespace bp {
namespace {

class CellBook {
 public:
  size_t take() {
    std::lock_guard lock(mutex_);
    if (free_ == 0) return kThreadCells;
    const auto cell = static_cast<size_t>(std::countr_zero(free_));
    free_ &= free_ - 1;
    return cell;
  }
  // Through the mutex, so that the next owner sees what this one has added.
  void give(size_t cell) {
    if (cell == kThreadCells) return;
    std::lock_guard lock(mutex_);
    free_ |= uint64_t{1} << cell;
  }

 private:
  static_assert(kThreadCells == 64);
  std::mutex mutex_;
  uint64_t free_ = UINT64_MAX;
};

// Never destroyed: threads may end after static objects.
CellBook& cell_book() {
  static auto& book = *new CellBook;
  return book;
}

struct CellOwner {
  CellOwner() { detail::own_cell = cell_book().take(); }
  ~CellOwner() { cell_book().give(std::exchange(detail::own_cell, kThreadCells)); }
};

}  // namespace

namespace detail {

// Without a constructor, so that reading it needs no check that it is there.
constinit thread_local size_t own_cell = kNoCellYet;

size_t take_own_cell() {
  static thread_local const CellOwner owner;
  return own_cell;
}

}  // namespace detail
}  // namespace bp
