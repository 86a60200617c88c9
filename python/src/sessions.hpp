// SPDX-License-Identifier: Apache-2.0
//
// Sessions: models made ready to run. Runs are in runs.hpp, the Python class in session_class.cpp.
#ifndef BACKPLANE_PYTHON_SESSIONS_HPP
#define BACKPLANE_PYTHON_SESSIONS_HPP

#include <nanobind/nanobind.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "devices.hpp"
#include "dtypes.hpp"

namespace bp::python {

/// An input or output, and its name as Python has it.
struct SessionIo {
  nb::object name_object;
  Io io;
};

/// What of a session is needed without the GIL: it outlives the Python object while runs do.
struct SessionCore {
  explicit SessionCore(bpa_session* taken) : handle(taken) {}
  SessionCore(const SessionCore&) = delete;
  SessionCore& operator=(const SessionCore&) = delete;
  ~SessionCore() { bpa_session_release(handle); }

  bpa_session* const handle;
};

/// How long runs take, as far as that is known. Any thread; an estimate.
class RunTimes {
 public:
  /// A run of inputs that are so large. The first is taken as long.
  bool expect_long(uint64_t input_bytes) const {
    return newest_ns_.load(std::memory_order_relaxed) > kLongNs ||
           input_bytes > 2 * newest_bytes_.load(std::memory_order_relaxed);
  }
  void note(std::chrono::nanoseconds spent, uint64_t input_bytes) {
    newest_ns_.store(spent.count(), std::memory_order_relaxed);
    newest_bytes_.store(input_bytes, std::memory_order_relaxed);
  }

 private:
  static constexpr int64_t kLongNs = 10'000'000;
  std::atomic<int64_t> newest_ns_{INT64_MAX};
  std::atomic<uint64_t> newest_bytes_{0};
};

/// Backs the Python class Session. The GIL is held.
class SessionObject {
 public:
  SessionObject(bpa_session* handle, nb::object device);
  SessionObject(const SessionObject&) = delete;
  SessionObject& operator=(const SessionObject&) = delete;
  ~SessionObject() { close(); }

  /// Throws GONE once the session or its runtime is closed.
  std::shared_ptr<SessionCore> core() const;
  bool is_closed() const { return core_ == nullptr; }
  /// Runs in progress end as they would have. The GIL is given away meanwhile.
  void close();

  nb::handle device_object() const { return devices_.front(); }
  const DeviceObject& device() const { return *nb::inst_ptr<DeviceObject>(devices_.front()); }
  /// The Python object of a device of the session's runtime.
  nb::handle device_for(bpa_device* handle);
  const std::vector<SessionIo>& inputs() const { return inputs_; }
  const std::vector<SessionIo>& outputs() const { return outputs_; }
  RunTimes& times() { return times_; }

 private:
  std::shared_ptr<SessionCore> core_;
  std::vector<nb::object> devices_;  // the first is the session's first one
  std::vector<SessionIo> inputs_;
  std::vector<SessionIo> outputs_;
  RunTimes times_;
};

/// The index of a name, or -1.
int64_t find_io(const std::vector<SessionIo>& ios, nb::handle name);
/// "x, y"
std::string names_of(const std::vector<SessionIo>& ios);

/// What `load` was given.
struct LoadArguments {
  nb::handle model;  // bytes, or a path
  nb::handle device;
  nb::handle dims;
  nb::handle memory_limit;
  nb::handle max_contexts;
  bool deterministic;
  bool read_weights;
};
/// The handle of a new session, and its first device.
std::pair<bpa_session*, nb::object> load_session(const LoadArguments& given);

}  // namespace bp::python

#endif
