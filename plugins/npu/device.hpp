// SPDX-License-Identifier: Apache-2.0
//
// An instance and its devices. A device is its memory, its DMA engine and the options it was opened
// with; what an option switches off, the core must do without.
#ifndef BACKPLANE_PLUGINS_NPU_DEVICE_HPP
#define BACKPLANE_PLUGINS_NPU_DEVICE_HPP

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "backplane/sdk/sdk.hpp"
#include "backplane/sdk/test_inject.hpp"
#include "memory.hpp"

namespace bp::npu {

using sdk::fail;
using sdk::Failure;
using sdk::read_args;
using sdk::refuse;
using sdk::slot;

/// What becomes of operations of ranks that do not fit together.
enum class Mismatch : uint8_t {
  kFails,   // all ranks learn of it
  kPasses,  // it ends well, and what is received is wrong
  kHangs,   // it does not end
};

/// The device-scope options of the manifest, against which the core has checked them.
struct DeviceOptions {
  uint64_t memory_bytes;
  int64_t launch_latency_ns;
  uint64_t features;  // BP_FEATURE_*_BIT that are left on
  bool concurrent;
  bool communicators_at_once;
  bool collective_averages;
  uint32_t collective_ids;  // of a group, at most
  Mismatch mismatch;
  std::vector<const bp_kernel*> kernels;  // without those that are switched off
};

/// What a device does wrong in collectives where tests ask for it.
enum class CollectiveFault : uint8_t {
  kNone,
  kNeverComes,  // other ranks wait for the operation for ever
  kDies,        // the device is lost, which other ranks notice
  kSlow,        // the operation begins a while later
  kFlipsBit,    // of what is received
  kDisagrees,   // it takes part with one element less than was asked for
  kLiesReady,   // it never joins a group, and says that all ranks have
};
struct CollectiveFaultPlan {
  CollectiveFault fault = CollectiveFault::kNone;
  uint32_t device_index = 0;
  uint64_t nth = 1;  // of the device's operations
};

/// Any-thread.
class Device {
 public:
  Device(bp_instance* instance, uint32_t index, DeviceOptions options);

  /// For slots of optional bands.
  void require(uint64_t feature) const {
    if ((options_.features & feature) != 0) return;
    fail(BP_UNSUPPORTED, "an option of the device has switched this off");
  }

  /// What stands here for a call of a vendor's driver. Tests make it fail (bp.test_inject).
  void driver_call() { inject_.driver_call(lost_); }
  /// For what only waits.
  void require_not_lost() const { sdk::TestInject::require_not_lost(lost_); }

  void lose() { lost_ = true; }

  /// Of the operation that begins now; each is asked for once.
  CollectiveFault next_collective_fault() {
    if (collective_fault_.fault == CollectiveFault::kLiesReady) return CollectiveFault::kNone;
    return ++collective_count_ == collective_fault_.nth ? collective_fault_.fault
                                                        : CollectiveFault::kNone;
  }
  bool lies_ready() const { return collective_fault_.fault == CollectiveFault::kLiesReady; }

  /// The links between devices, for collectives of `user`, whatever that number means, until given
  /// back as often. False: another has them.
  bool try_take_links(uint64_t user);
  void give_links();

  /// Returns when the DMA engine, which streams share, has done the transfer.
  void run_dma(const Transfer& transfer);

  const sdk::Host& host() const { return host_; }
  const DeviceOptions& options() const { return options_; }
  const std::vector<const bp_kernel*>& kernels() const { return options_.kernels; }
  DeviceMemory& memory() { return memory_; }

 private:
  const sdk::Host host_;
  const DeviceOptions options_;
  sdk::TestInject& inject_;
  const CollectiveFaultPlan collective_fault_;
  std::atomic<uint64_t> collective_count_ = 0;
  std::atomic<bool> lost_ = false;
  DeviceMemory memory_;
  std::mutex links_mutex_;
  uint64_t links_user_ = 0;       // under links_mutex_
  uint32_t links_use_count_ = 0;  // under links_mutex_
  std::mutex dma_mutex_;          // held for a transfer: the engine does one at a time
};

extern const bp_device_api kDeviceApi;

}  // namespace bp::npu

// The ABI's opaque types: what the core's pointers point to.
struct bp_device final : bp::npu::Device {
  using Device::Device;
};

struct bp_instance final {
  bp::sdk::Host services;
  uint32_t device_count;
  bp::npu::CollectiveFaultPlan collective_fault = {};
  bp::sdk::TestInject inject = {};

  const bp::sdk::Host& host() const { return services; }
};

#endif
