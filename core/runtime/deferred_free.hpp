// SPDX-License-Identifier: Apache-2.0
//
// Memory whose tensor is gone while work that had used it did not end before the deadline: kept
// until that work has ended, or the device is closed.
#ifndef BACKPLANE_CORE_RUNTIME_DEFERRED_FREE_HPP
#define BACKPLANE_CORE_RUNTIME_DEFERRED_FREE_HPP

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace bp {

class Allocator;
class Stream;
struct Block;

/// A place in a stream's order. A stream's sequence numbers never restart.
struct Mark {
  Stream* stream = nullptr;  // owned by its device, never freed before it
  uint64_t seq = 0;
};

/// Any thread.
class DeferredFree {
 public:
  struct Entry {
    Block* block = nullptr;             // of the device's allocator
    std::shared_ptr<const void> owner;  // of foreign memory
    Mark last_write;                    // the work that uses it
    std::vector<Mark> last_reads;
  };
  /// Never throws, and without memory to note the entry never lets go of it.
  void keep(Entry entry) noexcept;
  /// Gives back what no work uses any more. Runs the destructors of owners.
  void release_done(Allocator& allocator);
  /// When all work has ended and the allocator gives its memory back itself.
  void clear();

 private:
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace bp

#endif
