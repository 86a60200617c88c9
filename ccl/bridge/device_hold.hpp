// SPDX-License-Identifier: Apache-2.0
//
// What an operation in progress holds of its device beside tensors: an event behind its work, and
// host memory that queued copies use. It goes with the device, if that is closed first.
#ifndef BACKPLANE_CCL_BRIDGE_DEVICE_HOLD_HPP
#define BACKPLANE_CCL_BRIDGE_DEVICE_HOLD_HPP

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/base/status.hpp"
#include "core/runtime/device.hpp"
#include "core/runtime/stream.hpp"

namespace bp::ccl {

/// Any thread.
class DeviceHold final : public PluginObjectHolder {
 public:
  static std::shared_ptr<DeviceHold> make(Device& device);
  /// ... of work that may wait for other ranks, for as long as it is held.
  static std::shared_ptr<DeviceHold> make_waiting(Device& device);
  /// The memory is given back: nothing in a queue uses it any more.
  ~DeviceHold();

  /// Host memory that queued copies may use. Errors: OUT_OF_MEMORY; the plugin's.
  Result<std::byte*> allocate(uint64_t bytes);
  /// The stream's work so far: what query() and wait() are about. Errors: POISONED; the plugin's;
  /// query() and wait() answer them, too.
  Status record(Stream& stream);

  /// Queues these copies, and records. On an error none of them is in progress any more: it waits.
  /// Errors: as record(), and those of copies.
  Status copy(Stream& stream, std::span<const bp_copy_args> copies);
  /// Copies are queued that no event is behind: waits for the stream. What is not known to have
  /// ended keeps the memory for ever.
  void end_copies(Stream& stream) noexcept;

  /// BP_OK, BP_PENDING, or the failure of the work. BP_OK where nothing was recorded; BP_GONE when
  /// the device is closed.
  bp_status query();
  /// The same, after a wait; BP_TIMEOUT: it goes on. Others may ask and wait meanwhile.
  bp_status wait(uint64_t timeout_ns);
  /// What these answer where they fail, in words: those of the stream's own failure, if it is one.
  Status explain(bp_status code);

  void release_plugin_objects() override;
  bool holds_states() const override { return true; }

 private:
  explicit DeviceHold(Device& device) : device_(device) {}
  Status record_now(Stream& stream);
  std::unique_lock<std::mutex> lock_alone();

  Device& device_;
  std::mutex mutex_;
  std::condition_variable nobody_waits_;
  uint32_t waiting_count_ = 0;  // threads inside event_sync
  bool is_released_ = false;
  bool waits_for_ranks_ = false;
  bp_event* event_ = nullptr;
  Stream* stream_ = nullptr;  // whose work this is
  Status recorded_;           // or why it could not be
  std::vector<void*> memory_;
};

}  // namespace bp::ccl

#endif
