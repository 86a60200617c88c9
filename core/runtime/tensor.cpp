// SPDX-License-Identifier: Apache-2.0
//
// Making tensors and views of them.
#include "core/runtime/tensor.hpp"

#include "core/base/dtype.hpp"
#include "core/runtime/device.hpp"
#include "core/runtime/stream.hpp"

namespace bp {

Tensor::Tensor(Ref<Storage> storage, uint32_t dtype, const Dims& sizes, const Dims& strides,
               uint64_t offset_bytes)
    : storage_(std::move(storage)),
      dtype_(dtype),
      sizes_(sizes),
      strides_(strides),
      offset_bytes_(offset_bytes) {}

Result<Ref<Tensor>> Tensor::allocate(Device& device, uint32_t dtype, const Dims& sizes,
                                     MemoryTag tag, Stream& stream) {
  if (!is_dtype(dtype)) {
    return Status(BP_INVALID_ARGUMENT, "dtype code " + std::to_string(dtype) + " is not known");
  }
  const auto count = checked_element_count(sizes);
  if (!count) {
    return Status(BP_INVALID_ARGUMENT,
                  "sizes " + numbers_text(sizes) + " are negative or too large together");
  }
  const uint64_t bytes = dtype_storage_bytes(dtype, *count);
  BP_TRY_ASSIGN(Ref<Storage> storage, Storage::allocate(device, bytes, tag, stream));
  return Ref<Tensor>::make(std::move(storage), dtype, sizes, contiguous_strides(sizes),
                           uint64_t{0});
}

Result<Ref<Tensor>> Tensor::create(Device& device, uint32_t dtype, const Dims& sizes) {
  Stream& home = device.default_stream();
  BP_TRY_ASSIGN(Ref<Tensor> tensor, allocate(device, dtype, sizes, MemoryTag::kIo, home));
  const uint64_t so_far = home.issued_seq();
  if (!home.known_done(so_far)) tensor->storage().note_use(home, so_far, false);
  return tensor;
}

Ref<Tensor> Tensor::wrap_host(HostTensor tensor) {
  auto storage = Storage::wrap(nullptr, reinterpret_cast<uint64_t>(tensor.data), tensor.bytes,
                               std::move(tensor.owner));
  return Ref<Tensor>::make(std::move(storage), tensor.dtype, tensor.sizes,
                           contiguous_strides(tensor.sizes), uint64_t{0});
}

Ref<Tensor> Tensor::view_as(uint32_t dtype, const Dims& sizes, const Dims& strides,
                            int64_t offset) const {
  const int64_t moved_bytes = dtype_step_bytes(dtype_, offset);
  auto view = Ref<Tensor>::make(storage_, dtype, sizes, strides,
                                offset_bytes_ + static_cast<uint64_t>(moved_bytes));
  view->is_read_only_ = is_read_only_;
  return view;
}

void Tensor::note_written(Stream& stream, uint64_t seq, std::span<const FaultOrigin> origins) {
  if (seq != 0) storage_->note_use(stream, seq, true);
  forget_faults();
  for (const FaultOrigin& origin : origins) storage_->note_fault(origin);
}

std::string Tensor::describe() const {
  return std::string(dtype_name(dtype_)) + " " + to_string(sizes_) + " on " +
         (device() != nullptr ? device()->name() : "the host");
}

}  // namespace bp
