// SPDX-License-Identifier: Apache-2.0
//
// Strided tensors into contiguous memory, by the operator that copies: of their own making, or the
// caller's.
#include <array>

#include "core/base/arg_array.hpp"
#include "core/base/dtype.hpp"
#include "core/dispatch/call.hpp"
#include "core/dispatch/dispatcher.hpp"
#include "core/dispatch/elsewhere.hpp"
#include "core/dispatch/launch.hpp"

namespace bp {
namespace {

Status copy_through_host(const Ref<Tensor>& source, Tensor& target, Stream& stream) {
  BP_TRY_ASSIGN(const HostTensor staging, copy_to_host(source));
  return write_from_host(stream, target, staging.data);
}

/// How make_contiguous_by() goes about tensors.
struct TensorWay {
  Device& device;
  Stream& stream;  // the device's

  static bool is_dense(const Ref<Tensor>& tensor) { return bp::is_dense(*tensor); }
  Result<Ref<Tensor>> by_kernel(const Ref<Tensor>& tensor) const {
    Device& where = *tensor->device();
    Stream& on = &where == &device ? stream : where.default_stream();
    const auto planned = plan_copy(where, ArgType::of(*tensor));
    if (planned.status().code() == BP_UNSUPPORTED) {
      return Status(BP_UNSUPPORTED, where.name() + " has no kernel that makes " +
                                        tensor->describe() +
                                        " contiguous: " + planned.status().message());
    }
    BP_TRY(planned);
    BP_TRY_ASSIGN(Ref<Tensor> dense, Tensor::allocate(where, tensor->dtype(), tensor->sizes(),
                                                      MemoryTag::kActivations, on));
    BP_TRY(launch_copy(*planned, *tensor, dense, on));
    return dense;
  }
  Result<Ref<Tensor>> to_host(const Ref<Tensor>& tensor, const Status& refusal) const {
    Runtime& runtime = device.runtime();
    if (const auto op = runtime.registry().copy_op()) {
      runtime.note_fallback(device, *op, refusal.message());
    }
    Device& host = *runtime.host_device();
    return copy_to_device(tensor, host, host.default_stream(), MemoryTag::kActivations);
  }
  Result<Ref<Tensor>> from_host(const Ref<Tensor>& tensor) const {
    return copy_to_device(tensor, device, stream, MemoryTag::kActivations);
  }
};

}  // namespace

ArgType ArgType::of(const Tensor& tensor) {
  return {.dtype = tensor.dtype(),
          .sizes = tensor.sizes(),
          .strides = tensor.strides(),
          .offset_bytes = tensor.offset_bytes()};
}

Result<std::shared_ptr<PlannedKernel>> plan_copy(Device& device, const ArgType& type,
                                                 std::span<const int64_t> out_strides) {
  const auto op = device.runtime().registry().copy_op();
  if (!op) return Status(BP_UNSUPPORTED, "no operator copies tensors");
  const TensorType out_type{.dtype = type.dtype, .has_rank = true, .sizes = type.sizes};
  Dispatcher& dispatcher = Dispatcher::of(device);
  auto planned = dispatcher.plan_kernel(*op, {&type, 1}, {&out_type, 1}, nullptr,
                                        {.out_strides = out_strides});
  dispatcher.drain_deferred();
  if (planned.ok() && !(*planned)->contiguous_inputs().empty()) {
    return Status(BP_UNSUPPORTED, "takes contiguous tensors only");
  }
  return planned;
}

Status launch_copy(const std::shared_ptr<PlannedKernel>& planned, Tensor& source,
                   Ref<Tensor> target, Stream& stream) {
  BP_TRY(source.storage().order_before(stream, Access::kRead));
  BP_TRY(target->order_before_write(stream));
  const std::array<bp_tensor, 2> tensors{source.abi(), target->abi()};
  Tensor* const inputs[] = {&source};
  BP_TRY(launch_planned(stream, planned, tensors.data(), inputs, {&target, 1}));
  if (stream.is_inline()) target->forget_faults();
  return {};
}

/// Even a contiguous view is copied if it begins at an address that a kernel cannot take.
bool is_dense(const Tensor& tensor) {
  return tensor.contiguous() && tensor.offset_bytes() % 256 == 0;
}

Result<Ref<Tensor>> copy_dense(const Ref<Tensor>& tensor, Stream& stream) {
  Device& device = stream.device();
  return make_contiguous_by(TensorWay{device, stream}, device, tensor);
}

Result<Ref<Tensor>> make_contiguous(const Ref<Tensor>& tensor, Stream& stream) {
  if (is_dense(*tensor)) return tensor;
  stream.device().counters().contiguous_copies.fetch_add(1, std::memory_order_relaxed);
  return copy_dense(tensor, stream);
}

Status copy_into(const Ref<Tensor>& source, const Ref<Tensor>& target, bool aligned,
                 Stream& stream) {
  Device* device = target->device();
  if (source->device() == device && aligned && source->element_count() > 0) {
    const auto planned = plan_copy(*device, ArgType::of(*source));
    if (planned.ok()) return launch_copy(*planned, *source, target, stream);
    if (planned.status().code() != BP_UNSUPPORTED) return planned.status();
  }
  return copy_through_host(source, *target, stream);
}

namespace {

/// As the read takes it.
Status prepare_copy(HostCopy* copy) {
  Ref<Tensor>& tensor = copy->tensor;
  if (tensor->device() != nullptr) BP_TRY(tensor->device()->check_open());
  const uint64_t needed = dtype_storage_bytes(tensor->dtype(), tensor->element_count());
  if (copy->bytes != needed) {
    return Status(BP_INVALID_ARGUMENT, tensor->describe() + " needs " + std::to_string(needed) +
                                           " bytes on the host, found " +
                                           std::to_string(copy->bytes));
  }
  if (tensor->contiguous()) return {};
  if (tensor->device() == nullptr) {
    BP_TRY_ASSIGN(HostTensor gathered, gather_on_host(*tensor));
    tensor = Tensor::wrap_host(std::move(gathered));
    return {};
  }
  BP_TRY_ASSIGN(tensor, make_contiguous(tensor, tensor->device()->default_stream()));
  return {};
}

}  // namespace

Status copy_to_host(std::span<HostCopy> copies, size_t* out_failed) {
  ArgArray<HostRead> reads(copies.size());
  for (size_t i = 0; i < copies.size(); ++i) {
    *out_failed = i;
    BP_TRY(prepare_copy(&copies[i]));
    reads[i] = {copies[i].tensor.get(), copies[i].out_data};
  }
  return read_to_host(reads.span(), out_failed);
}

Status copy_to_host(const Ref<Tensor>& tensor, void* out_data, uint64_t bytes) {
  HostCopy copy{tensor, out_data, bytes};
  size_t failed = 0;
  return copy_to_host({&copy, 1}, &failed);
}

Result<HostTensor> copy_to_host(const Ref<Tensor>& tensor) {
  BP_TRY_ASSIGN(std::vector<HostTensor> hosts, copy_to_host({&tensor, 1}));
  return std::move(hosts.front());
}

Result<std::vector<HostTensor>> copy_to_host(std::span<const Ref<Tensor>> tensors) {
  std::vector<HostTensor> hosts;
  std::vector<HostCopy> copies;
  for (const Ref<Tensor>& tensor : tensors) {
    void* data = nullptr;
    BP_TRY_ASSIGN(HostTensor host, HostTensor::allocate(tensor->dtype(), tensor->sizes(), &data));
    copies.push_back({tensor, data, host.bytes});
    hosts.push_back(std::move(host));
  }
  size_t failed = 0;
  BP_TRY(copy_to_host(copies, &failed));
  return hosts;
}

}  // namespace bp
