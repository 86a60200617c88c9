// SPDX-License-Identifier: Apache-2.0
//
// One operator call, eagerly: resolve, allocate, order, launch. Also the copies that may need a
// kernel, because making a strided tensor contiguous is an operator like any other.
#ifndef BACKPLANE_CORE_DISPATCH_CALL_HPP
#define BACKPLANE_CORE_DISPATCH_CALL_HPP

#include <memory>
#include <span>
#include <vector>

#include "core/base/status.hpp"
#include "core/op/schema.hpp"
#include "core/runtime/runtime.hpp"
#include "core/runtime/tensor.hpp"
#include "core/transfer/transfer.hpp"

namespace bp {

struct ArgType;
class PlannedKernel;

struct CallArgs {
  OpId op = 0;
  std::span<Tensor* const> inputs;   // nullptr: an absent optional input; not owned
  const void* attributes = nullptr;  // bp_attrs_<op>; nullptr: defaults
  Stream* stream = nullptr;          // nullptr: the default stream of the inputs' device
  Device* device = nullptr;          // where to run if no input is on a device
  bool deterministic = false;        // only kernels that promise bitwise equal reruns
};

/// Runs one operator; outputs as the schema lists them. Inputs on the host go to the device (copies
/// counted); inputs on two devices are refused, naming both. Queued: returns before the work is
/// done. Errors: INVALID_ARGUMENT naming the operator and input; UNSUPPORTED with every reason;
/// OUT_OF_MEMORY; the plugin's. Any thread.
Status call(Runtime& runtime, const CallArgs& args, std::span<Ref<Tensor>> out_outputs);

/// The kernel that copies a tensor of this type into contiguous memory of its device, or into a
/// view of such strides. Errors: UNSUPPORTED; the plugin's.
Result<std::shared_ptr<PlannedKernel>> plan_copy(Device& device, const ArgType& type,
                                                 std::span<const int64_t> out_strides = {});
/// ... and its launch. Both lie on the stream's device.
Status launch_copy(const std::shared_ptr<PlannedKernel>& planned, Tensor& source,
                   Ref<Tensor> target, Stream& stream);
/// Contiguous, and begun where any kernel takes it.
bool is_dense(const Tensor& tensor);
/// The same values in dense memory of their own, on the same device. By way of the host device,
/// noted as a fallback, where no kernel copies them.
Result<Ref<Tensor>> copy_dense(const Ref<Tensor>& tensor, Stream& stream);
/// The same values contiguous, on the same device; the tensor itself if it is already.
Result<Ref<Tensor>> make_contiguous(const Ref<Tensor>& tensor, Stream& stream);
/// Writes the values of `source` into `target`: contiguous, of the same dtype and sizes, on a
/// device. `aligned`: it begins on a 256-byte boundary. `stream` is of the target's device. Waits
/// unless both are on one device.
Status copy_into(const Ref<Tensor>& source, const Ref<Tensor>& target, bool aligned,
                 Stream& stream);
/// A tensor whose values are wanted, contiguous, in host memory of `bytes`, their exact size.
struct HostCopy {
  Ref<Tensor> tensor;
  void* out_data;
  uint64_t bytes;
};
/// All of them, by one wait for what is still in a device's queues. An asynchronous error surfaces
/// here. `*out_failed`: the copy that an error belongs to.
Status copy_to_host(std::span<HostCopy> copies, size_t* out_failed);
/// One of them.
Status copy_to_host(const Ref<Tensor>& tensor, void* out_data, uint64_t bytes);
/// ... into new host memory.
Result<HostTensor> copy_to_host(const Ref<Tensor>& tensor);
Result<std::vector<HostTensor>> copy_to_host(std::span<const Ref<Tensor>> tensors);

}  // namespace bp

#endif
