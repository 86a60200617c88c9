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

  /// The plugin's own slots.
  const DeviceTable& native() const { return native_; }
  /// Bands that this module emulates.
  uint64_t emulated() const { return emulated_; }
  bool emulates(uint64_t feature) const { return (emulated_ & feature) != 0; }

  /// Puts a failure in words where the plugin puts its own, and returns the status.
  bp_status fail(bp_status status, std::string_view message, bp_stream* stream = nullptr,
                 uint64_t op_seq = 0) const;
  /// The body of a slot: what the standard library throws becomes a status, with words.
  template <class Body>
  bp_status guarded(Body&& body) const noexcept {
    try {
      return body();
    } catch (const std::bad_alloc&) {
      return fail(BP_OUT_OF_MEMORY, "the host has no memory for it");
    } catch (const std::system_error&) {
      return fail(BP_OUT_OF_MEMORY, "the host has no room for another thread");
    } catch (...) {
      return BP_INTERNAL;
    }
  }

  bp_device* self() { return reinterpret_cast<bp_device*>(this); }
  static Emulation& from(bp_device* self) { return *reinterpret_cast<Emulation*>(self); }

  /// Keeps one object (a list of one node, so that nothing is allocated) until the device closes.
  void keep_until_close(std::list<std::shared_ptr<void>> object);

  std::mutex mappings_mutex;
  std::unordered_map<void*, Mapping> mappings;

 private:
  const DeviceTable native_;
  const uint64_t emulated_;
  std::mutex kept_mutex_;
  std::list<std::shared_ptr<void>> kept_;
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

/// event_elapsed by the host's clock. BP_INVALID_ARGUMENT if the end is before the start.
bp_status elapsed_between(const Emulation& emulation, std::chrono::steady_clock::time_point start,
                          std::chrono::steady_clock::time_point end, uint64_t* out_elapsed_ns);

// Each of these fills one group of slots.
void install_native_events(DeviceTable* table);     // native_event.cpp
void install_emulated_streams(DeviceTable* table);  // stream.cpp
void install_emulated_events(DeviceTable* table);   // event.cpp
void install_fill(DeviceTable* table);
void install_pinned(DeviceTable* table);
void install_map(DeviceTable* table);

}  // namespace bp

#endif
