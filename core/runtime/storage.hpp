// SPDX-License-Identifier: Apache-2.0
//
// Memory that tensors share, with marks of the last work that wrote and read it: what makes use on
// another stream wait for exactly that work. Memory that only inline launches touch carries no
// marks: there, order is program order.
#ifndef BACKPLANE_CORE_RUNTIME_STORAGE_HPP
#define BACKPLANE_CORE_RUNTIME_STORAGE_HPP

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "core/base/ref.hpp"
#include "core/base/status.hpp"
#include "core/memory/allocator.hpp"

namespace bp {

class Device;
class Runtime;
class Stream;

/// A place in a stream's order. A stream's sequence numbers never restart.
struct Mark {
  Stream* stream = nullptr;  // owned by its device, never freed before it
  uint64_t seq = 0;
};

class Storage : public Counted<Storage>, public Recycled<Storage> {
 public:
  /// Device memory from the device's allocator, at home on `home` (the stream that will write it
  /// first). Errors: OUT_OF_MEMORY.
  static Result<Ref<Storage>> allocate(Device& device, uint64_t bytes, MemoryTag tag, Stream& home);
  /// Foreign memory: `handle` as the device understands it, or a host address with `device`
  /// nullptr. `owner` is let go when the last tensor has.
  static Ref<Storage> wrap(Device* device, uint64_t handle, uint64_t bytes,
                           std::shared_ptr<const void> owner);

  /// nullptr: host memory that belongs to no device.
  Device* device() const { return device_; }
  uint64_t handle() const { return handle_; }
  uint64_t offset_bytes() const { return offset_bytes_; }  // where this storage begins
  uint64_t bytes() const { return bytes_; }

  /// Makes `stream` wait for what must be over before it reads (or, with `write`, writes) here.
  /// Errors: those of the waits.
  Status order_before(Stream& stream, bool write);
  /// Notes that work `seq` of `stream` reads or writes here.
  void note_use(Stream& stream, uint64_t seq, bool write);
  /// The host waits until writers (and, with `write`, readers) are done.
  Status wait_on_host(bool write);

 private:
  friend class Counted<Storage>;
  friend class Ref<Storage>;
  Storage(Device* device, uint64_t handle, uint64_t offset_bytes, uint64_t bytes);
  ~Storage();

  // A device lives as long as its Runtime, so counting the Runtime keeps both.
  Ref<Runtime> runtime_;
  Device* const device_;
  const uint64_t handle_;
  const uint64_t offset_bytes_;
  const uint64_t bytes_;
  Block* block_ = nullptr;  // set: from the allocator
  Stream* home_ = nullptr;
  std::shared_ptr<const void> owner_;

  std::mutex marks_mutex_;
  Mark last_write_;
  std::vector<Mark> last_reads_;  // at most one per stream
};

}  // namespace bp

#endif
