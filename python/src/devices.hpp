// SPDX-License-Identifier: Apache-2.0
//
// Runtimes and devices as Python sees them.
//
// Closing and exported memory: bpa_runtime_close frees what tensors lie in, also where NumPy reads
// it. So while memory is exported, close() only shuts the doors (every call answers GONE), and the
// library's close follows when the last export is let go of.
#ifndef BACKPLANE_PYTHON_DEVICES_HPP
#define BACKPLANE_PYTHON_DEVICES_HPP

#include <nanobind/nanobind.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "errors.hpp"

namespace bp::python {

class RuntimeState : public std::enable_shared_from_this<RuntimeState> {
 public:
  explicit RuntimeState(Runtime runtime);

  /// Throws GONE once the runtime is closed.
  void check_open() const {
    if (is_closed_.load(std::memory_order_relaxed)) throw_closed();
  }
  bool is_closed() const { return is_closed_.load(); }
  bpa_runtime* handle() const { return runtime_.handle(); }
  const Runtime& runtime() const { return runtime_; }

  /// The GIL is not held. Legal again and again.
  void close();
  /// The process was forked since: nothing below works.
  bool is_forked() const;

  /// Memory is lent outside / given back. Any thread.
  void add_export() { ++export_count_; }
  void drop_export();

 private:
  [[noreturn]] static void throw_closed();

  Runtime runtime_;
  int process_id_;
  std::atomic<bool> is_closed_{false};
  std::atomic<int64_t> export_count_{0};
};

/// Backs the Python class Device.
struct DeviceObject {
  std::shared_ptr<RuntimeState> runtime;
  Device device;
  std::string name;
  bool is_inline = false;
  bool is_host_memory = false;  // the host reads and writes its memory by address
  Stream default_stream;        // of an inline device; else none

  void check_open() const { runtime->check_open(); }
};

/// From what users write: a Device, or a name on the default runtime; None is the default device:
/// the first inline device with host memory, else the first of all.
nb::object parse_device(nb::handle object, const char* function);

/// The Python object of a device of the library's.
nb::object device_object_of(const std::shared_ptr<RuntimeState>& runtime, bpa_device* handle);

void bind_devices(nb::module_& module);

}  // namespace bp::python

#endif
