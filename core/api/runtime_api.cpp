// SPDX-License-Identifier: Apache-2.0
//
// Runtime, devices, log and errors of the C API.
#include <cstdio>

#include "core/api/handles.hpp"
#include "core/base/log.hpp"
#include "ops/register.hpp"

namespace bp {
namespace {

// Fixed room, so that setting an error can't fail; longer words are cut.
struct LastError {
  char text[4096] = {};
};
thread_local constinit LastError last_error;

std::vector<std::string> split_paths(std::string_view paths) {
  std::vector<std::string> parts;
  while (!paths.empty()) {
    const size_t end = std::min(paths.find(':'), paths.size());
    if (end > 0) parts.emplace_back(paths.substr(0, end));
    paths.remove_prefix(std::min(end + 1, paths.size()));
  }
  return parts;
}

Result<RuntimeArgs> runtime_args(const bpa_runtime_args& given) {
  RuntimeArgs args;
  args.register_ops = register_ops;
  if (given.plugin_path != nullptr) args.plugin_path = split_paths(given.plugin_path);
  if (given.install_dir != nullptr) args.install_directory = given.install_dir;
  if (given.option_count > 0) {
    BP_TRY(check_pointer(given.option_names, "args.option_names"));
    BP_TRY(check_pointer(given.option_values, "args.option_values"));
  }
  for (uint64_t i = 0; i < given.option_count; ++i) {
    BP_TRY(check_pointer(given.option_names[i], "args.option_names[" + std::to_string(i) + "]"));
    BP_TRY(check_pointer(given.option_values[i], "args.option_values[" + std::to_string(i) + "]"));
    OptionSetting setting{given.option_names[i], given.option_values[i]};
    const bool core_option = setting.name.starts_with("BACKPLANE_");
    (core_option ? args.options : args.plugin_options).push_back(std::move(setting));
  }
  return args;
}

bpa_device_info device_info(Device& device) {
  const bp_device_props& props = device.slots().props;
  const MemoryStats stats = device.allocator().stats();
  const DeviceCounters& counters = device.counters();
  bpa_device_info info{};
  info.name = {device.name().data(), device.name().size()};
  info.full_name = props.name;
  info.vendor = props.vendor;
  info.driver = props.driver;
  info.memory_bytes = props.memory_bytes;
  info.memory_used_bytes = stats.allocated_bytes;
  info.memory_reserved_bytes = stats.reserved_bytes;
  info.features = props.features & ~device.slots().emulated;
  info.launch_count = counters.launches.load();
  info.decomposed_count = counters.decomposed_ops;
  info.fallback_count = counters.fallback_ops;
  info.copy_in_count = counters.host_to_device_copies;
  info.copy_out_count = counters.device_to_host_copies;
  info.materialise_count = counters.materialisations;
  return info;
}

}  // namespace

bpa_status set_last_error(const Status& status) {
  std::snprintf(last_error.text, sizeof(last_error.text), "%s", status.message().c_str());
  return status.code();
}

}  // namespace bp

using bp::check_pointer;
using bp::from_handle;
using bp::guarded;
using bp::Status;

const char* bpa_version(void) { return BACKPLANE_VERSION; }

const char* bpa_last_error(void) { return bp::last_error.text; }

const char* bpa_status_name(bpa_status status) { return bp::status_name(status).data(); }

void bpa_log_set_sink(bpa_log_sink sink, void* user) {
  if (sink == nullptr) {
    bp::set_log_sink({});
    return;
  }
  bp::set_log_sink([sink, user](uint32_t level, std::string_view line) {
    sink(user, level, line.data(), line.size());
  });
}

bpa_status bpa_runtime_create(const bpa_runtime_args* args, bpa_runtime** out_runtime) {
  return guarded(out_runtime, 1, [&]() -> Status {
    BP_TRY(check_pointer(out_runtime, "out_runtime"));
    BP_TRY_ASSIGN(const bpa_runtime_args given, bp::read_struct(args, "args"));
    BP_TRY_ASSIGN(const bp::RuntimeArgs runtime_args, bp::runtime_args(given));
    BP_TRY_ASSIGN(bp::Ref<bp::Runtime> runtime, bp::Runtime::create(runtime_args));
    *out_runtime = bp::to_handle(runtime.detach());
    return {};
  });
}

bpa_status bpa_runtime_close(bpa_runtime* runtime) {
  return guarded([&]() -> Status {
    BP_TRY(check_pointer(runtime, "runtime"));
    from_handle(runtime)->close();
    return {};
  });
}

void bpa_runtime_release(bpa_runtime* runtime) {
  if (runtime != nullptr) from_handle(runtime)->release();
}

bpa_status bpa_runtime_device_count(bpa_runtime* runtime, uint64_t* out_count) {
  return guarded(out_count, 1, [&]() -> Status {
    BP_TRY(check_pointer(runtime, "runtime"));
    BP_TRY(check_pointer(out_count, "out_count"));
    BP_TRY(from_handle(runtime)->check_open());
    *out_count = from_handle(runtime)->devices().size();
    return {};
  });
}

bpa_status bpa_runtime_device(bpa_runtime* runtime, uint64_t index, bpa_device** out_device) {
  return guarded(out_device, 1, [&]() -> Status {
    BP_TRY(check_pointer(runtime, "runtime"));
    BP_TRY(check_pointer(out_device, "out_device"));
    BP_TRY(from_handle(runtime)->check_open());
    const auto devices = from_handle(runtime)->devices();
    if (index >= devices.size()) {
      return Status(BP_INVALID_ARGUMENT, "argument index is " + std::to_string(index) +
                                             ", expected less than " +
                                             std::to_string(devices.size()));
    }
    *out_device = bp::to_handle(devices[index].get());
    return {};
  });
}

bpa_status bpa_runtime_find_device(bpa_runtime* runtime, const char* name,
                                   bpa_device** out_device) {
  return guarded(out_device, 1, [&]() -> Status {
    BP_TRY(check_pointer(runtime, "runtime"));
    BP_TRY(check_pointer(name, "name"));
    BP_TRY(check_pointer(out_device, "out_device"));
    BP_TRY_ASSIGN(bp::Device * device, from_handle(runtime)->find_device(name));
    *out_device = bp::to_handle(device);
    return {};
  });
}

bpa_status bpa_device_get_info(bpa_device* device, bpa_device_info* out_info) {
  return guarded([&]() -> Status {
    BP_TRY(check_pointer(device, "device"));
    BP_TRY(from_handle(device)->check_open());
    return bp::write_struct(out_info, bp::device_info(*from_handle(device)), "out_info");
  });
}

bpa_status bpa_device_sync(bpa_device* device) {
  return guarded([&]() -> Status {
    BP_TRY(check_pointer(device, "device"));
    BP_TRY(from_handle(device)->check_open());
    return from_handle(device)->quiesce();
  });
}
