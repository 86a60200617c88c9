// SPDX-License-Identifier: Apache-2.0
//
// The structs of DLPack 1.x, by which array libraries lend each other memory
// (https://dmlc.github.io/dlpack). Their layout is the standard's; names are theirs.
#ifndef BACKPLANE_PYTHON_DLPACK_ABI_HPP
#define BACKPLANE_PYTHON_DLPACK_ABI_HPP

#include <cstdint>

namespace bp::python::dlpack {

constexpr uint32_t kMajor = 1;
constexpr uint32_t kMinor = 1;  // has the codes of 8-bit floats
constexpr int32_t kCpu = 1;
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

}  // namespace bp::python::dlpack

#endif
