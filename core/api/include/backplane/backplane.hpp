// SPDX-License-Identifier: Apache-2.0
//
// The C++ application API, header-only over backplane.h: counted handles, exceptions, containers.
//
//   auto rt = bp::Runtime::create();
//   auto dev = rt.device("npu:0");
//   auto a = bp::Tensor::from_host<float>(dev, values, {2, 3});
//   auto b = bp::relu(a);                    // <backplane/ops.hpp>
//   std::vector<float> out = b.to_vector<float>();
//
// Handles are cheap to copy and may be used from any thread. Every failure is a bp::Error.
#ifndef BACKPLANE_BACKPLANE_HPP
#define BACKPLANE_BACKPLANE_HPP

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "backplane/backplane.h"

namespace bp {
inline namespace api {

/// The one exception type: what a bpa_ function answered, with its words.
class Error : public std::runtime_error {
 public:
  Error(bpa_status status, const std::string& message)
      : std::runtime_error(std::string(bpa_status_name(status)) + ": " + message),
        status_(status) {}
  /// BP_* of backplane/status.h.
  bpa_status status() const { return status_; }

 private:
  bpa_status status_;
};

namespace detail {

inline void check(bpa_status status) {
  if (status != BP_OK) throw Error(status, bpa_last_error());
}

inline std::string text(bp_str value) {
  return value.ptr == nullptr ? std::string() : std::string(value.ptr, value.len);
}

struct RuntimeDeleter {
  void operator()(bpa_runtime* runtime) const { bpa_runtime_release(runtime); }
};
struct SessionDeleter {
  void operator()(bpa_session* session) const { bpa_session_release(session); }
};

/// The dtype code of a C++ type.
template <class T>
constexpr uint32_t dtype_of() {
  if constexpr (std::is_same_v<T, float>)
    return BP_DTYPE_F32;
  else if constexpr (std::is_same_v<T, double>)
    return BP_DTYPE_F64;
  else if constexpr (std::is_same_v<T, int8_t>)
    return BP_DTYPE_I8;
  else if constexpr (std::is_same_v<T, int16_t>)
    return BP_DTYPE_I16;
  else if constexpr (std::is_same_v<T, int32_t>)
    return BP_DTYPE_I32;
  else if constexpr (std::is_same_v<T, int64_t>)
    return BP_DTYPE_I64;
  else if constexpr (std::is_same_v<T, uint8_t>)
    return BP_DTYPE_U8;
  else if constexpr (std::is_same_v<T, uint16_t>)
    return BP_DTYPE_U16;
  else if constexpr (std::is_same_v<T, uint32_t>)
    return BP_DTYPE_U32;
  else if constexpr (std::is_same_v<T, uint64_t>)
    return BP_DTYPE_U64;
  else if constexpr (std::is_same_v<T, bool>)
    return BP_DTYPE_BOOL;
  else
    static_assert(sizeof(T) == 0, "no dtype for this type");
}

}  // namespace detail

/// A device of a Runtime; valid as long as it.
class Device {
 public:
  Device() = default;
  explicit Device(bpa_device* handle) : handle_(handle) {}
  bpa_device* handle() const { return handle_; }
  /// Sizes, features and counters as they are now.
  bpa_device_info info() const {
    bpa_device_info info{};
    info.struct_size = sizeof(info);
    detail::check(bpa_device_get_info(handle_, &info));
    return info;
  }
  /// "npu:0"
  std::string name() const { return detail::text(info().name); }
  /// Waits for all work; its first failure is thrown.
  void sync() const { detail::check(bpa_device_sync(handle_)); }

 private:
  bpa_device* handle_ = nullptr;
};

struct RuntimeOptions {
  std::string plugin_path{};                     // colon-separated folders searched first
  std::string install_dir{};                     // replaces the installed plugin folder
  std::map<std::string, std::string> options{};  // "npu.memory", "BACKPLANE_FALLBACK"
};

/// Finds and loads plugins; owns everything below it.
class Runtime {
 public:
  static Runtime create(const RuntimeOptions& options = {}) {
    std::vector<const char*> names;
    std::vector<const char*> values;
    for (const auto& [name, value] : options.options) {
      names.push_back(name.c_str());
      values.push_back(value.c_str());
    }
    bpa_runtime_args args{};
    args.struct_size = sizeof(args);
    if (!options.plugin_path.empty()) args.plugin_path = options.plugin_path.c_str();
    if (!options.install_dir.empty()) args.install_dir = options.install_dir.c_str();
    args.option_names = names.data();
    args.option_values = values.data();
    args.option_count = names.size();
    bpa_runtime* handle = nullptr;
    detail::check(bpa_runtime_create(&args, &handle));
    return Runtime(handle);
  }

  bpa_runtime* handle() const { return handle_.get(); }
  /// The error lists what there is.
  Device device(const std::string& name) const {
    bpa_device* device = nullptr;
    detail::check(bpa_runtime_find_device(handle_.get(), name.c_str(), &device));
    return Device(device);
  }
  std::vector<Device> devices() const {
    uint64_t count = 0;
    detail::check(bpa_runtime_device_count(handle_.get(), &count));
    std::vector<Device> devices;
    for (uint64_t i = 0; i < count; ++i) {
      bpa_device* device = nullptr;
      detail::check(bpa_runtime_device(handle_.get(), i, &device));
      devices.emplace_back(device);
    }
    return devices;
  }
  /// Later use of anything below throws GONE.
  void close() { detail::check(bpa_runtime_close(handle_.get())); }

 private:
  explicit Runtime(bpa_runtime* handle) : handle_(handle, detail::RuntimeDeleter()) {}
  std::shared_ptr<bpa_runtime> handle_;
};

/// A strided view of values on a device or in host memory. Empty when default-constructed: that is
/// how an absent optional operator input is written.
class Tensor {
 public:
  Tensor() = default;
  /// Takes over a reference.
  static Tensor adopt(bpa_tensor* handle) {
    Tensor tensor;
    tensor.handle_ = handle;
    return tensor;
  }
  Tensor(const Tensor& other) : handle_(other.handle_) {
    if (handle_ != nullptr) bpa_tensor_retain(handle_);
  }
  Tensor(Tensor&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Tensor& operator=(Tensor other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Tensor() {
    if (handle_ != nullptr) bpa_tensor_release(handle_);
  }

  /// Uninitialised.
  static Tensor create(Device device, uint32_t dtype, std::span<const int64_t> sizes) {
    bpa_tensor* handle = nullptr;
    detail::check(bpa_tensor_create(device.handle(), dtype, sizes.data(),
                                    static_cast<uint32_t>(sizes.size()), &handle));
    return adopt(handle);
  }
  /// Copies contiguous values; their count must match the sizes. A default Device: host memory.
  template <class T>
  static Tensor from_host(Device device, std::span<const T> values,
                          std::span<const int64_t> sizes) {
    bpa_tensor* handle = nullptr;
    detail::check(bpa_tensor_from_host(device.handle(), detail::dtype_of<T>(), sizes.data(),
                                       static_cast<uint32_t>(sizes.size()), values.data(),
                                       values.size() * sizeof(T), &handle));
    return adopt(handle);
  }
  template <class T>
  static Tensor from_host(Device device, const std::vector<T>& values,
                          std::initializer_list<int64_t> sizes) {
    return from_host<T>(device, std::span<const T>(values),
                        std::span<const int64_t>(sizes.begin(), sizes.size()));
  }

  bpa_tensor* handle() const { return handle_; }
  explicit operator bool() const { return handle_ != nullptr; }

  uint32_t dtype() const { return info().dtype; }
  std::vector<int64_t> sizes() const {
    const bpa_tensor_info found = info();
    return {found.sizes, found.sizes + found.rank};
  }
  Device device() const { return Device(info().device); }
  bpa_tensor_info info() const {
    bpa_tensor_info found{};
    found.struct_size = sizeof(found);
    detail::check(bpa_tensor_get_info(handle_, &found));
    return found;
  }

  /// Waits; an asynchronous error surfaces here. The span must have exactly the values' size.
  template <class T>
  void to_host(std::span<T> out_values) const {
    check_dtype(detail::dtype_of<T>());
    detail::check(bpa_tensor_to_host(handle_, out_values.data(), out_values.size_bytes()));
  }
  template <class T>
  std::vector<T> to_vector() const {
    std::vector<T> values(static_cast<size_t>(info().bytes / sizeof(T)));
    to_host<T>(std::span<T>(values));
    return values;
  }
  Tensor to(Device device) const {
    bpa_tensor* handle = nullptr;
    detail::check(bpa_tensor_to_device(handle_, device.handle(), &handle));
    return adopt(handle);
  }

 private:
  void check_dtype(uint32_t expected) const {
    const uint32_t found = dtype();
    if (found == expected) return;
    throw Error(BP_INVALID_ARGUMENT, "the tensor's dtype code is " + std::to_string(found) +
                                         ", read as " + std::to_string(expected));
  }

  bpa_tensor* handle_ = nullptr;
};

struct SessionOptions {
  std::string device;                     // "npu:0"; required
  std::map<std::string, int64_t> dims{};  // symbolic dimensions fixed for the session
  uint32_t max_contexts = 0;              // runs at once; 0: 8
};

/// A model made ready to run on one device, from any number of threads at once.
class Session {
 public:
  static Session load(const Runtime& runtime, const std::string& path,
                      const SessionOptions& options) {
    std::vector<const char*> names;
    std::vector<int64_t> sizes;
    for (const auto& [name, size] : options.dims) {
      names.push_back(name.c_str());
      sizes.push_back(size);
    }
    bpa_session_args args{};
    args.struct_size = sizeof(args);
    args.device = runtime.device(options.device).handle();
    args.dim_names = names.data();
    args.dim_sizes = sizes.data();
    args.dim_count = names.size();
    args.max_contexts = options.max_contexts;
    bpa_session* handle = nullptr;
    detail::check(bpa_session_load(runtime.handle(), path.c_str(), &args, &handle));
    return Session(handle);
  }

  bpa_session* handle() const { return handle_.get(); }
  std::vector<std::string> input_names() const { return names(true); }
  std::vector<std::string> output_names() const { return names(false); }

  /// Outputs by name. Inputs may be in host memory or on any device.
  std::map<std::string, Tensor> run(const std::map<std::string, Tensor>& inputs) const {
    std::vector<const char*> input_names;
    std::vector<const bpa_tensor*> tensors;
    for (const auto& [name, tensor] : inputs) {
      input_names.push_back(name.c_str());
      tensors.push_back(tensor.handle());
    }
    const std::vector<std::string> outputs = output_names();
    std::vector<bpa_tensor*> handles(outputs.size());
    detail::check(bpa_session_run(handle_.get(), input_names.data(), tensors.data(), tensors.size(),
                                  handles.data(), handles.size()));
    std::map<std::string, Tensor> results;
    for (size_t i = 0; i < handles.size(); ++i) {
      results.emplace(outputs[i], Tensor::adopt(handles[i]));
    }
    return results;
  }

  /// How the newest run's operators were placed.
  bpa_placement_info placement() const {
    bpa_placement_info info{};
    info.struct_size = sizeof(info);
    detail::check(bpa_session_get_placement(handle_.get(), &info));
    return info;
  }

 private:
  explicit Session(bpa_session* handle) : handle_(handle, detail::SessionDeleter()) {}

  std::vector<std::string> names(bool inputs) const {
    uint64_t count = 0;
    detail::check(inputs ? bpa_session_input_count(handle_.get(), &count)
                         : bpa_session_output_count(handle_.get(), &count));
    std::vector<std::string> result;
    for (uint64_t i = 0; i < count; ++i) {
      bpa_io_info info{};
      info.struct_size = sizeof(info);
      detail::check(inputs ? bpa_session_get_input(handle_.get(), i, &info)
                           : bpa_session_get_output(handle_.get(), i, &info));
      result.emplace_back(info.name);
    }
    return result;
  }

  std::shared_ptr<bpa_session> handle_;
};

namespace detail {

/// What <backplane/ops.hpp> is made of: one operator call with one output.
inline Tensor call_op(uint32_t op_id, std::initializer_list<const bpa_tensor*> inputs,
                      const void* attributes) {
  bpa_tensor* output = nullptr;
  check(bpa_op_call(nullptr, op_id, inputs.begin(), static_cast<uint32_t>(inputs.size()),
                    attributes, 0, &output, 1));
  return Tensor::adopt(output);
}

}  // namespace detail
}  // namespace api
}  // namespace bp

#endif
