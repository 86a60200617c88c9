// SPDX-License-Identifier: Apache-2.0
//
// What level 0 cases are written with: the plugin's own tables, called without the core between, a
// host table that remembers what it was told, and owners of raw instances and devices.
#ifndef BACKPLANE_SDK_CONFORM_ABI_HPP
#define BACKPLANE_SDK_CONFORM_ABI_HPP

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backplane/device_api.h"
#include "core/plugin/api_tables.hpp"
#include "sdk/conform/case.hpp"
#include "sdk/conform/checks.hpp"
#include "sdk/conform/platform.hpp"
#include "sdk/conform/target.hpp"

namespace bp::conform {

struct HostReport {
  bp_status status = BP_OK;
  std::string message;
  uint32_t struct_size = 0;
  std::thread::id thread;
};

/// A host table with a context of its own. Any thread.
class RecordingHost {
 public:
  const bp_host_api* api() const { return &api_; }
  void* context() { return this; }
  std::vector<HostReport> take_reports();
  /// Of the newest report with this status, which stays; empty: there is none.
  std::string newest_words(bp_status status);

 private:
  static void on_report(void* host_ctx, const bp_report_info* info);
  static void on_log(void* host_ctx, uint32_t level, bp_str message);

  const bp_host_api api_{sizeof(bp_host_api), 0, on_report, on_log};
  std::mutex mutex_;
  std::vector<HostReport> reports_;
};

class RawInstance;
class RawDevice;

class AbiContext final : public Checks {
 public:
  explicit AbiContext(const Target& target) : target_(target) {}
  ~AbiContext();
  AbiContext(const AbiContext&) = delete;
  AbiContext& operator=(const AbiContext&) = delete;

  const Target& target() const { return target_; }
  /// Maps the library at first use.
  const Library& library();
  int32_t entry(uint32_t core_abi, bp_plugin* out_plugin);
  /// What the entry filled at its first use, and copies of the tables: zeros beyond their sizes.
  const bp_plugin& plugin();
  const ApiTables& tables();
  const bp_root_api& root() { return tables().root; }
  const bp_device_api& device_api() { return tables().device; }
  const bp_memory_api& memory() { return tables().memory; }
  const bp_stream_api& stream() { return tables().stream; }
  const bp_kernel_api& kernel() { return tables().kernel; }
  const bp_collective_api& collective() { return tables().collective; }

  /// The instance and device of the case; made at first use.
  bp_instance* instance();
  bp_device* device();
  bp_device_props props();
  RecordingHost& host() { return host_; }
  /// Ends device and instance, and checks how.
  void close();
  /// Nothing is ended: the process goes with all that the case has made.
  void leave() {
    left_ = true;
    // Still to be found at the end, so that no leak check takes them for lost.
    [[maybe_unused]] static const void* volatile left[2];
    left[0] = instance_.get();
    left[1] = device_.get();
  }
  bool is_left() const { return left_; }

 private:
  std::string take_plugin_words(bp_status found) override { return host_.newest_words(found); }

  const Target& target_;
  bool left_ = false;
  RecordingHost host_;
  std::optional<Library> library_;
  std::optional<bp_plugin> plugin_;
  std::optional<ApiTables> tables_;
  std::unique_ptr<RawInstance> instance_;
  std::unique_ptr<RawDevice> device_;
};

/// A copy of a versioned struct: as much of it as there is, zeros behind.
template <class Struct>
Struct copy_struct(const Struct* theirs) {
  Struct copy{};
  std::memcpy(&copy, theirs, std::min<size_t>(theirs->struct_size, sizeof(copy)));
  return copy;
}

/// init with the target's options.
class RawInstance {
 public:
  RawInstance(AbiContext& context, RecordingHost& host);
  ~RawInstance() { shutdown(); }
  RawInstance(const RawInstance&) = delete;
  RawInstance& operator=(const RawInstance&) = delete;

  bp_status status() const { return status_; }
  bp_instance* get() const { return instance_; }
  void require();
  void shutdown();

 private:
  AbiContext& context_;
  bp_status status_ = BP_INTERNAL;
  bp_instance* instance_ = nullptr;
};

/// device_open with the target's options.
class RawDevice {
 public:
  RawDevice(AbiContext& context, bp_instance* instance, uint32_t index);
  ~RawDevice() { close(); }
  RawDevice(const RawDevice&) = delete;
  RawDevice& operator=(const RawDevice&) = delete;

  bp_status status() const { return status_; }
  bp_device* get() const { return device_; }
  void close();

 private:
  AbiContext& context_;
  bp_status status_ = BP_INTERNAL;
  bp_device* device_ = nullptr;
};

/// A communicator of the case's device that is alone in its group and ready, with a stream. For
/// devices with collectives (kNeedCollectives).
class RawGroup {
 public:
  explicit RawGroup(AbiContext& context);
  ~RawGroup();
  RawGroup(const RawGroup&) = delete;
  RawGroup& operator=(const RawGroup&) = delete;

  bp_comm* comm() const { return comm_; }
  bp_stream* stream() const { return stream_; }
  uint64_t id_bytes() const { return id_bytes_; }  // of the device's groups
  bp_comm_state poll() const;

 private:
  void join();

  AbiContext& context_;
  bp_stream* stream_ = nullptr;
  bp_comm* comm_ = nullptr;
  uint64_t id_bytes_ = 0;
};

/// A config or open arguments with the target's options, valid while it lives.
class OptionArguments {
 public:
  OptionArguments(AbiContext& context, OptionScope scope);
  bp_config config() const;
  bp_open_args open_args(uint32_t index) const;

 private:
  std::vector<OptionSetting> settings_;
  std::optional<OptionArrays> arrays_;
};

/// Writes and reads a block of device memory through raw slots: the instance or device works.
void expect_working(AbiContext& context, bp_device* device, std::string_view when);

}  // namespace bp::conform

#endif
