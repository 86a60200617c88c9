// SPDX-License-Identifier: Apache-2.0
//
// Memory that tensors share, with marks of the last work that wrote and read it: what makes use on
// another stream wait for exactly that work. Memory that only inline launches touch carries no
// marks: there, order is program order.
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
  /// waited for, or closed.
  static Ref<Storage> wrap(Device* device, uint64_t handle, uint64_t bytes,
                           std::shared_ptr<const void> owner);

  /// Lets `owner` go when the last tensor has. Before anybody else has the storage.
  void keep(std::shared_ptr<const void> owner) { owner_ = std::move(owner); }

  /// nullptr: host memory that belongs to no device.
  Device* device() const { return device_; }
  uint64_t handle() const { return handle_; }
  uint64_t offset_bytes() const { return offset_bytes_; }  // where this storage begins
  uint64_t bytes() const { return bytes_; }

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
  /// Notes that a write which came after the marked work is done already.
  void note_host_write();
  /// The stream whose work wrote the contents, if that is not known to be done.
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
  Block* block_ = nullptr;  // set: from the allocator
  Stream* home_ = nullptr;
  std::shared_ptr<const void> owner_;

  struct Marks {
    Mark last_write;
    uint64_t written_seq;
    std::vector<Mark> last_reads;
  };
  /// What comes before a write, or before a read.
  Marks marks(bool write);
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
  Mark last_write_;               // with later reads on its stream
  uint64_t written_seq_ = 0;      // without them
  std::vector<Mark> last_reads_;  // at most one per stream
  FaultMarks fault_marks_;
  Storage* next_deferred_ = nullptr;  // DeferredFree's
};

}  // namespace bp

#endif
