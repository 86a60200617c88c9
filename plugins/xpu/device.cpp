// SPDX-License-Identifier: Apache-2.0
//
// From platforms to devices, and the device table.
#include "device.hpp"

#include <algorithm>
#include <mutex>

#include "options.hpp"

namespace bp::xpu {
namespace {

/// Texts have a variable size: asked for first, then read, without the closing zero.
template <class Query>
std::string read_text(std::string_view what, Query&& query) {
  size_t bytes = 0;
  check(query(0, nullptr, &bytes), what);
  std::string text(bytes, '\0');
  check(query(bytes, text.data(), nullptr), what);
  text.resize(std::string_view(text.c_str()).size());
  return text;
}

std::string platform_text(const Driver& driver, cl_platform_id platform, cl_platform_info key) {
  return read_text("clGetPlatformInfo", [&](size_t bytes, void* value, size_t* out_bytes) {
    return driver.clGetPlatformInfo(platform, key, bytes, value, out_bytes);
  });
}

std::string device_text(const Driver& driver, cl_device_id id, cl_device_info key) {
  return read_text("clGetDeviceInfo", [&](size_t bytes, void* value, size_t* out_bytes) {
    return driver.clGetDeviceInfo(id, key, bytes, value, out_bytes);
  });
}

template <class T>
T device_value(const Driver& driver, cl_device_id id, cl_device_info key) {
  T value{};
  check(driver.clGetDeviceInfo(id, key, sizeof(value), &value, nullptr), "clGetDeviceInfo");
  return value;
}

struct Platform {
  cl_platform_id id;
  std::string name;
};

/// All platforms by name: the loader's own order depends on the order of files in a folder.
std::vector<Platform> list_platforms(const Driver& driver) {
  cl_uint count = 0;
  const cl_int code = driver.clGetPlatformIDs(0, nullptr, &count);
  sdk::ExitGate::watch("platforms");  // the loader has loaded the drivers
  if (code != CL_SUCCESS || count == 0) {
    // Loaders answer an empty folder with a code of their own extension, hence any code here.
    throw sdk::Failure{BP_UNAVAILABLE,
                       "the OpenCL loader knows no platform: install a device's driver, on Debian "
                       "for the processor itself the package pocl-opencl-icd",
                       code};
  }
  std::vector<cl_platform_id> ids(count);
  check(driver.clGetPlatformIDs(count, ids.data(), nullptr), "clGetPlatformIDs");
  std::vector<Platform> platforms;
  platforms.reserve(count);
  for (cl_platform_id id : ids) {
    platforms.push_back({id, platform_text(driver, id, CL_PLATFORM_NAME)});
  }
  std::stable_sort(platforms.begin(), platforms.end(),
                   [](const Platform& a, const Platform& b) { return a.name < b.name; });
  return platforms;
}

std::vector<Platform> filter_platforms(std::vector<Platform> platforms, std::string_view filter) {
  std::string names;
  for (const Platform& platform : platforms) {
    names += (names.empty() ? "'" : ", '") + platform.name + "'";
  }
  std::erase_if(platforms, [&](const Platform& platform) {
    return platform.name.find(filter) == std::string::npos;
  });
  if (platforms.empty()) {
    throw sdk::Failure{BP_UNAVAILABLE, "option platform: no OpenCL platform's name contains '" +
                                           std::string(filter) + "'; there is " + names};
  }
  return platforms;
}

/// Why this plugin cannot use a device, or nothing.
std::string refuse(const Driver& driver, cl_device_id id) {
  if (device_value<cl_bool>(driver, id, CL_DEVICE_AVAILABLE) == CL_FALSE) {
    return "it is not available";
  }
  if (device_value<cl_bool>(driver, id, CL_DEVICE_COMPILER_AVAILABLE) == CL_FALSE) {
    return "it has no compiler";
  }
  if (device_value<cl_bool>(driver, id, CL_DEVICE_ENDIAN_LITTLE) == CL_FALSE) {
    return "it is big-endian";
  }
  const std::string profile = device_text(driver, id, CL_DEVICE_PROFILE);
  if (profile != "FULL_PROFILE") return "its profile is " + profile + ", not FULL_PROFILE";
  const std::string version = device_text(driver, id, CL_DEVICE_VERSION);
  if (version.starts_with("OpenCL 1.0") || version.starts_with("OpenCL 1.1")) {
    return "it has " + version + "; at least 1.2 is needed";
  }
  return {};
}

DeviceInfo read_device(const Driver& driver, const Platform& platform, cl_device_id id) {
  DeviceInfo info;
  info.id = id;
  info.name = device_text(driver, id, CL_DEVICE_NAME);
  info.vendor = device_text(driver, id, CL_DEVICE_VENDOR);
  info.driver = platform.name + " " + device_text(driver, id, CL_DRIVER_VERSION) + ", " +
                platform_text(driver, platform.id, CL_PLATFORM_VERSION);
  info.compute_unit_count = device_value<cl_uint>(driver, id, CL_DEVICE_MAX_COMPUTE_UNITS);
  info.memory_bytes = device_value<cl_ulong>(driver, id, CL_DEVICE_GLOBAL_MEM_SIZE);
  info.max_alloc_bytes = device_value<cl_ulong>(driver, id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  info.alignment_bytes = device_value<cl_uint>(driver, id, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8;
  info.local_memory_bytes = device_value<cl_ulong>(driver, id, CL_DEVICE_LOCAL_MEM_SIZE);
  info.has_fast_local_memory =
      device_value<cl_device_local_mem_type>(driver, id, CL_DEVICE_LOCAL_MEM_TYPE) == CL_LOCAL;
  // Work is counted in one dimension, which has a limit of its own.
  std::vector<size_t> sizes(
      std::max(device_value<cl_uint>(driver, id, CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS), cl_uint{1}));
  check(driver.clGetDeviceInfo(id, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizes.size() * sizeof(size_t),
                               sizes.data(), nullptr),
        "clGetDeviceInfo");
  const auto largest = device_value<size_t>(driver, id, CL_DEVICE_MAX_WORK_GROUP_SIZE);
  info.max_group_size = static_cast<uint32_t>(std::max<size_t>(std::min(largest, sizes[0]), 1));
  info.has_f64 = device_value<cl_device_fp_config>(driver, id, CL_DEVICE_DOUBLE_FP_CONFIG) != 0;
  const auto rounding = device_value<cl_device_fp_config>(driver, id, CL_DEVICE_SINGLE_FP_CONFIG);
  info.rounds_divide_correctly = (rounding & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
  return info;
}

void list_devices(const Driver& driver, const sdk::Host& host, const Platform& platform,
                  std::vector<DeviceInfo>* out_devices) {
  cl_uint count = 0;
  cl_int code = driver.clGetDeviceIDs(platform.id, CL_DEVICE_TYPE_ALL, 0, nullptr, &count);
  if (code == CL_DEVICE_NOT_FOUND || (code == CL_SUCCESS && count == 0)) return;
  std::vector<cl_device_id> ids(count);
  if (code == CL_SUCCESS) {
    code = driver.clGetDeviceIDs(platform.id, CL_DEVICE_TYPE_ALL, count, ids.data(), nullptr);
  }
  if (code != CL_SUCCESS) {
    // One broken driver must not hide the devices of the others.
    host.log(BP_LOG_WARNING, "platform '" + platform.name +
                                 "' is skipped: clGetDeviceIDs failed: " + error_text(code));
    return;
  }
  for (cl_device_id id : ids) {
    const std::string reason = refuse(driver, id);
    if (reason.empty()) {
      out_devices->push_back(read_device(driver, platform, id));
    } else {
      host.log(BP_LOG_WARNING, "device '" + device_text(driver, id, CL_DEVICE_NAME) +
                                   "' of platform '" + platform.name + "' is skipped: " + reason);
    }
  }
}

}  // namespace

Instance::Instance(sdk::Host host, const bp_config& config) : host_(host) {
  check_flags(config.flags, 0, "bp_config");
  check_options(&config, {"platform", "cache"});
  program_cache_ =
      std::make_shared<const ProgramCache>(host_, sdk::option(&config, "cache").value_or(""));
  const std::string filter(sdk::option(&config, "platform").value_or(""));
  // Drivers set themselves up at the first question, and not all of them stand two threads there.
  static std::mutex discovery;
  const std::lock_guard lock(discovery);
  const sdk::ExitGate gate;
  gate.require_open();
  driver_ = Driver::open();
  std::vector<Platform> platforms = filter_platforms(list_platforms(*driver_), filter);
  for (const Platform& platform : platforms) list_devices(*driver_, host_, platform, &devices_);
  sdk::ExitGate::watch("devices");
  if (devices_.empty()) {
    throw sdk::Failure{BP_UNAVAILABLE,
                       "none of the " + std::to_string(platforms.size()) +
                           " OpenCL platforms has a device that can be used: check with clinfo"};
  }
}

Device::Device(const Instance& instance, const DeviceInfo& info, bool profiling)
    : host_(instance.host()),
      driver_(instance.driver()),
      info_(info),
      profiling_(profiling),
      program_cache_(instance.program_cache()),
      memory_(*this),
      programs_(*this) {
  const sdk::ExitGate gate;
  gate.require_open();
  cl_int code = CL_SUCCESS;
  const cl_context context =
      driver_->clCreateContext(nullptr, 1, &info_.id, nullptr, nullptr, &code);
  check(code, "clCreateContext");
  context_ = Owned<cl_context>(*driver_, context);
  queue_ = make_queue();
  sdk::ExitGate::watch("context");
}

Owned<cl_command_queue> Device::make_queue() const {
  const cl_command_queue_properties properties = profiling_ ? CL_QUEUE_PROFILING_ENABLE : 0;
  cl_int code = CL_SUCCESS;
  const cl_command_queue queue =
      driver_->clCreateCommandQueue(context_.get(), info_.id, properties, &code);
  check(code, "clCreateCommandQueue");
  return {*driver_, queue};
}

Owned<cl_command_queue> Device::share_queue(cl_command_queue queue) const {
  if (queue == nullptr) throw sdk::Failure{BP_INVALID_ARGUMENT, "stream_wrap: the queue is NULL"};
  const auto read = [&](cl_command_queue_info what, auto* out_value) {
    check(driver_->clGetCommandQueueInfo(queue, what, sizeof(*out_value), out_value, nullptr),
          "clGetCommandQueueInfo");
  };
  cl_context context = nullptr;
  cl_device_id id = nullptr;
  cl_command_queue_properties properties = 0;
  read(CL_QUEUE_CONTEXT, &context);
  read(CL_QUEUE_DEVICE, &id);
  read(CL_QUEUE_PROPERTIES, &properties);
  if (context != context_.get() || id != info_.id) {
    throw sdk::Failure{BP_INVALID_ARGUMENT,
                       "stream_wrap: the queue is of another context or device; the context that "
                       "this device uses is CL_QUEUE_CONTEXT of any of its streams' queues"};
  }
  if ((properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0) {
    throw sdk::Failure{BP_INVALID_ARGUMENT, "stream_wrap: the queue runs out of order"};
  }
  check(driver_->clRetainCommandQueue(queue), "clRetainCommandQueue");
  return {*driver_, queue};
}

void Device::finish(const Owned<cl_event>& event, const char* what) const {
  driver_->wait(event.get());
  const cl_int status = driver_->execution_status(event.get());
  if (status < 0) {
    throw sdk::Failure{status_of_command(status),
                       std::string(what) + " failed on the device: " + command_error_text(status),
                       status};
  }
}

namespace {

bp_status device_count(bp_instance* instance, uint32_t* out_count) {
  if (instance == nullptr || out_count == nullptr) return BP_INVALID_ARGUMENT;
  *out_count = static_cast<uint32_t>(instance->devices().size());
  return BP_OK;
}

bp_status device_open(bp_instance* instance, const bp_open_args* args, bp_device** out_device) {
  return sdk::slot("device_open", instance, {args, out_device}, [&] {
    *out_device = nullptr;
    const auto& devices = instance->devices();
    const bp_open_args wanted = sdk::read_args(args);
    if (wanted.index >= devices.size()) {
      throw sdk::Failure{BP_INVALID_ARGUMENT, "device index " + std::to_string(wanted.index) +
                                                  ": there are " + std::to_string(devices.size())};
    }
    check_flags(wanted.flags, 0, "bp_open_args");
    check_options(&wanted, {"profiling"});
    *out_device = new bp_device(*instance, devices[wanted.index],
                                sdk::option_bool(&wanted, "profiling", true));
  });
}

bp_status device_close(bp_device* device) {
  if (device == nullptr) return BP_INVALID_ARGUMENT;
  delete device;
  return BP_OK;
}

bp_status device_props(bp_device* device, bp_device_props* out_props) {
  if (device == nullptr || out_props == nullptr) return BP_INVALID_ARGUMENT;
  const DeviceInfo& info = device->info();
  bp_device_props props{};
  props.flags = BP_DEVICE_CONCURRENT_BIT;
  props.features = BP_FEATURE_ASYNC_BIT | BP_FEATURE_FILL_BIT | BP_FEATURE_PINNED_BIT |
                   BP_FEATURE_MAP_BIT | BP_FEATURE_NATIVE_BIT;
  if (device->has_profiling()) props.features |= BP_FEATURE_TIMING_BIT;
  props.execution = BP_EXECUTION_QUEUED;
  props.compute_unit_count = info.compute_unit_count;
  props.memory_bytes = info.memory_bytes;
  props.max_alloc_bytes = info.max_alloc_bytes;
  props.alignment_bytes = info.alignment_bytes;
  props.name = sdk::str(info.name);
  props.vendor = sdk::str(info.vendor);
  props.driver = sdk::str(info.driver);
  // DLPack's number for OpenCL is left out: a buffer is of one context, which DLPack cannot name.
  sdk::write_out(out_props, props);
  return BP_OK;
}

}  // namespace

constinit const bp_device_api kDeviceApi{.struct_size = sizeof(bp_device_api),
                                         .flags = 0,
                                         .device_count = device_count,
                                         .device_open = device_open,
                                         .device_close = device_close,
                                         .device_props = device_props};

}  // namespace bp::xpu
