// SPDX-License-Identifier: Apache-2.0
//
// Where the bytes of a tensor lie, and how a read finds out whether the work before it went well.
#include "core/transfer/transfer.hpp"

#include <cstring>

#include "core/base/dtype.hpp"

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

/// Notes what is in the queue. Without memory for that it ends first: memory whose use is not noted
/// could be given to others too early.
void note_queued(Storage& storage, Stream& stream, uint64_t seq, bool write) {
  if (seq == 0) return;
  if (contain([&] { storage.note_use(stream, seq, write); }).ok()) return;
  static_cast<void>(contain([&] { return stream.sync(); }));
}

/// Queues the read behind the work that writes the storage, and waits for both at once. False: they
/// did not both go well, or it could not be queued. Errors: TIMEOUT.
Result<bool> read_behind_writer(Storage& storage, bp_mem place, uint64_t bytes, QueuedReads* reads,
                                void* out_data) {
  Stream* writer = storage.unfinished_writer();
  if (bytes == 0 || writer == nullptr || !Staging::serves(*writer)) return false;
  uint64_t seq = 0;
  const bool added = reads->add(*writer, out_data, place, bytes, &seq);
  note_queued(storage, *writer, seq, false);
  if (!added) return false;
  const Status status = reads->wait();
  if (status.code() == BP_TIMEOUT) return status;
  return status.ok();
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
  const bp_mem place{storage.handle(), storage.offset_bytes() + range.first};
  QueuedReads reads(*device);
  BP_TRY_ASSIGN(const bool queued,
                read_behind_writer(storage, place, range.bytes, &reads, out_data));
  // Waiting on the writer, even where nothing is copied, is what makes errors surface here.
  BP_TRY(storage.wait_on_host(false));
  if (range.bytes == 0) return {};
  if (!queued) {
    // The copy is no stream's: one that failed must not keep others' results from being read.
    return device->read(out_data, place, range.bytes);
  }
  device->counters().device_to_host_copies.fetch_add(1, std::memory_order_relaxed);
  reads.take();
  return {};
}

Status write_range(Stream& stream, Storage& storage, ByteRange range, const void* source) {
  const bp_mem place{storage.handle(), storage.offset_bytes() + range.first};
  uint64_t seq = 0;
  const Status status = copy_in(stream, place, source, range.bytes, &seq);
  note_queued(storage, stream, seq, true);
  if (status.ok() && seq == 0) storage.note_host_write();
  return status;
}

}  // namespace

Result<Ref<Tensor>> copy_to_device(const Ref<Tensor>& tensor, Device& device, Stream& stream,
                                   MemoryTag tag) {
  BP_TRY(device.check_open());
  if (tensor->device() == &device) return tensor;
  if (tensor->device() == nullptr) BP_TRY(check_host_values(*tensor));
  const ByteRange range = byte_range(*tensor);
  BP_TRY_ASSIGN(Ref<Storage> storage, Storage::allocate(device, range.bytes, tag, stream));
  if (range.bytes == 0) {
    BP_TRY(read_range(*tensor, range, nullptr));  // for the errors of the work that made it empty
  } else if (tensor->device() == nullptr) {
    const auto* source = reinterpret_cast<const char*>(tensor->storage().handle()) + range.first;
    BP_TRY(write_range(stream, *storage, {0, range.bytes}, source));
  } else {
    void* staging = nullptr;
    BP_TRY_ASSIGN(const HostTensor buffer,
                  HostTensor::allocate(BP_DTYPE_U8, {static_cast<int64_t>(range.bytes)}, &staging));
    BP_TRY(read_range(*tensor, range, staging));
    BP_TRY(write_range(stream, *storage, {0, range.bytes}, buffer.data));
  }
  return Ref<Tensor>::make(std::move(storage), tensor->dtype(), tensor->sizes(), tensor->strides(),
                           tensor->offset_bytes() - range.first);
}

Result<Ref<Tensor>> copy_from_host(Stream& stream, uint32_t dtype, const Dims& sizes,
                                   const void* values, MemoryTag tag) {
  BP_TRY_ASSIGN(Ref<Tensor> tensor, Tensor::allocate(stream.device(), dtype, sizes, tag, stream));
  BP_TRY(write_from_host(stream, *tensor, values));
  return tensor;
}

Status write_from_host(Stream& stream, Tensor& target, const void* values) {
  const ByteRange range = byte_range(target);
  if (range.bytes == 0) return {};
  BP_TRY(target.order_before_write(stream));
  BP_TRY(write_range(stream, target.storage(), range, values));
  target.forget_faults();
  return {};
}

Status read_to_host(Tensor& tensor, void* out_data) {
  return read_range(tensor, byte_range(tensor), out_data);
}

}  // namespace bp
