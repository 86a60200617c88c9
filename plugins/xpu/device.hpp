// SPDX-License-Identifier: Apache-2.0
//
// Instances and devices. Every OpenCL device of every platform becomes one device with a context of
// its own, so that memory is allocated on it and nowhere else, and with one internal in-order queue
// for what must be done when a call returns.
#ifndef BACKPLANE_PLUGINS_XPU_DEVICE_HPP
#define BACKPLANE_PLUGINS_XPU_DEVICE_HPP

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "driver.hpp"
#include "kernels/program.hpp"
#include "memory.hpp"
#include "program_cache.hpp"

namespace bp::xpu {

/// What a device says about itself, read once at init.
struct DeviceInfo {
  cl_device_id id = nullptr;
  std::string name;
  std::string vendor;
  std::string driver;
  uint32_t compute_unit_count = 0;
  uint64_t memory_bytes = 0;
  uint64_t max_alloc_bytes = 0;
  uint64_t alignment_bytes = 0;
  uint64_t local_memory_bytes = 0;     // of one work group
  uint32_t max_group_size = 1;         // work items
  bool has_fast_local_memory = false;  // not a part of the global one
  bool has_f64 = false;
  bool rounds_divide_correctly = false;
};

/// One instance of the plugin: an opened driver and the devices it has.
class Instance {
 public:
  /// Throws sdk::Failure; BP_UNAVAILABLE where there is no driver, platform or device.
  Instance(sdk::Host host, const bp_config& config);

  const sdk::Host& host() const { return host_; }
  const std::shared_ptr<const Driver>& driver() const { return driver_; }
  const std::vector<DeviceInfo>& devices() const { return devices_; }
  const std::shared_ptr<const ProgramCache>& program_cache() const { return program_cache_; }

 private:
  sdk::Host host_;
  std::shared_ptr<const ProgramCache> program_cache_;
  std::shared_ptr<const Driver> driver_;
  std::vector<DeviceInfo> devices_;
};

/// An open device. Any thread may use it.
class Device {
 public:
  Device(const Instance& instance, const DeviceInfo& info, bool profiling);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const sdk::Host& host() const { return host_; }
  const Driver& driver() const { return *driver_; }
  const DeviceInfo& info() const { return info_; }
  cl_context context() const { return context_.get(); }
  bool has_profiling() const { return profiling_; }
  Memory& memory() { return memory_; }
  const ProgramCache& program_cache() const { return *program_cache_; }
  Programs& programs() { return programs_; }
  const std::vector<const bp_kernel*>& kernels() const { return kernels_; }

  /// A new in-order queue.
  Owned<cl_command_queue> make_queue() const;
  /// Another owner of a queue of the application's. Throws sdk::Failure BP_INVALID_ARGUMENT unless
  /// it is an in-order queue of this device and its context.
  Owned<cl_command_queue> share_queue(cl_command_queue queue) const;
  /// The internal queue. Its commands are never waited for by other queues.
  cl_command_queue queue() const { return queue_.get(); }

  /// Enqueues one command on the internal queue and waits for it. `enqueue(queue, out_event)`
  /// returns an OpenCL code. Throws sdk::Failure.
  template <class Enqueue>
  void run_now(const char* what, Enqueue&& enqueue) {
    cl_event event = nullptr;
    check(enqueue(queue(), &event), what);
    finish(Owned<cl_event>(*driver_, event), what);
  }

 private:
  void finish(const Owned<cl_event>& event, const char* what) const;

  sdk::Host host_;
  std::shared_ptr<const Driver> driver_;
  DeviceInfo info_;
  bool profiling_;
  std::shared_ptr<const ProgramCache> program_cache_;
  Owned<cl_context> context_;
  Owned<cl_command_queue> queue_;
  Memory memory_;
  Programs programs_;
  const std::vector<const bp_kernel*> kernels_ = sdk::all_kernels();
};

extern const bp_device_api kDeviceApi;

}  // namespace bp::xpu

// The ABI's opaque types are these classes under another name.
struct bp_instance final : bp::xpu::Instance {
  using Instance::Instance;
};
struct bp_device final : bp::xpu::Device {
  using Device::Device;
};

#endif
