// SPDX-License-Identifier: Apache-2.0
//
// Where the bytes of a tensor lie, and how a read finds out whether the work before it went well.
#include "core/transfer/transfer.hpp"

#include <cstring>

#include "core/base/arg_array.hpp"
#include "core/base/dtype.hpp"

namespace bp {
namespace {

// The bytes of a storage that a tensor's elements lie in: [first, first + bytes).
struct ByteRange {
  uint64_t first = 0;
  uint64_t bytes = 0;
};

ByteRange byte_range(const Tensor& tensor) {
  if (tensor.contiguous()) {
    return {tensor.offset_bytes(), dtype_storage_bytes(tensor.dtype(), tensor.element_count())};
  }
  const ElementRange range = element_range(tensor.sizes(), tensor.strides());
  const int64_t lowest_bytes = dtype_step_bytes(tensor.dtype(), range.lowest);
  return {tensor.offset_bytes() + static_cast<uint64_t>(lowest_bytes),
          dtype_storage_bytes(tensor.dtype(), range.count)};
}

/// visit(elements from [0, 0, ...] to the first of a row, its length, the number of the first):
/// runs of elements that lie behind each other, in order. Between strided ones lies what is not the
/// tensor's.
template <class Visit>
Status visit_rows(const Tensor& tensor, Visit visit) {
  if (tensor.contiguous()) return visit(0, tensor.element_count(), 0);
  const Dims& sizes = tensor.sizes();
  const size_t last = sizes.size() - 1;  // one without dimensions is contiguous
  const int64_t step = tensor.strides()[last];
  const int64_t row = step == 1 ? sizes[last] : 1;
  Dims index;
  index.resize(sizes.size(), 0);
  int64_t offset = 0;
  for (int64_t i = 0; i < tensor.element_count(); i += row) {
    BP_TRY(visit(offset, row, i));
    // Past the row, then the odometer.
    index[last] += row - 1;
    offset += (row - 1) * step;
    for (size_t d = sizes.size(); d-- > 0;) {
      offset += tensor.strides()[d];
      if (++index[d] < sizes[d]) break;
      offset -= tensor.strides()[d] * sizes[d];
      index[d] = 0;
    }
  }
  return {};
}

const char* first_on_host(const Tensor& tensor) {
  return reinterpret_cast<const char*>(tensor.storage().handle()) +
         tensor.storage().offset_bytes() + tensor.offset_bytes();
}

/// Host memory is foreign, and devices rely on what a bool may be.
Status check_host_values(const Tensor& tensor) {
  if (tensor.dtype() != BP_DTYPE_BOOL || tensor.element_count() == 0) return {};
  const auto* first = reinterpret_cast<const uint8_t*>(first_on_host(tensor));
  return visit_rows(tensor, [first](int64_t offset, int64_t row, int64_t number) {
    return check_bools(first + offset, row, number);
  });
}

/// Notes what is in the queue. Without memory for that it ends first: memory whose use is not noted
/// could be given to others too early.
void note_queued(Storage& storage, Stream& stream, uint64_t seq, bool write) {
  if (seq == 0) return;
  if (contain([&] { storage.note_use(stream, seq, write); }).ok()) return;
  static_cast<void>(contain([&] { return stream.sync(); }));
}

bp_mem place_of(const Storage& storage, ByteRange range) {
  return {storage.handle(), storage.offset_bytes() + range.first};
}

/// A part of a tensor's storage that is wanted in host memory.
struct RangeRead {
  Tensor* tensor = nullptr;
  ByteRange range;
  void* out_data = nullptr;
  enum class State : uint8_t { kWaiting, kQueued, kDone } state = State::kWaiting;
};

/// Queues the read behind the work that writes the storage, if that is not done.
void queue_behind_writer(RangeRead* read, QueuedReads* queued) {
  Storage& storage = read->tensor->storage();
  Stream* writer = storage.unfinished_writer();
  if (read->range.bytes == 0 || writer == nullptr || !Staging::serves(*writer)) return;
  uint64_t seq = 0;
  const bool added =
      queued->add(*writer, read->out_data, place_of(storage, read->range), read->range.bytes, &seq);
  note_queued(storage, *writer, seq, false);
  if (added) read->state = RangeRead::State::kQueued;
}

/// Waiting on the writer, even where nothing is copied, is what makes errors surface here.
Status end_read(RangeRead* read, bool is_there) {
  Device* device = read->tensor->device();
  const ByteRange range = read->range;
  if (device == nullptr) {
    const auto* first = reinterpret_cast<const char*>(read->tensor->storage().handle());
    if (range.bytes > 0) std::memcpy(read->out_data, first + range.first, range.bytes);
    return {};
  }
  BP_TRY(device->check_open());
  BP_TRY(read->tensor->storage().wait_on_host(false));
  if (range.bytes == 0) return {};
  if (!is_there) {
    // The copy is no stream's: one that failed must not keep others' results from being read.
    return device->read(read->out_data, place_of(read->tensor->storage(), range), range.bytes);
  }
  device->counters().device_to_host_copies.fetch_add(1, std::memory_order_relaxed);
  return {};
}

/// All that wait and lie on the device: what can be queued shares one wait, the rest is read behind
/// it.
Status read_from(Device& device, std::span<RangeRead> reads, size_t* out_failed) {
  using State = RangeRead::State;
  BP_TRY(device.check_open());
  QueuedReads queued(device);
  for (RangeRead& read : reads) {
    if (read.tensor->device() == &device) queue_behind_writer(&read, &queued);
  }
  // One that failed is told by the storages that it concerns.
  const Status waited = queued.wait();
  if (waited.code() == BP_TIMEOUT) return waited;
  for (size_t i = 0; i < reads.size(); ++i) {
    RangeRead& read = reads[i];
    if (read.tensor->device() != &device || read.state == State::kDone) continue;
    *out_failed = i;
    BP_TRY(end_read(&read, read.state == State::kQueued && waited.ok()));
    read.state = State::kDone;
  }
  if (waited.ok()) queued.take();
  return {};
}

Status read_ranges(std::span<RangeRead> reads, size_t* out_failed) {
  for (size_t i = 0; i < reads.size(); ++i) {
    *out_failed = i;
    if (reads[i].state == RangeRead::State::kDone) continue;
    Device* device = reads[i].tensor->device();
    if (device == nullptr) BP_TRY(end_read(&reads[i], false));
    if (device != nullptr) BP_TRY(read_from(*device, reads, out_failed));
  }
  return {};
}

Status read_range(Tensor& tensor, ByteRange range, void* out_data) {
  RangeRead read{&tensor, range, out_data};
  size_t failed = 0;
  return read_ranges({&read, 1}, &failed);
}

Status write_range(Stream& stream, Storage& storage, ByteRange range, const void* source) {
  uint64_t seq = 0;
  const Status status = copy_in(stream, place_of(storage, range), source, range.bytes, &seq);
  note_queued(storage, stream, seq, true);
  if (status.ok() && seq == 0) storage.note_host_write(stream);
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

Result<HostTensor> gather_on_host(const Tensor& tensor) {
  void* out_data = nullptr;
  BP_TRY_ASSIGN(HostTensor gathered,
                HostTensor::allocate(tensor.dtype(), tensor.sizes(), &out_data));
  if (tensor.element_count() == 0) return gathered;
  const char* first = first_on_host(tensor);
  auto* to = static_cast<char*>(out_data);
  BP_TRY(visit_rows(tensor, [&](int64_t offset, int64_t row, int64_t) {
    const int64_t length = dtype_step_bytes(tensor.dtype(), row);
    std::memcpy(to, first + dtype_step_bytes(tensor.dtype(), offset), static_cast<size_t>(length));
    to += length;
    return Status();
  }));
  return gathered;
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

Status read_to_host(std::span<const HostRead> reads, size_t* out_failed) {
  ArgArray<RangeRead> ranges(reads.size());
  for (size_t i = 0; i < reads.size(); ++i) {
    ranges[i] = {reads[i].tensor, byte_range(*reads[i].tensor), reads[i].out_data};
  }
  return read_ranges(ranges.span(), out_failed);
}

}  // namespace bp
