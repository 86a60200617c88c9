// SPDX-License-Identifier: Apache-2.0
//
// What has no holder any more while queued work still uses it: memory whose work did not end before
// the deadline, plans of kernels that were launched. Kept until that work has ended, or the device
// is closed.
#ifndef BACKPLANE_CORE_RUNTIME_DEFERRED_FREE_HPP
#define BACKPLANE_CORE_RUNTIME_DEFERRED_FREE_HPP

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace bp {

class Storage;
class Stream;

/// A place in a stream's order. A stream's sequence numbers never restart.
struct Mark {
  Stream* stream = nullptr;  // owned by its device, never freed before it
  uint64_t seq = 0;
};

/// Any thread.
class DeferredFree {
 public:
  struct Entry {
    std::shared_ptr<const void> owner;  // of what the work uses
    Mark last_write;                    // that work
    std::vector<Mark> last_reads;
  };
  /// Never throws, and without memory to note the entry never lets go of it.
  void keep(Entry entry) noexcept;
  /// A storage without a holder, which is this one's from now on. Takes no memory.
  void keep(Storage* storage) noexcept;
  /// Ends what no work uses any more. Runs the destructors of owners.
  void release_done();
  /// How many are kept. Any thread; no lock.
  size_t count() const { return count_.load(std::memory_order_relaxed); }
  /// When all work has ended and the allocator gives its memory back itself.
  void clear();

 private:
  void release_done_storages();
  static void end_storages(Storage* first);

  std::mutex mutex_;
  std::vector<Entry> entries_;
  Storage* first_storage_ = nullptr;
  std::atomic<size_t> count_{0};  // written under mutex_
};

}  // namespace bp

#endif
