// SPDX-License-Identifier: Apache-2.0
//
// Moving tensors: whole memory ranges are copied, and strides travel with the tensor, so that no
// element loop lives in the core.
#include <cstring>

#include "core/base/dtype.hpp"
#include "core/dispatch/call.hpp"
#include "core/dispatch/dispatcher.hpp"

namespace bp {
namespace {

// The bytes of a storage that a tensor's elements lie in: [first, first + bytes).
struct ByteRange {
  uint64_t first = 0;
  uint64_t bytes = 0;
};

ByteRange byte_range(const Tensor& tensor) {
  if (tensor.element_count() == 0) return {tensor.offset_bytes(), 0};
  if (tensor.contiguous()) {
    return {tensor.offset_bytes(), dtype_storage_bytes(tensor.dtype(), tensor.element_count())};
  }
  int64_t lowest = 0;
  int64_t highest = 0;
  for (size_t i = 0; i < tensor.sizes().size(); ++i) {
    const int64_t reach = (tensor.sizes()[i] - 1) * tensor.strides()[i];
    (reach < 0 ? lowest : highest) += reach;
  }
  const auto element_bytes = static_cast<int64_t>(dtype_bits(tensor.dtype()) / 8);
  return {tensor.offset_bytes() + static_cast<uint64_t>(lowest * element_bytes),
          static_cast<uint64_t>((highest - lowest + 1) * element_bytes)};
}

/// Host memory is foreign, and devices rely on what a bool may be. Elements only: between strided
/// ones lies what is not the tensor's.
Status check_host_values(const Tensor& tensor) {
  if (tensor.dtype() != BP_DTYPE_BOOL || tensor.element_count() == 0) return {};
  const Dims& sizes = tensor.sizes();
  const auto* first = reinterpret_cast<const uint8_t*>(tensor.storage().handle()) +
                      tensor.storage().offset_bytes() + tensor.offset_bytes();
  Dims index;
  index.resize(sizes.size(), 0);
  int64_t offset = 0;
  for (int64_t i = 0; i < tensor.element_count(); ++i) {
    BP_TRY(check_bool(first[offset], i));
    for (size_t d = sizes.size(); d-- > 0;) {
      offset += tensor.strides()[d];
      if (++index[d] < sizes[d]) break;
      offset -= tensor.strides()[d] * sizes[d];
      index[d] = 0;
    }
  }
  return {};
}

Status read_range(Tensor& tensor, ByteRange range, void* out_data) {
  Storage& storage = tensor.storage();
  Device* device = tensor.device();
  if (device == nullptr) {
    if (range.bytes == 0) return {};
    std::memcpy(out_data, reinterpret_cast<const char*>(storage.handle()) + range.first,
                range.bytes);
    return {};
  }
  BP_TRY(device->check_open());
  // Waiting on the writer, even where nothing is copied, is what makes errors surface here. The
  // copy is no stream's: one that failed must not keep others' results from being read.
  BP_TRY(storage.wait_on_host(false));
  if (range.bytes == 0) return {};
  return device->read(out_data, {storage.handle(), storage.offset_bytes() + range.first},
                      range.bytes);
}

}  // namespace

Result<Ref<Tensor>> copy_to_device(const Ref<Tensor>& tensor, Device& device, Stream& stream,
                                   MemoryTag tag) {
  BP_TRY(device.check_open());
  if (tensor->device() == &device) return tensor;
  if (tensor->device() == nullptr) BP_TRY(check_host_values(*tensor));
  const ByteRange range = byte_range(*tensor);
  BP_TRY_ASSIGN(Ref<Storage> storage, Storage::allocate(device, range.bytes, tag, stream));
  if (range.bytes > 0) {
    const bp_mem dst{storage->handle(), storage->offset_bytes()};
    if (tensor->device() == nullptr) {
      const auto* source = reinterpret_cast<const char*>(tensor->storage().handle()) + range.first;
      BP_TRY(device.copy_in(stream, dst, source, range.bytes));
    } else {
      void* staging = nullptr;
      BP_TRY_ASSIGN(
          const HostTensor buffer,
          HostTensor::allocate(BP_DTYPE_U8, {static_cast<int64_t>(range.bytes)}, &staging));
      BP_TRY(read_range(*tensor, range, staging));
      BP_TRY(device.copy_in(stream, dst, buffer.data, range.bytes));
    }
  } else if (tensor->device() != nullptr) {
    BP_TRY(read_range(*tensor, range, nullptr));  // for the errors of the work that made it empty
  }
  return Ref<Tensor>::make(std::move(storage), tensor->dtype(), tensor->sizes(), tensor->strides(),
                           tensor->offset_bytes() - range.first);
}

Status copy_to_host(const Ref<Tensor>& tensor, void* out_data, uint64_t bytes) {
  if (tensor->device() != nullptr) BP_TRY(tensor->device()->check_open());
  const uint64_t needed = dtype_storage_bytes(tensor->dtype(), tensor->element_count());
  if (bytes != needed) {
    return Status(BP_INVALID_ARGUMENT, tensor->describe() + " needs " + std::to_string(needed) +
                                           " bytes on the host, found " + std::to_string(bytes));
  }
  if (tensor->contiguous()) return read_range(*tensor, byte_range(*tensor), out_data);
  if (tensor->device() == nullptr) {
    return Status(BP_UNSUPPORTED, "a strided tensor in host memory cannot be read out directly");
  }
  BP_TRY_ASSIGN(Ref<Tensor> dense, make_contiguous(tensor, tensor->device()->default_stream()));
  return read_range(*dense, byte_range(*dense), out_data);
}

Result<HostTensor> copy_to_host(const Ref<Tensor>& tensor) {
  void* data = nullptr;
  BP_TRY_ASSIGN(HostTensor host, HostTensor::allocate(tensor->dtype(), tensor->sizes(), &data));
  BP_TRY(copy_to_host(tensor, data, host.bytes));
  return host;
}

}  // namespace bp
