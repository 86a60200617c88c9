// SPDX-License-Identifier: Apache-2.0
//
// Memory that tensors share, with a mark of the last work on each stream that used it: what makes
// use on another stream wait for exactly that work. Several streams may write at once, through
// views that have no element in common. Memory that only inline launches touch carries no marks:
// there, order is program order.
#ifndef BACKPLANE_CORE_RUNTIME_STORAGE_HPP
#define BACKPLANE_CORE_RUNTIME_STORAGE_HPP

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "core/base/ref.hpp"
#include "core/base/status.hpp"
#include "core/memory/allocator.hpp"
#include "core/runtime/deferred_free.hpp"
#include "core/runtime/fault_marks.hpp"

namespace bp {

class Device;
class Runtime;

/// What work is going to do with memory.
enum class Access {
  kRead,
  kWrite,
  kOverwrite,  // all of it, so that no reader misses contents which a failure has lost
};

class Storage;

/// What a data fault of some contents may come from: other contents, or a launch on a queue.
struct FaultOrigin {
  Storage* contents = nullptr;
  Stream* stream = nullptr;  // with `seq`, where there are no contents
  uint64_t seq = 0;

  /// The host reads what is made from it: Storage::report_faults(), of a launch that is done.
  Status report() const;
};

/// While one lives, this thread waits for no work that uses a storage whose last holder goes: such
/// a storage is left to its device. For threads that this work waits for.
class LeavesStorages {
 public:
  LeavesStorages() { ++count_; }
  ~LeavesStorages() { --count_; }
  LeavesStorages(const LeavesStorages&) = delete;
  LeavesStorages& operator=(const LeavesStorages&) = delete;
  static bool here() { return count_ > 0; }

 private:
  static constinit thread_local int count_;
};

class Storage : public Counted<Storage>, public Recycled<Storage> {
 public:
  /// Device memory from the device's allocator, at home on `home` (the stream that will write it
  /// first). Errors: OUT_OF_MEMORY.
  static Result<Ref<Storage>> allocate(Device& device, uint64_t bytes, MemoryTag tag, Stream& home);
  /// Foreign memory: `handle` as the device understands it, or a host address with `device`
  /// nullptr. `owner` is let go when the last tensor has, and queued work that uses the memory is
  /// over: for that the host waits, and what is not over in time lets go when the device is next
  /// waited for, or closed. lead_bytes: how many of the bytes come before what is lent.
  static Ref<Storage> wrap(Device* device, uint64_t handle, uint64_t bytes,
                           std::shared_ptr<const void> owner, uint64_t lead_bytes = 0);

  /// Lets `owner` go when the last tensor has. Before anybody else has the storage.
  void keep(std::shared_ptr<const void> owner) { owner_ = std::move(owner); }

  /// nullptr: host memory that belongs to no device.
  Device* device() const { return device_; }
  uint64_t handle() const { return handle_; }
  uint64_t offset_bytes() const { return offset_bytes_; }  // where this storage begins
  uint64_t bytes() const { return bytes_; }
  /// Of elements that start there and take so many bytes: there are no others.
  bool is_all(uint64_t offset_bytes, uint64_t bytes) const {
    return offset_bytes == lead_bytes_ && bytes == bytes_ - lead_bytes_;
  }

  /// Makes `stream` wait for what must be over before it uses the memory.
  /// Errors: those of the waits; unless all is overwritten, the failure that the contents were lost
  /// by; for a read on an inline stream, whose results carry no marks, report_faults()'s.
  Status order_before(Stream& stream, Access access) {
    if (!is_marked()) return {};
    return order_after_marks(stream, access);
  }
  /// False: no queued work has ever used it.
  bool is_marked() const { return is_marked_.load(std::memory_order_acquire); }
  /// Notes that work `seq` of `stream` reads or writes here.
  void note_use(Stream& stream, uint64_t seq, bool write);
  /// Notes that a write is done already, for which `stream` was ordered.
  void note_host_write(const Stream& stream);
  /// The stream whose work wrote the contents, if that is not known to be done; nullptr also where
  /// that of several is not.
  Stream* unfinished_writer();
  /// The host waits until writers (and, with `write`, readers) are done. Errors: those of the
  /// waits; report_faults()'s.
  Status wait_on_host(bool write);

  /// Data faults that come from there concern the contents.
  void note_fault(const FaultOrigin& origin) {
    if (origin.contents == nullptr) {
      note_launch_fault(*origin.stream, origin.seq);
    } else if (origin.contents->may_fault()) [[unlikely]] {
      copy_fault_marks(*origin.contents);
    }
  }
  /// Work on `stream` that the core does not see reads the contents.
  void note_unseen_read(Stream& stream) {
    if (may_fault()) [[unlikely]]
      hand_fault_marks(stream);
  }
  /// ... wrote them, perhaps from what it read.
  void note_unseen_write(Stream& stream);
  /// The host reads the contents: waits for the launches whose faults concern them. Errors: a data
  /// fault that was told to no reader; TIMEOUT.
  Status report_faults() {
    if (!may_fault_.load(std::memory_order_acquire)) [[likely]]
      return {};
    return take_faults();
  }
  /// There may be something to report.
  bool may_fault() const { return may_fault_.load(std::memory_order_acquire); }
  /// All of the contents are new, and made from nothing that was here.
  void forget_faults();

 private:
  friend class Counted<Storage>;
  friend class DeferredFree;
  friend class Ref<Storage>;
  Storage(Device* device, uint64_t handle, uint64_t offset_bytes, uint64_t bytes);
  /// No work uses it any more.
  ~Storage();
  /// The last holder has gone: waits for the work, or leaves it to the device to end it later.
  static void dispose(const Storage* storage);

  // A device lives as long as its Runtime, so counting the Runtime keeps both; nullptr while the
  // device keeps the storage.
  Ref<Runtime> runtime_;
  Device* const device_;
  const uint64_t handle_;
  const uint64_t offset_bytes_;
  const uint64_t bytes_;
  uint64_t lead_bytes_ = 0;
  Block* block_ = nullptr;  // set: from the allocator
  Stream* home_ = nullptr;
  std::shared_ptr<const void> owner_;

  /// The work of one stream.
  struct Use : Mark {
    uint64_t written_seq = 0;  // of its last write; 0: it has read alone
    // Work of that stream beyond that seq comes after this use.
    const Stream* waiter = nullptr;
    uint64_t waiter_seq = 0;
  };
  struct Uses {
    Use latest;  // the last to write, or the first of all
    std::vector<Use> others;
    const Use* of(const Stream* stream) const;
    bool are_of(const Stream& stream) const {
      return others.empty() && (latest.stream == &stream || latest.stream == nullptr);
    }
  };
  template <class Visit>
  static Status visit(const Uses& uses, Visit visit_one);
  Uses uses();
  Use& use_of(Stream& stream);
  void note_waits(const Uses& before, Stream& stream);
  void forget_before(const Stream& stream, uint64_t seq);
  bool is_over(const Mark& mark) const;
  bool is_unused() const;
  bool may_go();
  bool let_work_end(const Mark& mark);
  bool let_work_end();
  Status order_after_marks(Stream& stream, Access access);
  Status take_faults();
  void note_launch_fault(Stream& stream, uint64_t seq);
  void copy_fault_marks(Storage& source);
  void hand_fault_marks(Stream& stream);
  void add_fault_marks(const FaultMarks& marks);

  std::atomic<bool> is_marked_{false};  // there are marks at all
  std::atomic<bool> may_fault_{false};  // there are fault marks
  std::mutex marks_mutex_;
  Uses uses_;  // at most one per stream
  FaultMarks fault_marks_;
  Storage* next_deferred_ = nullptr;  // DeferredFree's
};

}  // namespace bp

#endif
