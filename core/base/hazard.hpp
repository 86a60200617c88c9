// SPDX-License-Identifier: Apache-2.0
//
// Hazard pointers: a reader names the object that it uses by a plain store, and who wants to free
// objects looks first which of them are named. Reading costs no atomic operation and no lock; the
// side that frees pays, with a fence in every thread of the process.
#ifndef BACKPLANE_CORE_BASE_HAZARD_HPP
#define BACKPLANE_CORE_BASE_HAZARD_HPP

#include <array>
#include <atomic>
#include <cstddef>
#include <vector>

#include "core/base/thread_counter.hpp"

namespace bp {

/// Keeps one object at a time from being freed. Lives on the stack of the thread that made it;
/// nests, and the last one made ends first.
class Hazard {
 public:
  Hazard() {
    const size_t index = this_thread_cell();
    if (index == kThreadCells) [[unlikely]]
      return;
    Cell& cell = cells[index];
    if (cell.depth == kPlaces) [[unlikely]]
      return;
    place_ = &cell.places[cell.depth++];
    depth_ = &cell.depth;
  }
  ~Hazard() {
    if (place_ == nullptr) return;
    place_->store(nullptr, std::memory_order_release);
    --*depth_;
  }
  Hazard(const Hazard&) = delete;
  Hazard& operator=(const Hazard&) = delete;

  /// Makes reading cheap where the system can; code that frees objects calls it before. Any thread.
  static void prepare();

  /// False: this thread came late, or nests too deep, and has no place for a name.
  bool has_place() const { return place_ != nullptr; }

  /// What `source` points to, which then is not freed before the next call or the end of this
  /// object. nullptr where `source` is, and without a place.
  template <class T>
  T* protect(const std::atomic<T*>& source) {
    if (place_ == nullptr) [[unlikely]]
      return nullptr;
    T* found = source.load(std::memory_order_acquire);
    while (found != nullptr) {
      announce(found);
      T* const again = source.load(kLoadOrder);
      if (again == found) [[likely]]
        break;
      found = again;
    }
    return found;
  }

 private:
  friend class HazardScan;
#if defined(__SANITIZE_THREAD__)
  static constexpr bool kSequential = true;
#else
  static constexpr bool kSequential = false;
#endif
  // ThreadSanitizer knows neither fences nor those of the process: under it the two sides meet in
  // the one order of sequentially consistent operations.
  static constexpr auto kLoadOrder =
      kSequential ? std::memory_order_seq_cst : std::memory_order_acquire;

  void announce(const void* object) {
    if constexpr (kSequential) {
      place_->store(object, std::memory_order_seq_cst);
      return;
    }
    place_->store(object, std::memory_order_release);
    if (uses_process_fence.load(std::memory_order_relaxed)) [[likely]] {
      std::atomic_signal_fence(std::memory_order_seq_cst);  // the processor's is the freer's part
    } else {
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
  }

  static constexpr size_t kPlaces = 4;
  struct alignas(64) Cell {
    std::array<std::atomic<const void*>, kPlaces> places{};
    size_t depth = 0;  // the owning thread's
  };
  static std::array<Cell, kThreadCells> cells;
  /// False until the system is known to have one (process_fence.hpp).
  static std::atomic<bool> uses_process_fence;

  std::atomic<const void*>* place_ = nullptr;
  size_t* depth_ = nullptr;
};

/// Which objects readers use, looked up once. An object that no thread can find any more when this
/// is made, and that is not in it, has no reader. Any thread.
class HazardScan {
 public:
  /// Throws bad_alloc.
  HazardScan();
  bool contains(const void* object) const;

 private:
  std::vector<const void*> used_;  // sorted
};

}  // namespace bp

#endif
