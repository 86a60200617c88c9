// SPDX-License-Identifier: Apache-2.0
//
// What the cases of levels 1 and 2 are written with: an open device, its slots under short names,
// and owners of what they make. Owners check that giving back works, so each case proves that too.
#ifndef BACKPLANE_SDK_CONFORM_CONTEXT_HPP
#define BACKPLANE_SDK_CONFORM_CONTEXT_HPP

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "core/device/device_table.hpp"
#include "core/device/kernel_list.hpp"
#include "core/emulation/emulate_missing.hpp"
#include "sdk/conform/case.hpp"
#include "sdk/conform/checks.hpp"
#include "sdk/conform/injection.hpp"

namespace bp {
class LoadedPlugin;
}

namespace bp::conform {

inline constexpr uint64_t kNever = BP_TIMEOUT_FOREVER;

/// Bytes that differ from seed to seed and from place to place.
Bytes make_bytes(size_t count, uint32_t seed);
inline bp_mem host_end(const void* address) { return {reinterpret_cast<uint64_t>(address), 0}; }

/// Where a device comes from, for cases that open others of its instance.
struct Origin {
  const LoadedPlugin* plugin = nullptr;  // nullptr: not told
  uint32_t device_index = 0;
};

class Context : public Checks {
 public:
  Context(const DeviceTable& table, const KernelList& kernels, const Injection& injection,
          std::chrono::nanoseconds patience, Origin origin = {})
      : table_(table),
        kernels_(kernels),
        injection_(injection),
        patience_(patience),
        origin_(origin) {}

  const DeviceTable& table() const { return table_; }
  const KernelList& kernels() const { return kernels_; }
  const Injection& injection() const { return injection_; }
  const Origin& origin() const { return origin_; }
  const DeviceTable& stream_api() const { return table(); }
  bool emulates(uint64_t bands) const { return (table().emulated & bands) != 0; }
  /// Longer than any wait of a correct device takes, shorter than the case's deadline.
  uint64_t patience_ns() const { return static_cast<uint64_t>(patience_.count()); }
  /// A kernel has run: cases in which none did prove nothing of any.
  void note_launch(const std::string& kernel) {
    const std::lock_guard lock(streams_mutex_);
    launched_.insert(kernel);
  }
  /// Names of the kernels that ran. When the case is over.
  const std::set<std::string>& launched() const { return launched_; }

  bp_status mem_alloc(uint64_t bytes, uint64_t alignment_bytes, uint64_t* out_handle);
  bp_status mem_free(uint64_t handle);
  bp_status copy(uint32_t kind, bp_mem dst, bp_mem src, uint64_t bytes);
  bp_status copy_async(bp_stream* stream, uint32_t kind, bp_mem dst, bp_mem src, uint64_t bytes);
  bp_status fill(bp_stream* stream, bp_mem dst, uint64_t bytes, uint64_t pattern,
                 uint32_t pattern_bytes);
  bp_status map(bp_mem mem, uint64_t bytes, uint32_t access, void** out_ptr);
  bp_status unmap(void* ptr);
  bp_status host_alloc(uint64_t bytes, void** out_ptr);
  bp_status host_free(void* ptr);
  bp_status stream_create(bp_stream** out_stream);
  bp_status event_create(uint32_t flags, bp_event** out_event);

 private:
  /// Of this thread's call, or of the work of a stream that the case has made.
  std::string take_plugin_words(bp_status found) override;

  const DeviceTable& table_;
  const KernelList& kernels_;
  const Injection injection_;
  const std::chrono::nanoseconds patience_;
  const Origin origin_;
  std::mutex streams_mutex_;
  std::set<bp_stream*> streams_;
  std::set<std::string> launched_;  // under streams_mutex_
};

/// Device memory.
class Memory {
 public:
  Memory(Context& context, uint64_t bytes, uint64_t alignment_bytes = 0);
  Memory(Context& context, const Bytes& content);
  ~Memory() { free(); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  Memory(Memory&& other) noexcept;

  uint64_t handle() const { return handle_; }
  uint64_t bytes() const { return bytes_; }
  bp_mem at(uint64_t offset_bytes = 0) const { return {handle_, offset_bytes}; }
  /// By mem_copy, which is done when it returns.
  void write(const Bytes& content, uint64_t offset_bytes = 0);
  Bytes read() const { return read(0, bytes_); }
  Bytes read(uint64_t offset_bytes, uint64_t bytes) const;
  void expect(std::string_view what, const Bytes& content) const;
  void free();

 private:
  Context& context_;
  uint64_t handle_ = 0;
  uint64_t bytes_ = 0;
};

class Stream {
 public:
  explicit Stream(Context& context);
  /// Takes over what the case made by itself.
  Stream(Context& context, bp_stream* stream) : context_(context), stream_(stream) {}
  ~Stream() { destroy(); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  Stream(Stream&& other) noexcept;

  bp_stream* get() const { return stream_; }
  bp_status sync() const;
  bp_status query() const { return context_.stream_api().stream_query(stream_); }
  /// Expects that all work ends well.
  void finish() const { context_.expect_ok("stream_sync", sync()); }
  void destroy();

  // Each expects BP_OK from the call.
  void upload(const Memory& dst, const Bytes& src, uint64_t offset_bytes = 0) const;
  void download(Bytes* dst, const Memory& src) const;
  void copy(const Memory& dst, const Memory& src) const;
  void call(bp_host_fn fn, void* user) const;

 private:
  Context& context_;
  bp_stream* stream_ = nullptr;
};

class Event {
 public:
  explicit Event(Context& context, uint32_t flags = 0);
  ~Event() { destroy(); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  Event(Event&& other) noexcept;

  bp_event* get() const { return event_; }
  // Each expects BP_OK from the call.
  void record(const Stream& stream) const;
  void wait_on(const Stream& stream) const;
  bp_status sync(uint64_t timeout_ns) const;
  bp_status query() const { return context_.stream_api().event_query(event_); }
  void destroy();

 private:
  Context& context_;
  bp_event* event_ = nullptr;
};

/// Holds a stream back until it is opened, at the latest when it goes: a host call that waits. To
/// be declared after the stream.
class Gate {
 public:
  Gate(Context& context, const Stream& stream);
  ~Gate() { open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  void open();
  /// Waits until the stream has come here. False: it never did.
  bool reached();

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool reached = false;
    bool opened = false;
  };
  static void hold(void* user, bp_status stream_status);

  Context& context_;
  std::shared_ptr<State> state_;
};

}  // namespace bp::conform

#endif
