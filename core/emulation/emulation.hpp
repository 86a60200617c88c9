// SPDX-License-Identifier: Apache-2.0
//
// What the files of this module share: the object behind emulate_missing(), the objects behind the
// handles that it gives out, and the way from a handle back to them. Each topic file fills its own
// slots by one install function.
#ifndef BACKPLANE_CORE_EMULATION_EMULATION_HPP
#define BACKPLANE_CORE_EMULATION_EMULATION_HPP

#include <chrono>
#include <list>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
#include <system_error>
#include <unordered_map>

#include "core/device/device_table.hpp"
#include "core/emulation/emulate_missing.hpp"
#include "core/emulation/host_buffer.hpp"
#include "core/emulation/task_queue.hpp"

namespace bp {

/// A staged mapping of device memory.
struct Mapping {
  HostBuffer buffer;
  bp_mem mem{};
  uint64_t bytes = 0;
  bool write_back = false;
};

class Emulation {
 public:
  /// `table`: as the plugin gave them.
  explicit Emulation(const DeviceTable& table);
  Emulation(const Emulation&) = delete;
  Emulation& operator=(const Emulation&) = delete;

  /// The plugin's own slots. Calls through them need lock_call().
  const DeviceTable& native() const { return native_; }
  /// Bands that this module emulates.
  uint64_t emulated() const { return emulated_; }
  bool emulates(uint64_t feature) const { return (emulated_ & feature) != 0; }
  /// The device takes one call at a time, and none that blocks.
  bool serialised() const { return serialised_; }
  /// For DeviceTable::call_mutex.
  std::mutex* call_mutex() { return serialised_ ? &call_mutex_ : nullptr; }

  /// To be held round every call of a native slot. Owns nothing on concurrent devices. Nothing of
  /// the caller's (host functions, deleters) may run under it: they may come back to this device.
  [[nodiscard]] std::unique_lock<std::mutex> lock_call();
  /// The plugin's mem_copy, now.
  bp_status copy_now(const bp_copy_args& args);

  /// Puts a failure in words where the plugin puts its own, and returns the status.
  bp_status fail(bp_status status, std::string_view message, bp_stream* stream = nullptr,
                 uint64_t op_seq = 0) const;

  bp_device* self() { return reinterpret_cast<bp_device*>(this); }
  static Emulation& from(bp_device* self) { return *reinterpret_cast<Emulation*>(self); }

  /// Keeps one buffer (a list of one node, so that nothing is allocated) until the device closes.
  void abandon(std::list<HostBuffer> buffer);

  std::mutex mappings_mutex;
  std::unordered_map<void*, Mapping> mappings;

 private:
  const DeviceTable native_;
  const uint64_t emulated_;
  const bool serialised_;
  std::mutex call_mutex_;
  std::mutex abandoned_mutex_;
  std::list<HostBuffer> abandoned_;
};

/// Behind bp_stream* where streams are emulated.
struct EmulatedStream {
  Emulation& emulation;
  std::shared_ptr<TaskQueue> queue;

  bp_stream* handle() { return reinterpret_cast<bp_stream*>(this); }
  static EmulatedStream& from(bp_stream* stream) {
    return *reinterpret_cast<EmulatedStream*>(stream);
  }
};

/// Behind bp_stream* where native streams need the device's lock.
struct SerialisedStream {
  Emulation& emulation;
  bp_stream* native;

  bp_stream* handle() { return reinterpret_cast<bp_stream*>(this); }
  static SerialisedStream& from(bp_stream* stream) {
    return *reinterpret_cast<SerialisedStream*>(stream);
  }
};

/// The plugin's handle of a native stream that went out through these slots. NULL stays NULL.
inline bp_stream* unwrap_stream(bool serialised, bp_stream* stream) {
  return serialised && stream != nullptr ? SerialisedStream::from(stream).native : stream;
}

/// The body of a slot: what the standard library throws becomes a status.
template <class Body>
bp_status guarded(Body&& body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return BP_OUT_OF_MEMORY;
  } catch (const std::system_error&) {  // no further thread to be had
    return BP_OUT_OF_MEMORY;
  } catch (...) {
    return BP_INTERNAL;
  }
}

/// event_elapsed by the host's clock. BP_INVALID_ARGUMENT if the end is before the start.
bp_status elapsed_between(const Emulation& emulation, std::chrono::steady_clock::time_point start,
                          std::chrono::steady_clock::time_point end, uint64_t* out_elapsed_ns);

// Each of these fills one group of slots, and its self.
void install_serialised_memory(Emulation& emulation, DeviceTable* table);  // serialize.cpp
void install_serialised_streams(Emulation& emulation, DeviceTable* table);
void install_native_events(Emulation& emulation, DeviceTable* table);     // native_event.cpp
void install_emulated_streams(Emulation& emulation, DeviceTable* table);  // stream.cpp
void install_emulated_events(DeviceTable* table);                         // event.cpp
void install_fill(Emulation& emulation, DeviceTable* table);
void install_pinned(Emulation& emulation, DeviceTable* table);
void install_map(Emulation& emulation, DeviceTable* table);

}  // namespace bp

#endif
