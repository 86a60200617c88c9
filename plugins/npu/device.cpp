// SPDX-License-Identifier: Apache-2.0
//
// Options of a device, what it says of itself, and the device table.
#include "device.hpp"

#include <algorithm>
#include <string>
#include <string_view>

namespace bp::npu {

Device::Device(bp_instance* instance, uint32_t index, DeviceOptions options)
    : host_(instance->host()),
      options_(std::move(options)),
      inject_(instance->inject),
      collective_fault_(instance->collective_fault.device_index == index
                            ? instance->collective_fault
                            : CollectiveFaultPlan()),
      memory_(index, options_.memory_bytes) {
  driver_call();
}

bool Device::try_take_links(uint64_t user) {
  if (options_.communicators_at_once) return true;
  const std::scoped_lock lock(links_mutex_);
  if (links_use_count_ > 0 && links_user_ != user) return false;
  links_user_ = user;
  ++links_use_count_;
  return true;
}

void Device::give_links() {
  if (options_.communicators_at_once) return;
  const std::scoped_lock lock(links_mutex_);
  --links_use_count_;
}

void Device::run_dma(const Transfer& transfer) {
  driver_call();
  const std::scoped_lock lock(dma_mutex_);
  transfer();
}

namespace {

/// All kernels but those of the named operators, a comma-separated list.
std::vector<const bp_kernel*> kernels_without(std::string_view operators) {
  std::vector<const bp_kernel*> kernels = sdk::all_kernels();
  while (!operators.empty()) {
    const size_t comma = std::min(operators.find(','), operators.size());
    const std::string_view name = operators.substr(0, comma);
    operators.remove_prefix(std::min(comma + 1, operators.size()));
    const auto is_named = [&](const bp_kernel* kernel) { return sdk::view(kernel->op) == name; };
    if (std::erase_if(kernels, is_named) == 0) {
      refuse("option kernels: the device has no kernel for '", name, "', or it is named twice");
    }
  }
  return kernels;
}

Mismatch read_mismatch(const bp_open_args& args) {
  const std::string_view wanted = sdk::option(&args, "collective_mismatch").value_or("fails");
  if (wanted == "passes") return Mismatch::kPasses;
  return wanted == "hangs" ? Mismatch::kHangs : Mismatch::kFails;
}

DeviceOptions read_options(const bp_open_args& args) {
  const auto bit_if = [&](std::string_view option, uint64_t bit) {
    return sdk::option_bool(&args, option, true) ? bit : 0;
  };
  const uint64_t features =
      bit_if("async", BP_FEATURE_ASYNC_BIT) | bit_if("timing", BP_FEATURE_TIMING_BIT) |
      bit_if("fill", BP_FEATURE_FILL_BIT) | bit_if("pinned", BP_FEATURE_PINNED_BIT);
  return {.memory_bytes = static_cast<uint64_t>(sdk::option_i64(&args, "memory", 256 << 20)),
          .launch_latency_ns = sdk::option_i64(&args, "launch_latency_ns", 0),
          .features = features,
          .concurrent = sdk::option_bool(&args, "concurrent", true),
          .communicators_at_once = sdk::option_bool(&args, "communicators_at_once", true),
          .collective_averages = sdk::option_bool(&args, "collective_averages", true),
          .collective_ids = static_cast<uint32_t>(sdk::option_i64(&args, "collective_ids", 1)),
          .mismatch = read_mismatch(args),
          .kernels = kernels_without(sdk::option(&args, "kernels").value_or(""))};
}

bp_status device_count(bp_instance* instance, uint32_t* out_count) {
  return slot("device_count", instance, {out_count}, [&] { *out_count = instance->device_count; });
}

bp_status device_open(bp_instance* instance, const bp_open_args* args, bp_device** out_device) {
  return slot("device_open", instance, {args, out_device}, [&] {
    const bp_open_args wanted = read_args(args, 0);
    if (wanted.index >= instance->device_count) {
      refuse("device_open: no device ", wanted.index, "; there are ", instance->device_count);
    }
    *out_device = new bp_device(instance, wanted.index, read_options(wanted));
  });
}

bp_status device_close(bp_device* device) {
  return slot("device_close", device, {}, [&] {
    // The arena goes as a whole, so no leak checker would see what the core forgot in it.
    if (const uint64_t bytes = device->memory().used_bytes(); bytes > 0) {
      device->host().log(BP_LOG_WARNING, "npu: bytes left at close: " + std::to_string(bytes));
    }
    delete device;
  });
}

bp_status device_props(bp_device* device, bp_device_props* out_props) {
  return slot("device_props", device, {out_props}, [&] {
    const DeviceOptions& options = device->options();
    const bp_device_props props = {
        .struct_size = sizeof(bp_device_props),
        .flags = options.concurrent ? BP_DEVICE_CONCURRENT_BIT : 0,
        .features = options.features,
        .execution = BP_EXECUTION_QUEUED,
        .compute_unit_count = 1,
        .memory_bytes = options.memory_bytes,
        .max_alloc_bytes = 0,
        .alignment_bytes = kAlignmentBytes,
        .name = sdk::str("simulated NPU"),
        .vendor = sdk::str("Backplane"),
        .driver = sdk::str("simulator 0.1.0"),
    };
    sdk::write_out(out_props, props);
  });
}

}  // namespace

constinit const bp_device_api kDeviceApi = {
    .struct_size = sizeof(bp_device_api),
    .flags = 0,
    .device_count = device_count,
    .device_open = device_open,
    .device_close = device_close,
    .device_props = device_props,
};

}  // namespace bp::npu
