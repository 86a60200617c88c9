// SPDX-License-Identifier: Apache-2.0
//
// Streams, and which one is current: per thread and device, by `with stream:`.
#ifndef BACKPLANE_PYTHON_STREAMS_HPP
#define BACKPLANE_PYTHON_STREAMS_HPP

#include <nanobind/nanobind.h>

#include <optional>
#include <utility>
#include <vector>

#include "devices.hpp"
#include "gil.hpp"

namespace bp::python {

/// Backs the Python class Stream.
struct StreamObject {
  StreamObject(nb::object its_device, Stream its_stream, bool is_the_default);
  StreamObject(const StreamObject&) = delete;
  StreamObject& operator=(const StreamObject&) = delete;
  ~StreamObject();  // gives the GIL away: a release waits for the stream's work

  const DeviceObject& device_object() const { return *nb::inst_ptr<DeviceObject>(device); }
  void check_open() const { device_object().check_open(); }

  nb::object device;
  Stream stream;
  bool is_default;  // of the device: a handle of its own each time, and one stream
  bool is_ending = false;
};

/// One `with stream:` that is not over, of this thread.
struct CurrentStream {
  PyObject* object;  // kept alive
  bpa_stream* stream;
  bpa_device* device;
  CurrentStream* outer;
};
extern thread_local CurrentStream* t_current_stream;

/// The stream of calls that name none on this thread: NULL is the device's default one.
inline bpa_stream* current_stream_of(const DeviceObject& device) {
  CurrentStream* current = t_current_stream;
  while (current != nullptr && current->device != device.device.handle()) current = current->outer;
  return current == nullptr ? nullptr : current->stream;
}

/// bpa_op_call on the current stream of the device.
inline bpa_status call_on_current(const DeviceObject& device, uint32_t op,
                                  const bpa_tensor* const* inputs, uint32_t input_count,
                                  const void* attributes, bpa_tensor** out_outputs,
                                  uint32_t output_count) {
  bpa_stream* stream = current_stream_of(device);
  if (stream == nullptr) {
    return bpa_op_call(nullptr, op, inputs, input_count, attributes, 0, out_outputs, output_count);
  }
  return bpa_op_call_on(stream, op, inputs, input_count, attributes, 0, out_outputs, output_count);
}

/// Whether this thread's calls are over when they return.
inline bool is_done_at_once(const DeviceObject& device) {
  return device.is_inline && current_stream_of(device) == nullptr;
}

/// Those of all devices, but for handles of default streams. Under the GIL. Never destroyed.
extern std::vector<const StreamObject*>& g_live_streams;

/// One of those that are live has work left on the device.
bool is_a_live_stream_busy(const DeviceObject& device);

/// Whether a stream of the device, other than its default one, has work left. Never waits.
inline bool has_busy_streams(const DeviceObject& device) {
  return !g_live_streams.empty() && is_a_live_stream_busy(device);
}

/// While one lives, its thread works on the device. It gives the GIL away where the work is large,
/// and on an inline device where it may wait for tensors that a stream uses.
class Work {
 public:
  Work(const DeviceObject& device, bool is_large) {
    if (is_large || (is_done_at_once(device) && has_busy_streams(device))) release_.emplace();
  }

 private:
  std::optional<WithoutGil> release_;
};

/// Whether the work of the device that a call waits for takes so long that Ctrl-C should end that
/// wait: on the main thread alone.
bool is_wait_long(const DeviceObject& device);

/// Device.new_stream.
nb::object new_stream(nb::handle device);

/// The handle of a Stream; NULL of None. Throws TypeError, naming `function`.
bpa_stream* parse_stream(nb::handle object, const char* function);

void bind_streams(nb::module_& module);

}  // namespace bp::python

#endif
