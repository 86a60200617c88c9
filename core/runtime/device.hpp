// SPDX-License-Identifier: Apache-2.0
//
// An open device: its completed slots, its memory, its streams, and counters of what happened on
// it.
#ifndef BACKPLANE_CORE_RUNTIME_DEVICE_HPP
#define BACKPLANE_CORE_RUNTIME_DEVICE_HPP

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/base/handle_table.hpp"
#include "core/base/ref.hpp"
#include "core/base/status.hpp"
#include "core/base/thread_counter.hpp"
#include "core/device/device_table.hpp"
#include "core/emulation/emulate_missing.hpp"
#include "core/memory/allocator.hpp"
#include "core/plugin/loader.hpp"
#include "core/runtime/deferred_free.hpp"
#include "core/runtime/stream.hpp"

namespace bp {

class Runtime;

/// What happened on a device since it was opened. Each number is only ever added to.
struct DeviceCounters {
  ThreadCounter launches;                      // kernels started
  std::atomic<uint64_t> decomposed_ops{0};     // operators run as several
  std::atomic<uint64_t> fallback_ops{0};       // operators run on the host device instead
  std::atomic<uint64_t> view_ops{0};           // operators that needed no kernel
  std::atomic<uint64_t> contiguous_copies{0};  // strided inputs made contiguous for a kernel
  std::atomic<uint64_t> host_to_device_copies{0};
  std::atomic<uint64_t> device_to_host_copies{0};
  std::atomic<uint64_t> output_copies{0};    // outputs copied into the tensor they were bound to
  std::atomic<uint64_t> unstaged_copies{0};  // copies that no staging memory was free for
  std::atomic<uint64_t> stream_waits{0};     // waits of a stream for another that were enqueued
  std::atomic<uint64_t> host_waits{0};       // waits of the host that ordering between streams cost
  /// Every time that the host waited for queued work, or for a copy that was in no queue.
  std::atomic<uint64_t> waits{0};
};

/// Something that a later rank keeps per device. Destroyed when the device's streams have ended,
/// and before its memory.
class DeviceExtension {
 public:
  virtual ~DeviceExtension() = default;
};

/// The ranks that keep something, in their order; the last goes first.
enum class DevicePart : uint8_t { kTransfer, kDispatch, kPackedWeights, kCollectives, kCount };

/// Holds objects of the plugin (plans, states) that must be ended before the device is closed, even
/// if their user lives on.
class PluginObjectHolder {
 public:
  virtual void release_plugin_objects() = 0;
  /// States end before the plans that they were made from.
  virtual bool holds_states() const = 0;

 protected:
  ~PluginObjectHolder() = default;
};

class Device : public Counted<Device> {
 public:
  /// Opens device `index` of a plugin. Errors: the plugin's; those of open_device.
  static Result<Ref<Device>> open(Runtime& runtime, std::shared_ptr<const LoadedPlugin> plugin,
                                  uint32_t index, const std::vector<OptionSetting>& options);

  const std::string& name() const { return name_; }  // "cpu:0"
  /// What the C API calls the device; it ends with the object.
  void* handle() const { return handle_->get(); }
  /// Before the Runtime goes: no caller finds a device that has to stay for ever any more.
  void end_handle() { handle_.reset(); }
  const LoadedPlugin& plugin() const { return *plugin_; }
  Runtime& runtime() const { return runtime_; }
  const DeviceTable& table() const { return table_; }
  bool is_inline() const { return table_.props.execution == BP_EXECUTION_INLINE; }
  /// Handles are host addresses that the host may read and write.
  bool has_host_memory() const { return (table_.props.flags & BP_DEVICE_HOST_MEMORY_BIT) != 0; }
  /// ... at any time: no work on its memory is ever pending.
  bool is_host_like() const { return is_inline() && has_host_memory(); }
  Allocator& allocator() { return *allocator_; }
  DeferredFree& deferred_free() { return deferred_free_; }
  DeviceCounters& counters() { return counters_; }
  std::chrono::nanoseconds wait_timeout() const;

  Stream& default_stream() { return *default_stream_; }
  /// A stream for one user; it comes from those given back, if any. Lives as long as the device.
  Result<Stream*> acquire_stream();
  /// A stream over a queue of the application's, which is the caller's alone. The same queue may
  /// be wrapped again. Errors: UNSUPPORTED without the band or for an unknown kind; the plugin's.
  Result<Stream*> wrap_stream(std::string_view kind, uint64_t handle);
  /// Waits for the stream's work and takes it back; a failed stream is reset. A wrapped stream
  /// lets go of its queue, or, if its work does not end in time, does so when the device closes.
  void release_stream(Stream* stream);
  /// By the index that its op_seq numbers carry; nullptr: none.
  Stream* stream_at(uint64_t index);
  /// Where each stream stands: what was enqueued before is done once these are.
  std::vector<Mark> work_so_far();
  /// Waits until all streams are idle; one that failed is. Late memory goes back. Errors: TIMEOUT;
  /// OUT_OF_MEMORY of the host.
  Status quiesce();
  /// The same, but not for work that may wait for other ranks, since these may be threads that wait
  /// for who calls. Errors: PENDING where there is some; TIMEOUT.
  Status quiesce_unless_ranks_wait();
  /// From begin to end the device has work in its queues that may wait for other ranks.
  void begin_rank_wait() { rank_wait_count_.fetch_add(1, std::memory_order_seq_cst); }
  void end_rank_wait() { rank_wait_count_.fetch_sub(1, std::memory_order_release); }
  /// Waits for all work. Errors: its first failure or data fault; all streams are waited for. Late
  /// memory goes back.
  Status sync();

  /// An event for a moment, or for long: of those given back, if there are any. Errors: the
  /// plugin's.
  Result<bp_event*> take_event();
  void give_event(bp_event* event);

  /// The stream's failure, to those of its streams that have waited for its work from `seq` on.
  void spread_failure(Stream& failed, uint64_t seq, const Status& status);

  /// Makes `waiter` wait, in its order, for all work of `producer` so far. Both of this device.
  Status insert_wait(Stream& waiter, Stream& producer);

  /// What the application has enqueued on the stream's native queue becomes a piece of the stream's
  /// work; answers its number (0 on an inline stream). Errors: POISONED; the plugin's.
  Result<uint64_t> note_native_work(Stream& stream);
  /// UNSUPPORTED, in words.
  Status no_native_streams() const;

  /// Copies between host memory and this device, on `stream`, done when it returns. Counted.
  Status copy_in(Stream& stream, bp_mem dst, const void* src, uint64_t bytes);
  Status copy_out(Stream& stream, void* dst, bp_mem src, uint64_t bytes);
  /// Copies out what no unfinished work writes. In no stream's order; done when it returns.
  /// Counted.
  Status read(void* dst, bp_mem src, uint64_t bytes);
  /// Ends a stream of the plugin's, and forgets what the plugin said of it.
  bp_status end_queue(bp_stream* handle);
  /// A copy that is in no stream's order; done when it returns. Errors: the plugin's, with `what`.
  Status copy_now(const bp_copy_args& args, std::string_view what = {});
  /// Host memory that queued copies may use. Errors: OUT_OF_MEMORY; the plugin's.
  Status allocate_host_memory(uint64_t bytes, void** out_ptr);
  void free_host_memory(void* ptr);
  Status fill_zero(Stream& stream, bp_mem dst, uint64_t bytes);

  /// A failed call in words, as HostContext::error_of() writes them; `more`: what the call was for.
  Status failure(bp_status code, CallTitle title, const bp_kernel* kernel = nullptr,
                 std::string_view more = {}) const;
  /// Logs a failure of a slot that ends something, or that nobody else is told of. Never throws.
  void warn(bp_status code, Slot slot, const bp_kernel* kernel = nullptr) const;
  /// Logs why a call failed where the core has another way to what it was for: once for each slot,
  /// and not what is no defect or what that way fails with too. Never throws.
  void warn_of_detour(const Status& status, Slot slot);

  /// GONE after close, DEVICE_LOST once the plugin has said so.
  Status check_open() const {
    if (state_.load(std::memory_order_acquire) == State::kOpen) [[likely]]
      return {};
    return explain_state();
  }
  bool closed() const { return state_.load(std::memory_order_acquire) == State::kClosed; }
  /// The plugin answered DEVICE_LOST: from now on only what ends objects reaches it.
  bool lost() const { return state_.load(std::memory_order_acquire) == State::kLost; }
  void mark_lost() const;
  /// Waits, then ends everything that needs the plugin; tensors that live on keep only the object.
  void close();

  /// From track() to untrack() (or close) the device will release the holder's objects itself.
  void track(PluginObjectHolder* holder);
  void untrack(PluginObjectHolder* holder);

  /// The extension made by `make` at the first call for this part. Any thread.
  template <class Make>
  DeviceExtension& extension(DevicePart part, Make make) {
    if (DeviceExtension* made = made_extension(part)) return *made;
    const auto index = static_cast<size_t>(part);
    const std::lock_guard lock(extension_mutex_);  // not call_once: `make` may throw
    if (extensions_[index] == nullptr) {
      extensions_[index] = make();
      made_extensions_[index].store(extensions_[index].get(), std::memory_order_release);
    }
    return *extensions_[index];
  }
  /// nullptr: not made yet. Any thread.
  DeviceExtension* made_extension(DevicePart part) const {
    return made_extensions_[static_cast<size_t>(part)].load(std::memory_order_acquire);
  }

 private:
  friend class Counted<Device>;
  friend class Ref<Device>;
  Device(Runtime& runtime, std::shared_ptr<const LoadedPlugin> plugin, uint32_t index,
         DeviceTable table);
  ~Device();
  enum class State : uint32_t { kOpen, kLost, kClosed };

  Status failure_of(bp_status code, std::string_view what) const;
  Status explain_state() const;
  std::vector<Stream*> all_streams();
  bool is_given_back(const Stream* stream);
  Status copy_after(Stream& stream, const bp_copy_args& args);
  Result<Stream*> make_stream();
  /// With streams_mutex_. The handle is ended if there is no memory for the stream.
  Result<Stream*> own_stream(bp_stream* handle, StreamOrigin origin);
  void close_streams();

  Runtime& runtime_;
  std::optional<OwnedHandle> handle_{std::in_place, HandleKind::kDevice, this};
  std::shared_ptr<const LoadedPlugin> plugin_;  // empty after close
  const std::string name_;
  DeviceTable table_;
  std::unique_ptr<Emulation, void (*)(Emulation*)> emulation_;
  std::unique_ptr<Allocator> allocator_;
  DeferredFree deferred_free_;
  DeviceCounters counters_;
  std::array<std::atomic<bool>, std::size(kSlots)> told_detours_{};
  Device* next_kept_ = nullptr;  // of those that stay for ever
  mutable std::atomic<State> state_{State::kOpen};
  std::atomic<uint32_t> rank_wait_count_{0};

  std::mutex streams_mutex_;
  std::vector<std::unique_ptr<Stream>> streams_;  // all ever made
  std::vector<Stream*> idle_streams_;
  std::vector<Stream*> broken_streams_;  // given back; they are reset before they are used again
  std::vector<Stream*> ended_streams_;   // wrapped ones, for the next queue
  Stream* default_stream_ = nullptr;
  std::vector<bp_event*> idle_events_;
  bool are_streams_ended_ = false;  // under streams_mutex_: events are kept no more
  size_t event_count_ = 0;          // all that there are, and those being made

  std::mutex holders_mutex_;
  std::unordered_set<PluginObjectHolder*> holders_;

  std::mutex extension_mutex_;
  static constexpr auto kParts = static_cast<size_t>(DevicePart::kCount);
  std::array<std::unique_ptr<DeviceExtension>, kParts> extensions_;
  std::array<std::atomic<DeviceExtension*>, kParts> made_extensions_{};
};

}  // namespace bp

#endif
