// SPDX-License-Identifier: Apache-2.0
//
// A strided, typed view of a storage. Immutable and counted; views share the storage.
#ifndef BACKPLANE_CORE_RUNTIME_TENSOR_HPP
#define BACKPLANE_CORE_RUNTIME_TENSOR_HPP

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/base/dims.hpp"
#include "core/base/dtype.hpp"
#include "core/base/ref.hpp"
#include "core/base/status.hpp"
#include "core/op/host_tensor.hpp"
#include "core/runtime/storage.hpp"

namespace bp {

class Tensor : public Counted<Tensor>, public Recycled<Tensor> {
 public:
  /// Strides in elements, offset of element [0, ...] in bytes from the storage's beginning.
  Tensor(Ref<Storage> storage, uint32_t dtype, const Dims& sizes, const Dims& strides,
         uint64_t offset_bytes);

  /// Contiguous, uninitialised device memory, which `stream` writes first. Errors: INVALID_ARGUMENT
  /// for a dtype or sizes that cannot be; OUT_OF_MEMORY.
  static Result<Ref<Tensor>> allocate(Device& device, uint32_t dtype, const Dims& sizes,
                                      MemoryTag tag, Stream& stream);
  /// The same for whoever comes first, on any stream or from the host: at home on the default
  /// stream, and marked as in use until that has done with what the memory was before.
  static Result<Ref<Tensor>> create(Device& device, uint32_t dtype, const Dims& sizes);
  /// Host memory as a tensor of no device; no copy.
  static Ref<Tensor> wrap_host(HostTensor tensor);

  uint32_t dtype() const { return dtype_; }
  const Dims& sizes() const { return sizes_; }
  const Dims& strides() const { return strides_; }
  uint64_t offset_bytes() const { return offset_bytes_; }
  Storage& storage() const { return *storage_; }
  /// nullptr: host memory.
  Device* device() const { return storage_->device(); }
  int64_t element_count() const { return bp::element_count(sizes_); }
  bool contiguous() const { return is_contiguous(sizes_, strides_); }
  /// Nobody writes through it, nor through views of it; its memory may change by others.
  bool is_read_only() const { return is_read_only_; }
  /// Before anybody else has the tensor.
  void forbid_writes() { is_read_only_ = true; }

  /// A view with other sizes and strides; offset in elements from this view's element [0, ...].
  Ref<Tensor> view(const Dims& sizes, const Dims& strides, int64_t offset) const {
    return view_as(dtype_, sizes, strides, offset);
  }
  /// The same with the bytes read as another dtype; offset in elements of this one.
  Ref<Tensor> view_as(uint32_t dtype, const Dims& sizes, const Dims& strides, int64_t offset) const;

  /// As the ABI wants it. Points into this object.
  bp_tensor abi() const {
    bp_tensor tensor;
    write_abi(&tensor);
    return tensor;
  }
  /// ... straight into its place in a list of arguments: a copy of what was just written stalls.
  void write_abi(bp_tensor* out_tensor) const {
    out_tensor->handle = storage_->handle();
    out_tensor->offset_bytes = storage_->offset_bytes() + offset_bytes_;
    out_tensor->storage_bytes = storage_->offset_bytes() + storage_->bytes();
    out_tensor->dtype = dtype_;
    out_tensor->rank = static_cast<uint32_t>(sizes_.size());
    out_tensor->sizes = sizes_.data();
    out_tensor->strides = strides_.data();
    out_tensor->layout = 0;
    out_tensor->flags = storage_->device() == nullptr ? BP_TENSOR_HOST_BIT : 0;
    out_tensor->reserved = 0;
  }
  /// storage().order_before work that writes this tensor, and all of it.
  Status order_before_write(Stream& stream) {
    if (!storage_->is_marked()) return {};
    return storage_->order_before(stream, is_all() ? Access::kOverwrite : Access::kWrite);
  }
  /// The storage holds nothing but this tensor's elements.
  bool is_all() const {
    return contiguous() &&
           storage_->is_all(offset_bytes_, dtype_storage_bytes(dtype_, element_count()));
  }
  /// Work up to `seq` of `stream` (0: none that is queued) writes this tensor anew; its data faults
  /// are those of `origins`.
  void note_written(Stream& stream, uint64_t seq, std::span<const FaultOrigin> origins);
  /// Work that was enqueued, or is done, writes this tensor anew.
  void forget_faults() {
    if (storage_->may_fault() && is_all()) [[unlikely]]
      storage_->forget_faults();
  }
  /// "f32 [2, 3] on cpu:0"
  std::string describe() const;

 private:
  friend class Counted<Tensor>;
  ~Tensor() = default;

  Ref<Storage> storage_;
  uint32_t dtype_;
  Dims sizes_;
  Dims strides_;
  uint64_t offset_bytes_;
  bool is_read_only_ = false;
};

}  // namespace bp

#endif
