// SPDX-License-Identifier: Apache-2.0
#include "tensors.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <numeric>
#include <optional>
#include <utility>

#include "array_api.hpp"
#include "backplane/ops.hpp"
#include "deferred.hpp"
#include "gil.hpp"
#include "host_memory.hpp"
#include "interrupts.hpp"
#include "streams.hpp"

namespace bp::python {

TensorObject::~TensorObject() {
  {
    const DeferringBriefly deferring;  // what that release lets go of
    std::optional<WithoutGil> release;
    if (release_may_wait(device(), is_of_stream_)) release.emplace();
    bpa_tensor_release(handle_);
  }
  device_.dec_ref();
}

void TensorObject::load_info() const {
  bpa_tensor_info info{};
  info.struct_size = sizeof(info);
  check(bpa_tensor_get_info(handle_, &info));
  info_ = info;
}

int64_t TensorObject::element_count() const {
  return std::accumulate(sizes().begin(), sizes().end(), int64_t{1}, std::multiplies<>());
}

bool TensorObject::is_contiguous() const {
  if (element_count() == 0) return true;
  int64_t expected = 1;
  for (size_t i = sizes().size(); i-- > 0;) {
    if (sizes()[i] != 1 && strides()[i] != expected) return false;
    expected *= sizes()[i];
  }
  return true;
}

bool are_large(const TensorObject& a, const TensorObject& b) {
  if (a.is_large() || b.is_large()) return true;
  // Neither overflows: both are small, and have no more elements than bytes.
  if (a.info().bytes * b.info().bytes < kLargeBytes) return false;
  const size_t rank = std::max(a.sizes().size(), b.sizes().size());
  const auto size_of = [rank](const TensorObject& tensor, size_t i) {
    const size_t absent = rank - tensor.sizes().size();
    return i < absent ? 1 : tensor.sizes()[i - absent];
  };
  auto bytes = static_cast<uint64_t>(std::max(a.dtype().item_bytes, b.dtype().item_bytes));
  for (size_t i = 0; i < rank; ++i) {
    bytes *= static_cast<uint64_t>(std::max(size_of(a, i), size_of(b, i)));
  }
  return bytes >= kLargeBytes;
}

nb::object make_tensor(bpa_tensor* handle, nb::handle device, bool is_of_stream) {
  PyObject* made = nullptr;
  try {
    made = nb::inst_alloc(nb::handle(reinterpret_cast<PyObject*>(g_tensor_type))).release().ptr();
  } catch (...) {
    bpa_tensor_release(handle);
    throw;
  }
  new (nb::inst_ptr<void>(made)) TensorObject(handle, nb::borrow(device), is_of_stream);
  nb::inst_mark_ready(made);
  return nb::steal(made);
}

nb::object view_of(const TensorObject& tensor, std::span<const int64_t> sizes,
                   std::span<const int64_t> strides, int64_t offset) {
  tensor.device().check_open();
  bpa_tensor* view = nullptr;
  check(bpa_tensor_view(tensor.handle(), sizes.data(), strides.data(),
                        static_cast<uint32_t>(sizes.size()), offset, 0, &view));
  return make_tensor(view, tensor.device_object());
}

nb::object copy_of(const TensorObject& tensor) {
  const DeviceObject& device = tensor.device();
  device.check_open();
  bpa_tensor* made = nullptr;
  check(bpa_tensor_create(device.device.handle(), tensor.info().dtype, tensor.info().sizes,
                          tensor.info().rank, &made));
  nb::object copy = make_tensor(made, tensor.device_object());
  {
    const Work work(device, tensor.is_large());
    check(bpa_tensor_assign(current_stream_of(device), made, tensor.handle()));
  }
  return copy;
}

std::shared_ptr<bpa_tensor> shared_handle(const TensorObject& tensor) {
  bpa_tensor_retain(tensor.handle());
  return {tensor.handle(), bpa_tensor_release};
}

/// The copy is nobody's where a signal ends the wait for it.
static bpa_tensor* move_interruptibly(const TensorObject& tensor, const DeviceObject& target) {
  struct Moved {
    ~Moved() { bpa_tensor_release(handle); }
    bpa_tensor* handle = nullptr;
  };
  const auto moved = std::make_shared<Moved>();
  call_interruptibly([kept = shared_handle(tensor), moved, target, source = tensor.device()] {
    check(bpa_tensor_to_device(kept.get(), target.device.handle(), &moved->handle));
  });
  return std::exchange(moved->handle, nullptr);
}

nb::object moved_to(nb::handle tensor, nb::handle device) {
  const TensorObject& self = tensor_of(tensor);
  const auto& target = nb::cast<const DeviceObject&>(device);
  self.device().check_open();
  target.check_open();
  if (target.device.handle() == self.device().device.handle()) return nb::borrow(tensor);
  bpa_tensor* moved = nullptr;
  if (is_wait_long(self.device())) {
    moved = move_interruptibly(self, target);
  } else {
    const HostCopy copy(target.is_inline ? self.device() : target, self.info().bytes);
    check(bpa_tensor_to_device(self.handle(), target.device.handle(), &moved));
  }
  return make_tensor(moved, device);
}

nb::object cast_to(nb::handle tensor, const Dtype& dtype) {
  const TensorObject& self = tensor_of(tensor);
  if (self.info().dtype == dtype.code) return nb::borrow(tensor);
  self.device().check_open();
  if (is_complex(self.info().dtype) || is_complex(dtype.code)) return complex_cast(tensor, dtype);
  bp_attrs_cast attributes = bp_attrs_cast_defaults();
  attributes.to = dtype.code;
  const bpa_tensor* input = self.handle();
  bpa_tensor* made = nullptr;
  {
    const Work work(self.device(), self.is_large() && self.device().is_inline);
    check(call_on_current(self.device(), BP_OP_CAST, &input, 1, &attributes, &made, 1));
  }
  return make_tensor(made, self.device_object());
}

/// Into memory of its own first, which outlives a wait that a signal ends.
static void read_interruptibly(const TensorObject& tensor, void* out_data, uint64_t bytes) {
  const std::shared_ptr<char[]> values = host_bytes(bytes);
  call_interruptibly([kept = shared_handle(tensor), values, bytes] {
    check(bpa_tensor_to_host(kept.get(), values.get(), bytes));
  });
  std::memcpy(out_data, values.get(), bytes);
}

void read_values(const TensorObject& tensor, void* out_data, uint64_t bytes) {
  tensor.device().check_open();
  if (bytes > 0 && is_wait_long(tensor.device())) {
    return read_interruptibly(tensor, out_data, bytes);
  }
  const HostCopy copy(tensor.device(), bytes);
  check(bpa_tensor_to_host(tensor.handle(), out_data, bytes));
}

std::unique_ptr<char[]> read_values(const TensorObject& tensor) {
  std::unique_ptr<char[]> values = host_bytes(tensor.info().bytes);
  read_values(tensor, values.get(), tensor.info().bytes);
  return values;
}

std::unique_ptr<char[]> host_bytes(uint64_t bytes) {
  std::unique_ptr<char[]> made(new (std::nothrow) char[bytes]);
  if (made != nullptr) return made;
  throw Error(BP_OUT_OF_MEMORY, "the host has no memory for " + std::to_string(bytes) + " bytes");
}

std::string shape_text(std::span<const int64_t> sizes) {
  std::string text = "(";
  for (size_t i = 0; i < sizes.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(sizes[i]);
  }
  return text + (sizes.size() == 1 ? ",)" : ")");
}

nb::object tuple_of(std::span<const int64_t> values) {
  nb::object tuple = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  for (size_t i = 0; i < values.size(); ++i) {
    PyTuple_SetItem(tuple.ptr(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(values[i]));
  }
  return tuple;
}

}  // namespace bp::python
