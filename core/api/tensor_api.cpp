// SPDX-License-Identifier: Apache-2.0
//
// Tensors and operator calls of the C API.
#include "core/api/handles.hpp"
#include "core/base/dtype.hpp"
#include "core/dispatch/call.hpp"

namespace bp {
namespace {

Result<Dims> read_sizes(const int64_t* sizes, uint32_t rank) {
  if (rank > BP_MAX_RANK) {
    return Status(BP_INVALID_ARGUMENT, "argument rank is " + std::to_string(rank) +
                                           ", expected at most " + std::to_string(BP_MAX_RANK));
  }
  if (rank > 0) BP_TRY(check_pointer(sizes, "sizes"));
  return Dims(std::span<const int64_t>(sizes, rank));
}

Result<uint64_t> checked_bytes(uint32_t dtype, const Dims& sizes) {
  if (!is_dtype(dtype)) {
    return Status(BP_INVALID_ARGUMENT,
                  "argument dtype is " + std::to_string(dtype) + ", which is no dtype code");
  }
  const auto count = checked_element_count(sizes);
  if (!count || *count > INT64_MAX / 16) {
    return Status(BP_INVALID_ARGUMENT,
                  "argument sizes " + to_string(sizes) + " are negative or too large together");
  }
  return dtype_storage_bytes(dtype, *count);
}

Result<Ref<Tensor>> host_tensor(uint32_t dtype, const Dims& sizes, const void* data) {
  void* place = nullptr;
  BP_TRY_ASSIGN(HostTensor host, HostTensor::allocate(dtype, sizes, &place));
  if (host.bytes > 0) std::memcpy(place, data, host.bytes);
  return Tensor::wrap_host(std::move(host));
}

Result<Runtime*> runtime_of(Runtime* given, std::span<Tensor* const> inputs) {
  if (given != nullptr) {
    BP_TRY(given->check_open());
    return given;
  }
  for (Tensor* input : inputs) {
    if (input != nullptr && input->device() != nullptr) return &input->device()->runtime();
  }
  return Status(BP_INVALID_ARGUMENT,
                "no input is on a device; give one with Tensor::to or a runtime");
}

Status op_call(Runtime* given, uint32_t op_id, std::span<Tensor* const> inputs,
               const void* attributes, std::span<bpa_tensor*> out_outputs) {
  BP_TRY_ASSIGN(Runtime * runtime, runtime_of(given, inputs));
  const auto op = runtime->registry().find_by_source_id(op_id);
  if (!op) {
    return Status(BP_INVALID_ARGUMENT,
                  "argument op_id is " + std::to_string(op_id) + ", which is no operator");
  }
  constexpr size_t kLocalOutputs = 4;
  std::array<Ref<Tensor>, kLocalOutputs> local;
  std::vector<Ref<Tensor>> many(out_outputs.size() > kLocalOutputs ? out_outputs.size() : 0);
  const std::span<Ref<Tensor>> outputs =
      many.empty() ? std::span(local).first(out_outputs.size()) : std::span(many);
  const CallArgs args{.op = *op,
                      .inputs = inputs,
                      .attributes = attributes,
                      .stream = nullptr,
                      .device = runtime->host_device()};
  BP_TRY(call(*runtime, args, outputs));
  for (size_t i = 0; i < outputs.size(); ++i) out_outputs[i] = to_handle(std::move(outputs[i]));
  return {};
}

}  // namespace
}  // namespace bp

using bp::check_pointer;
using bp::from_handle;
using bp::guarded;
using bp::Status;

bpa_status bpa_tensor_create(bpa_device* device, uint32_t dtype, const int64_t* sizes,
                             uint32_t rank, bpa_tensor** out_tensor) {
  return guarded(out_tensor, 1, [&]() -> Status {
    BP_TRY(check_pointer(out_tensor, "out_tensor"));
    BP_TRY(check_pointer(device, "device"));
    BP_TRY(from_handle(device)->check_open());
    BP_TRY_ASSIGN(const bp::Dims dims, bp::read_sizes(sizes, rank));
    BP_TRY(bp::checked_bytes(dtype, dims));
    bp::Device& target = *from_handle(device);
    BP_TRY_ASSIGN(
        bp::Ref<bp::Tensor> tensor,
        bp::Tensor::allocate(target, dtype, dims, bp::MemoryTag::kIo, target.default_stream()));
    *out_tensor = bp::to_handle(std::move(tensor));
    return {};
  });
}

bpa_status bpa_tensor_from_host(bpa_device* device, uint32_t dtype, const int64_t* sizes,
                                uint32_t rank, const void* data, uint64_t bytes,
                                bpa_tensor** out_tensor) {
  return guarded(out_tensor, 1, [&]() -> Status {
    BP_TRY(check_pointer(out_tensor, "out_tensor"));
    BP_TRY_ASSIGN(const bp::Dims dims, bp::read_sizes(sizes, rank));
    BP_TRY_ASSIGN(const uint64_t needed, bp::checked_bytes(dtype, dims));
    if (bytes != needed) {
      return Status(BP_INVALID_ARGUMENT, "argument bytes is " + std::to_string(bytes) + ", " +
                                             std::string(bp::dtype_name(dtype)) +
                                             bp::to_string(dims) + " has " +
                                             std::to_string(needed));
    }
    if (bytes > 0) BP_TRY(check_pointer(data, "data"));
    if (device == nullptr) {
      BP_TRY_ASSIGN(bp::Ref<bp::Tensor> host, bp::host_tensor(dtype, dims, data));
      *out_tensor = bp::to_handle(std::move(host));
      return {};
    }
    BP_TRY(from_handle(device)->check_open());
    BP_TRY_ASSIGN(
        bp::Ref<bp::Tensor> tensor,
        bp::Tensor::from_host(*from_handle(device), dtype, dims, data, bp::MemoryTag::kIo));
    *out_tensor = bp::to_handle(std::move(tensor));
    return {};
  });
}

bpa_status bpa_tensor_to_host(bpa_tensor* tensor, void* out_data, uint64_t bytes) {
  return guarded([&]() -> Status {
    BP_TRY(check_pointer(tensor, "tensor"));
    if (bytes > 0) BP_TRY(check_pointer(out_data, "out_data"));
    bp::Tensor* source = from_handle(tensor);
    if (source->device() != nullptr) BP_TRY(source->device()->check_open());
    return bp::copy_to_host(bp::Ref<bp::Tensor>(source), out_data, bytes);
  });
}

bpa_status bpa_tensor_to_device(bpa_tensor* tensor, bpa_device* device, bpa_tensor** out_tensor) {
  return guarded(out_tensor, 1, [&]() -> Status {
    BP_TRY(check_pointer(out_tensor, "out_tensor"));
    BP_TRY(check_pointer(tensor, "tensor"));
    BP_TRY(check_pointer(device, "device"));
    bp::Device& target = *from_handle(device);
    BP_TRY_ASSIGN(bp::Ref<bp::Tensor> moved,
                  bp::copy_to_device(bp::Ref<bp::Tensor>(from_handle(tensor)), target,
                                     target.default_stream(), bp::MemoryTag::kIo));
    *out_tensor = bp::to_handle(std::move(moved));
    return {};
  });
}

bpa_status bpa_tensor_get_info(bpa_tensor* tensor, bpa_tensor_info* out_info) {
  return guarded([&]() -> Status {
    BP_TRY(check_pointer(tensor, "tensor"));
    const bp::Tensor& source = *from_handle(tensor);
    bpa_tensor_info info{};
    info.dtype = source.dtype();
    info.rank = static_cast<uint32_t>(source.sizes().size());
    info.sizes = source.sizes().data();
    info.strides = source.strides().data();
    info.device = bp::to_handle(source.device());
    info.bytes = bp::dtype_storage_bytes(source.dtype(), source.element_count());
    return bp::write_struct(out_info, info, "out_info");
  });
}

void bpa_tensor_retain(bpa_tensor* tensor) {
  if (tensor != nullptr) from_handle(tensor)->retain();
}

void bpa_tensor_release(bpa_tensor* tensor) {
  if (tensor != nullptr) from_handle(tensor)->release();
}

bpa_status bpa_op_call(bpa_runtime* runtime, uint32_t op_id, const bpa_tensor* const* inputs,
                       uint32_t input_count, const void* attributes, uint64_t flags,
                       bpa_tensor** out_outputs, uint32_t output_count) {
  return guarded(out_outputs, output_count, [&]() -> Status {
    BP_TRY(check_pointer(out_outputs, "out_outputs"));
    if (input_count > 0) BP_TRY(check_pointer(inputs, "inputs"));
    if (flags != 0) {
      return Status(BP_UNSUPPORTED, "argument flags is " + std::to_string(flags) + ", expected 0");
    }
    // Handles are not const inside: the counts and marks of shared objects change.
    auto* const* handles = const_cast<bpa_tensor* const*>(inputs);
    auto* const* tensors = reinterpret_cast<bp::Tensor* const*>(handles);
    return bp::op_call(from_handle(runtime), op_id, {tensors, input_count}, attributes,
                       {out_outputs, output_count});
  });
}
