// SPDX-License-Identifier: Apache-2.0
//
// See average.hpp.
#include "ccl/bridge/average.hpp"

#include <array>
#include <utility>

#include "core/base/dtype.hpp"
#include "core/dispatch/launch.hpp"
#include "core/op/scalar.hpp"
#include "core/runtime/copy_args.hpp"
#include "core/runtime/runtime.hpp"
#include "core/transfer/transfer.hpp"

namespace bp::ccl {
namespace {

constexpr uint64_t kAlignment = 256;  // of what is allocated

Result<std::shared_ptr<PlannedKernel>> plan_division(Device& device, uint32_t dtype,
                                                     int64_t count) {
  const auto op = device.runtime().registry().find("div");
  if (!op) return Status(BP_UNSUPPORTED, "there is no operator div to average with");
  const Dims all{count};
  const Dims one{1};
  const std::array<ArgType, 2> inputs = {ArgType{.dtype = dtype, .sizes = all, .strides = one},
                                         ArgType{.dtype = dtype, .sizes = one, .strides = one}};
  const TensorType output{.dtype = dtype, .has_rank = true, .sizes = all};
  auto planned = Dispatcher::of(device).plan_kernel(*op, inputs, {&output, 1}, nullptr);
  const bool takes_them =
      planned.ok() && (*planned)->contiguous_inputs().empty() && (*planned)->host_inputs().empty();
  if (planned.ok() && !takes_them) {
    return Status(BP_UNSUPPORTED, (*planned)->title() + " does not take memory as it is");
  }
  return planned;
}

bp_mem place_of(const Tensor& tensor) {
  return {tensor.storage().handle(), tensor.storage().offset_bytes() + tensor.offset_bytes()};
}

}  // namespace

uint64_t divided_dtypes(Device& device, uint64_t dtypes) {
  uint64_t divided = 0;
  for (uint32_t dtype = 0; dtype < 64; ++dtype) {
    if ((dtypes & BP_DTYPE_BIT(dtype)) == 0) continue;
    std::array<std::byte, 16> element;
    const bool has_number = write_scalar(dtype, 1, element.data()).ok();
    if (has_number && plan_division(device, dtype, 1).ok()) divided |= BP_DTYPE_BIT(dtype);
  }
  return divided;
}

Result<Ref<Tensor>> Divider::divisor_of(uint32_t dtype, Stream& stream) {
  for (const Ref<Tensor>& known : divisors_) {
    if (known->dtype() != dtype) continue;
    BP_TRY(known->storage().order_before(stream, Access::kRead));
    return known;
  }
  std::array<std::byte, 16> element;
  BP_TRY(write_scalar(dtype, rank_count_, element.data()));
  BP_TRY_ASSIGN(Ref<Tensor> made,
                copy_from_host(stream, dtype, {1}, element.data(), MemoryTag::kComm));
  divisors_.push_back(made);
  return made;
}

/// Kept: a plan that ends waits for the work that uses it.
Result<std::shared_ptr<PlannedKernel>> Divider::kernel_of(const Tensor& result, Device& device) {
  const int64_t count = result.element_count();
  for (const Known& known : known_) {
    if (known.dtype == result.dtype() && known.count == count) return known.kernel;
  }
  BP_TRY_ASSIGN(auto kernel, plan_division(device, result.dtype(), count));
  if (known_.size() >= kMostKnown) known_.erase(known_.begin());
  known_.push_back({result.dtype(), count, kernel});
  return kernel;
}

Result<Average> Divider::average_into(const Ref<Tensor>& result, Stream& stream) {
  Device& device = stream.device();
  const uint32_t dtype = result->dtype();
  const Dims sizes{result->element_count()};
  Average average;
  average.result_ = result->view(sizes, {1}, 0);
  BP_TRY_ASSIGN(average.kernel_, kernel_of(*result, device));
  BP_TRY_ASSIGN(average.divisor_, divisor_of(dtype, stream));
  BP_TRY_ASSIGN(average.sum_, Tensor::allocate(device, dtype, sizes, MemoryTag::kComm, stream));
  // Kernels are not asked where their results may lie.
  average.is_copied_ = place_of(*result).offset_bytes % kAlignment != 0;
  average.quotient_ = average.result_;
  if (average.is_copied_) {
    BP_TRY_ASSIGN(average.quotient_,
                  Tensor::allocate(device, dtype, sizes, MemoryTag::kComm, stream));
  }
  return average;
}

Status Average::divide(Stream& stream) {
  const std::array<bp_tensor, 3> tensors = {sum_->abi(), divisor_->abi(), quotient_->abi()};
  Tensor* const inputs[] = {sum_.get(), divisor_.get()};
  BP_TRY(launch_planned(stream, kernel_, tensors.data(), inputs, {&quotient_, 1}));
  if (!is_copied_) return {};
  const uint64_t bytes = dtype_storage_bytes(result_->dtype(), result_->element_count());
  BP_TRY_ASSIGN(const uint64_t seq,
                stream.enqueue_copy(copy_args(BP_COPY_DEVICE_TO_DEVICE, place_of(*result_),
                                              place_of(*quotient_), bytes)));
  quotient_->storage().note_use(stream, seq, false);
  result_->note_written(stream, seq, {});
  return {};
}

}  // namespace bp::ccl
