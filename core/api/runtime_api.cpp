// SPDX-License-Identifier: Apache-2.0
//
// Runtime, devices, log and errors of the C API.
#include "core/api/handles.hpp"
#include "core/base/log.hpp"
#include "core/device/features.hpp"
#include "ops/register.hpp"

namespace bp {
namespace {

constexpr uint32_t kFeatureStates[] = {BPA_FEATURE_NATIVE, BPA_FEATURE_EMULATED,
                                       BPA_FEATURE_ABSENT};  // by FeatureState

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
  if (given.plugin_path != nullptr) {
    BP_TRY(check_text(given.plugin_path, "args.plugin_path"));
    args.plugin_path = split_paths(given.plugin_path);
  }
  if (given.install_dir != nullptr) {
    BP_TRY(check_text(given.install_dir, "args.install_dir"));
    args.install_directory = given.install_dir;
  }
  BP_TRY(check_array(given.option_names, given.option_count, "args.option_names"));
  BP_TRY(check_array(given.option_values, given.option_count, "args.option_values"));
  for (uint64_t i = 0; i < given.option_count; ++i) {
    BP_TRY(check_text(given.option_names[i], "args.option_names[" + std::to_string(i) + "]"));
    BP_TRY(check_text(given.option_values[i], "args.option_values[" + std::to_string(i) + "]"));
    OptionSetting setting{given.option_names[i], given.option_values[i], "the Runtime's options"};
    const bool core_option = setting.name.starts_with("BACKPLANE_");
    (core_option ? args.options : args.plugin_options).push_back(std::move(setting));
  }
  return args;
}

bpa_device_info device_info(Device& device) {
  const bp_device_props& props = device.table().props;
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
  info.features = props.features & ~device.table().emulated;
  info.launch_count = counters.launches.load();
  info.decomposed_count = counters.decomposed_ops;
  info.fallback_count = counters.fallback_ops;
  info.copy_in_count = counters.host_to_device_copies;
  info.copy_out_count = counters.device_to_host_copies;
  info.materialise_count = counters.contiguous_copies;
  info.emulated_features = device.table().emulated;
  info.device_flags = props.flags;
  info.execution = props.execution;
  info.compute_unit_count = props.compute_unit_count;
  info.alignment_bytes = props.alignment_bytes;
  info.output_copy_count = counters.output_copies;
  info.dlpack_device_type = props.dlpack_device_type;
  info.dlpack_device_id = props.dlpack_device_id;
  return info;
}

}  // namespace
}  // namespace bp

using bp::bad_argument;
using bp::check_pointer;
using bp::guarded;
using bp::object_of;
using bp::Ref;
using bp::Runtime;
using bp::Status;

const char* bpa_version(void) { return BACKPLANE_VERSION; }

const char* bpa_last_error(void) { return bp::last_error_text(); }

const char* bpa_last_error_op(void) { return bp::last_error_op(); }

const char* bpa_status_name(bpa_status status) { return bp::status_name(status).data(); }

void bpa_log_set_sink(bpa_log_sink sink, void* user) {
  guarded([&]() -> Status {
    if (sink == nullptr) {
      bp::set_log_sink({});
      return {};
    }
    bp::set_log_sink([sink, user](uint32_t level, std::string_view line) {
      sink(user, level, line.data(), line.size());
    });
    return {};
  });
}

bpa_status bpa_log_set_level(uint32_t level) {
  return guarded([&]() -> Status {
    if (level > BP_LOG_DEBUG) {
      return bad_argument("level", "is " + std::to_string(level) + ", expected 0 to 4");
    }
    bp::fix_log_level(level);
    return {};
  });
}

bpa_status bpa_runtime_create(const bpa_runtime_args* args, bpa_runtime** out_runtime) {
  return guarded(out_runtime, 1, [&]() -> Status {
    BP_TRY(check_pointer(out_runtime, "out_runtime"));
    BP_TRY_ASSIGN(const bpa_runtime_args given, bp::read_struct(args, "args"));
    BP_TRY_ASSIGN(const bp::RuntimeArgs runtime_args, bp::runtime_args(given));
    BP_TRY_ASSIGN(Ref<Runtime> runtime, Runtime::create(runtime_args));
    BP_TRY(bp::make_api_handle(runtime.get(), out_runtime));
    runtime.detach()->spread();
    return {};
  });
}

bpa_status bpa_runtime_close(bpa_runtime* runtime) {
  return guarded([&]() -> Status {
    Ref<Runtime> kept;  // a callback may release the caller's
    {
      const bp::HandleUses found_by;  // two that close are not to wait for each other's use
      BP_TRY_ASSIGN(Runtime * found, object_of(runtime, "runtime"));
      kept = Ref<Runtime>(found);
    }
    return kept->close_amid_calls(bp::owner_of);
  });
}

void bpa_runtime_release(bpa_runtime* runtime) { bp::release(runtime, "bpa_runtime_release"); }

bpa_status bpa_runtime_device_count(bpa_runtime* runtime, uint64_t* out_count) {
  return guarded(out_count, 1, [&]() -> Status {
    BP_TRY_ASSIGN(const Runtime* owner, object_of(runtime, "runtime"));
    BP_TRY(check_pointer(out_count, "out_count"));
    BP_TRY(owner->check_open());
    *out_count = owner->devices().size();
    return {};
  });
}

bpa_status bpa_runtime_device(bpa_runtime* runtime, uint64_t index, bpa_device** out_device) {
  return guarded(out_device, 1, [&]() -> Status {
    BP_TRY_ASSIGN(const Runtime* owner, object_of(runtime, "runtime"));
    BP_TRY(check_pointer(out_device, "out_device"));
    BP_TRY(owner->check_open());
    const auto devices = owner->devices();
    if (index >= devices.size()) {
      return bad_argument("index", "is " + std::to_string(index) + ", there are " +
                                       std::to_string(devices.size()) + " devices");
    }
    *out_device = bp::to_handle(devices[index].get());
    return {};
  });
}

bpa_status bpa_runtime_find_device(bpa_runtime* runtime, const char* name,
                                   bpa_device** out_device) {
  return guarded(out_device, 1, [&]() -> Status {
    BP_TRY_ASSIGN(const Runtime* owner, object_of(runtime, "runtime"));
    BP_TRY(bp::check_text(name, "name"));
    BP_TRY(check_pointer(out_device, "out_device"));
    BP_TRY_ASSIGN(const bp::Device* device, owner->find_device(name));
    *out_device = bp::to_handle(device);
    return {};
  });
}

bpa_status bpa_device_get_info(bpa_device* device, bpa_device_info* out_info) {
  return guarded([&]() -> Status {
    BP_TRY_ASSIGN(const bp::DeviceUse source, object_of(device, "device"));
    BP_TRY(check_pointer(out_info, "out_info"));
    BP_TRY(bp::check_open(*source));
    return bp::write_struct(out_info, bp::device_info(*source), "out_info");
  });
}

bpa_status bpa_device_feature_count(bpa_device* device, uint64_t* out_count) {
  return guarded(out_count, 1, [&]() -> Status {
    BP_TRY(object_of(device, "device"));
    BP_TRY(check_pointer(out_count, "out_count"));
    *out_count = std::size(bp::kFeatures);
    return {};
  });
}

bpa_status bpa_device_get_feature(bpa_device* device, uint64_t index, bpa_feature_info* out_info) {
  return guarded([&]() -> Status {
    BP_TRY_ASSIGN(const bp::DeviceUse source, object_of(device, "device"));
    if (index >= std::size(bp::kFeatures)) {
      return bad_argument("index", "is " + std::to_string(index) + ", there are " +
                                       std::to_string(std::size(bp::kFeatures)) + " features");
    }
    BP_TRY(bp::check_open(*source));
    const bp::Feature& feature = bp::kFeatures[index];
    bpa_feature_info info{};
    info.name = feature.name;
    info.bit = feature.bit;
    info.state = bp::kFeatureStates[static_cast<size_t>(state_of(feature, source->table()))];
    return bp::write_struct(out_info, info, "out_info");
  });
}

bpa_status bpa_device_sync(bpa_device* device) {
  return guarded([&]() -> Status {
    BP_TRY_ASSIGN(const bp::DeviceUse source, object_of(device, "device"));
    BP_TRY(bp::check_open(*source));
    return source->sync();
  });
}
