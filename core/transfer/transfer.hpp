// SPDX-License-Identifier: Apache-2.0
//
// Tensors between the host and devices. Whole memory ranges are copied, and strides travel with the
// tensor, so that no element loop lives in the core and no kernel is needed.
#ifndef BACKPLANE_CORE_TRANSFER_TRANSFER_HPP
#define BACKPLANE_CORE_TRANSFER_TRANSFER_HPP

#include "core/runtime/tensor.hpp"
#include "core/transfer/staging.hpp"

namespace bp {

/// The same values on another device, or, from the host, on a first one, whose copy may still be in
/// the stream's queue; the tensor itself if it is there. Waits for a source on a device. Errors: of
/// the work that made the source; the plugins'.
Result<Ref<Tensor>> copy_to_device(const Ref<Tensor>& tensor, Device& device, Stream& stream,
                                   MemoryTag tag);
/// The values of a strided tensor in host memory, contiguous. Errors: OUT_OF_MEMORY.
Result<HostTensor> gather_on_host(const Tensor& tensor);
/// A new tensor of contiguous host values, whose copy may still be in the stream's queue: they are
/// the caller's again on return. Errors: INVALID_ARGUMENT for a dtype or sizes that cannot be;
/// OUT_OF_MEMORY; POISONED; the plugin's.
Result<Ref<Tensor>> copy_from_host(Stream& stream, uint32_t dtype, const Dims& sizes,
                                   const void* values, MemoryTag tag);
/// Writes contiguous host values over all of a contiguous tensor, in the order of `stream`, which
/// is of the tensor's device. They are the caller's again on return.
Status write_from_host(Stream& stream, Tensor& target, const void* values);
/// Where the values of a contiguous tensor are wanted in host memory.
struct HostRead {
  Tensor* tensor;
  void* out_data;
};
/// Waits; an asynchronous error surfaces here. Reads of one device behind work in its queues share
/// one wait. `*out_failed`: the read that an error belongs to.
Status read_to_host(std::span<const HostRead> reads, size_t* out_failed);

}  // namespace bp

#endif
