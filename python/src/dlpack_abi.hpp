// SPDX-License-Identifier: Apache-2.0
//
// The structs of DLPack 1.x, by which array libraries lend each other memory
// (https://dmlc.github.io/dlpack). Their layout is the standard's; names are theirs.
#ifndef BACKPLANE_PYTHON_DLPACK_ABI_HPP
#define BACKPLANE_PYTHON_DLPACK_ABI_HPP

#include <cstdint>

namespace bp::python::dlpack {

constexpr uint32_t kMajor = 1;
constexpr uint32_t kMinor = 3;                                // has the exchange API
constexpr const char* kExchangeName = "dlpack_exchange_api";  // of the capsule
constexpr int32_t kCpu = 1;
constexpr uint8_t kComplex = 5;  // of DLDataType::code
constexpr uint64_t kReadOnlyBit = 1;
constexpr uint64_t kCopiedBit = 2;

struct DLDevice {
  int32_t device_type;
  int32_t device_id;
};

struct DLDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;  // elements; NULL: contiguous
  uint64_t byte_offset;
};

struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};

struct DLManagedTensorVersioned {
  struct {
    uint32_t major;
    uint32_t minor;
  } version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  uint64_t flags;
  DLTensor dl_tensor;
};

/// What a class gives as a capsule, `__dlpack_c_exchange_api__`. Those that answer int: 0, or -1
/// with a Python exception.
struct ExchangeApi {
  struct {
    struct {
      uint32_t major;
      uint32_t minor;
    } version;
    void* previous;  // of an older major version
  } header;
  /// Without the GIL: errors go to `set_error`, as the name of an exception and its words.
  int (*managed_tensor_allocator)(DLTensor* prototype, DLManagedTensorVersioned** out,
                                  void* error_context,
                                  void (*set_error)(void* error_context, const char* kind,
                                                    const char* message));
  int (*managed_tensor_from_py_object_no_sync)(void* object, DLManagedTensorVersioned** out);
  /// Takes `tensor` over, also where it fails.
  int (*managed_tensor_to_py_object_no_sync)(DLManagedTensorVersioned* tensor, void** out_object);
  /// What it fills in is the object's.
  int (*dltensor_from_py_object_no_sync)(void* object, DLTensor* out);
  int (*current_work_stream)(int32_t device_type, int32_t device_id, void** out_stream);
};

}  // namespace bp::python::dlpack

#endif
