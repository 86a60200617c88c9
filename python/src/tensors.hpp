// SPDX-License-Identifier: Apache-2.0
//
// The Python class Tensor over a bpa_tensor.
#ifndef BACKPLANE_PYTHON_TENSORS_HPP
#define BACKPLANE_PYTHON_TENSORS_HPP

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "devices.hpp"
#include "dtypes.hpp"

namespace bp::python {

/// Work on more bytes than this is done without the GIL, where the call waits for it: below, giving
/// the GIL away beside a busy thread costs a thousand times the work.
constexpr uint64_t kLargeBytes = 64 * 1024;

/// Backs the Python class Tensor.
class TensorObject {
 public:
  /// Takes over the reference, and keeps the Device alive. is_of_stream: letting go of it is work
  /// of the stream that made it, which nobody waits for.
  TensorObject(bpa_tensor* handle, nb::object device, bool is_of_stream)
      : handle_(handle), device_(device.release()), is_of_stream_(is_of_stream) {}
  TensorObject(const TensorObject&) = delete;
  TensorObject& operator=(const TensorObject&) = delete;
  ~TensorObject();

  bpa_tensor* handle() const { return handle_; }
  nb::handle device_object() const { return device_; }
  const DeviceObject& device() const { return *nb::inst_ptr<DeviceObject>(device_); }
  /// Asked for once: a tensor never changes its layout.
  const bpa_tensor_info& info() const {
    if (info_.struct_size == 0) load_info();
    return info_;
  }
  const Dtype& dtype() const { return dtype_row(info().dtype); }
  std::span<const int64_t> sizes() const { return {info().sizes, info().rank}; }
  std::span<const int64_t> strides() const { return {info().strides, info().rank}; }
  int64_t element_count() const;
  bool is_contiguous() const;
  bool is_read_only() const { return (info().flags & BPA_TENSOR_READ_ONLY_BIT) != 0; }
  /// Whether a call that reads this tensor and waits should let go of the GIL.
  bool is_large() const { return info().bytes >= kLargeBytes; }
  /// Of element [0, 0, ...], on a device with host memory.
  void* host_address() const {
    return reinterpret_cast<void*>(info().memory.handle + info().memory.offset_bytes);
  }

 private:
  void load_info() const;

  bpa_tensor* handle_;
  nb::handle device_;
  bool is_of_stream_;
  mutable bpa_tensor_info info_{};
};

/// The Python type, once bound.
extern PyTypeObject* g_tensor_type;

inline bool is_tensor(PyObject* object) { return Py_TYPE(object) == g_tensor_type; }
inline TensorObject& tensor_of(PyObject* object) { return *nb::inst_ptr<TensorObject>(object); }
inline TensorObject& tensor_of(nb::handle object) { return tensor_of(object.ptr()); }

/// is_large() of both and of what they repeat each other to: a column and a row make a matrix.
bool are_large(const TensorObject& a, const TensorObject& b);

/// A Python tensor that takes over the reference.
nb::object make_tensor(bpa_tensor* handle, nb::handle device, bool is_of_stream = false);

/// The handle, kept by itself.
std::shared_ptr<bpa_tensor> shared_handle(const TensorObject& tensor);

/// A view of the same memory.
nb::object view_of(const TensorObject& tensor, std::span<const int64_t> sizes,
                   std::span<const int64_t> strides, int64_t offset);
/// The same values in memory of their own, on the same device.
nb::object copy_of(const TensorObject& tensor);
/// The same values on another device; the same object where it is there.
nb::object moved_to(nb::handle tensor, nb::handle device);
/// The same values as another dtype; the same object where it has it.
nb::object cast_to(nb::handle tensor, const Dtype& dtype);

/// Copies all values out, contiguous.
void read_values(const TensorObject& tensor, void* out_data, uint64_t bytes);
std::unique_ptr<char[]> read_values(const TensorObject& tensor);

/// Memory of any values. Throws OUT_OF_MEMORY, which names the size.
std::unique_ptr<char[]> host_bytes(uint64_t bytes);

/// "(2, 3)"
std::string shape_text(std::span<const int64_t> sizes);
nb::object tuple_of(std::span<const int64_t> values);

void bind_tensors(nb::module_& module);

}  // namespace bp::python

#endif
