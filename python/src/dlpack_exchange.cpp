// SPDX-License-Identifier: Apache-2.0
//
// DLPack's exchange API: what `__dlpack__` does, for libraries that call it from C.
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "dlpack.hpp"

namespace bp::python {
namespace {

using dlpack::DLManagedTensorVersioned;
using dlpack::DLTensor;

constexpr uint64_t kAddressSpace = uint64_t{1} << 47;
constexpr std::align_val_t kAlignment{256};  // outputs of sessions want it

/// Memory that a consumer asked for.
struct Allocation {
  DLManagedTensorVersioned managed{};
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  void* data = nullptr;

  Allocation() = default;
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;
  ~Allocation() { ::operator delete(data, kAlignment); }
};

/// Throws a nb::builtin_exception, which needs no GIL.
uint64_t bytes_of(const DLTensor& tensor) {
  if (tensor.device.device_type != dlpack::kCpu) {
    throw nb::buffer_error("allocate: only the CPU's memory is there");
  }
  const Dtype* dtype = find_dlpack_dtype(tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes);
  if (dtype == nullptr) throw nb::buffer_error("allocate: no such dtype");
  uint64_t bytes = dtype->item_bytes;
  for (int32_t i = 0; i < tensor.ndim; ++i) {
    if (tensor.shape[i] < 0) throw nb::value_error("allocate: a size is negative");
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(tensor.shape[i]), &bytes)) {
      throw std::bad_alloc();
    }
  }
  if (bytes > kAddressSpace) throw std::bad_alloc();
  return bytes;
}

DLManagedTensorVersioned* allocate_like(const DLTensor& prototype) {
  const uint64_t bytes = bytes_of(prototype);
  auto made = std::make_unique<Allocation>();
  made->data = ::operator new(bytes, kAlignment);
  made->sizes.assign(prototype.shape, prototype.shape + prototype.ndim);
  made->strides.resize(made->sizes.size());
  int64_t stride = 1;
  for (size_t i = made->strides.size(); i-- > 0;) {
    made->strides[i] = stride;
    stride *= made->sizes[i];
  }
  DLManagedTensorVersioned& managed = made->managed;
  managed.version = {dlpack::kMajor, dlpack::kMinor};
  managed.manager_ctx = made.get();
  managed.deleter = [](DLManagedTensorVersioned* self) {
    delete static_cast<Allocation*>(self->manager_ctx);
  };
  managed.dl_tensor = {made->data,
                       {dlpack::kCpu, 0},
                       prototype.ndim,
                       prototype.dtype,
                       made->sizes.data(),
                       made->strides.data(),
                       0};
  return &made.release()->managed;
}

int allocate(DLTensor* prototype, DLManagedTensorVersioned** out, void* error_context,
             void (*set_error)(void*, const char*, const char*)) noexcept {
  *out = nullptr;
  try {
    *out = allocate_like(*prototype);
    return 0;
  } catch (const std::bad_alloc&) {
    set_error(error_context, "MemoryError", "allocate: no memory of that size");
  } catch (const std::exception& error) {
    set_error(error_context, "BufferError", error.what());
  }
  return -1;
}

const TensorObject& tensor_argument(void* object) {
  auto* given = static_cast<PyObject*>(object);
  if (!is_tensor(given)) {
    fail(PyExc_TypeError, "DLPack: expected a Tensor, found " + name_of_type(given));
  }
  return tensor_of(given);
}

int from_object(void* object, DLManagedTensorVersioned** out) noexcept {
  *out = nullptr;
  return guarded_number([&] {
    *out = lend_tensor(tensor_argument(object), "DLPack");
    return 0;
  });
}

int to_object(DLManagedTensorVersioned* tensor, void** out_object) noexcept {
  *out_object = nullptr;
  return guarded_number([&] {
    *out_object = take_tensor(tensor).release().ptr();
    return 0;
  });
}

int borrow(void* object, DLTensor* out) noexcept {
  return guarded_number([&] {
    const TensorObject& tensor = tensor_argument(object);
    tensor.device().check_open();
    static_cast<void>(dlpack_device(tensor));
    if (tensor.is_read_only()) {
      fail(PyExc_BufferError, "DLPack: the tensor is read-only, which a borrowed one cannot say");
    }
    wait_for_writes(tensor);
    const Dtype& dtype = tensor.dtype();
    const bpa_tensor_info& info = tensor.info();
    *out = {info.bytes == 0 ? nullptr : tensor.host_address(),
            {dlpack::kCpu, 0},
            static_cast<int32_t>(info.rank),
            {dtype.dlpack_code, static_cast<uint8_t>(dtype.item_bytes * 8), 1},
            const_cast<int64_t*>(info.sizes),
            const_cast<int64_t*>(info.strides),
            0};
    return 0;
  });
}

/// Of the CPU there are no streams: what is lent has been waited for.
int current_stream(int32_t device_type, int32_t, void** out_stream) noexcept {
  *out_stream = nullptr;
  return guarded_number([&] {
    if (device_type != dlpack::kCpu) {
      fail(PyExc_BufferError,
           "DLPack: only the CPU, device type 1, is there; found " + std::to_string(device_type));
    }
    return 0;
  });
}

constexpr dlpack::ExchangeApi kApi = {
    {{dlpack::kMajor, dlpack::kMinor}, nullptr},
    allocate,
    from_object,
    to_object,
    borrow,
    current_stream,
};

}  // namespace

void bind_exchange_api(nb::module_& module) {
  // Nobody writes there: the capsule's pointer is not const.
  const nb::object capsule = nb::steal(
      PyCapsule_New(const_cast<dlpack::ExchangeApi*>(&kApi), dlpack::kExchangeName, nullptr));
  if (!capsule.is_valid()) throw nb::python_error();
  nb::setattr(nb::handle(reinterpret_cast<PyObject*>(g_tensor_type)), "__dlpack_c_exchange_api__",
              capsule);
  module.def("to_dlpack", &array_of_peer, nb::arg("x").none(), nb::arg("array_type").none(),
             nb::sig("def to_dlpack(x: Tensor, array_type: type) -> Any"),
             "Another library's array in the memory of a tensor, by the exchange API of the class "
             "`array_type`, such as torch.Tensor: as its from_dlpack() makes it, and faster. The "
             "memory lives as long as the array. Libraries that know nothing of read-only arrays, "
             "as PyTorch, give a writable one. TypeError for a class without such an API, "
             "BufferError for a tensor in a device's own memory: to_device() moves it.");
}

}  // namespace bp::python
