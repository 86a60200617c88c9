// SPDX-License-Identifier: Apache-2.0
#include "core/dispatch/assign.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/dispatch/call.hpp"
#include "core/dispatch/dispatcher.hpp"
#include "core/runtime/memory_range.hpp"

namespace bp {
namespace {

/// By strides from the smallest on: whether one does not step over all that those before it reach.
/// That may be so without an element in common, which nobody can tell quickly.
bool may_share_elements(const Tensor& tensor) {
  std::vector<std::pair<int64_t, int64_t>> steps;  // stride, size
  for (size_t i = 0; i < tensor.sizes().size(); ++i) {
    const int64_t size = tensor.sizes()[i];
    if (size > 1) steps.emplace_back(std::abs(tensor.strides()[i]), size);
  }
  std::ranges::sort(steps);
  Dims sizes;
  Dims strides;
  for (const auto& [stride, size] : steps) {
    if (stride < element_range(sizes, strides).count) return true;
    sizes.push_back(size);
    strides.push_back(stride);
  }
  return false;
}

Status check(const Tensor& source, const Tensor& target) {
  const auto refuse = [&](const std::string& why) {
    return Status(BP_INVALID_ARGUMENT,
                  fmt::format("assign of {} to {}: {}", source.describe(), target.describe(), why));
  };
  if (target.is_read_only()) return refuse("that is read-only");
  if (source.dtype() != target.dtype()) return refuse("expected one dtype");
  if (dtype_bits(target.dtype()) < 8 && !target.is_all()) {
    return refuse("elements below one byte are written as whole tensors only");
  }
  if (dtype_bits(target.dtype()) < 8 && source.element_count() != target.element_count()) {
    return refuse("elements below one byte cannot be repeated");
  }
  if (may_share_elements(target)) {
    return refuse(fmt::format("its strides {} may let elements share memory",
                              numbers_text({target.strides().begin(), target.strides().end()})));
  }
  const size_t rank = target.sizes().size();
  const size_t given = source.sizes().size();
  bool fits = given <= rank;
  for (size_t i = 0; fits && i < given; ++i) {
    const int64_t size = source.sizes()[i];
    fits = size == 1 || size == target.sizes()[rank - given + i];
  }
  return fits ? Status() : refuse("its sizes cannot be repeated to these");
}

/// The source as large as `target`, by strides of 0.
Ref<Tensor> expand(const Tensor& source, const Tensor& target) {
  const size_t skipped = target.sizes().size() - source.sizes().size();
  Dims strides;
  strides.resize(target.sizes().size(), 0);
  for (size_t i = 0; i < source.sizes().size(); ++i) {
    if (source.sizes()[i] != 1) strides[skipped + i] = source.strides()[i];
  }
  return source.view(target.sizes(), strides, 0);
}

/// Kernels are shown that it is a view by its strides, so it has one at least.
Ref<Tensor> with_a_stride(const Ref<Tensor>& tensor) {
  return tensor->sizes().empty() ? tensor->view({1}, {1}, 0) : tensor;
}

/// By a kernel of the device that both are on. Errors: UNSUPPORTED where there is none.
Status copy_by_kernel(const Ref<Tensor>& source, const Ref<Tensor>& target, Stream& stream) {
  const Ref<Tensor> from = with_a_stride(source);
  const Ref<Tensor> into = with_a_stride(target);
  const Dims& strides = into->strides();
  const std::span<const int64_t> shown =
      is_dense(*into) ? std::span<const int64_t>() : std::span(strides.begin(), strides.end());
  BP_TRY_ASSIGN(const auto planned, plan_copy(stream.device(), ArgType::of(*from), shown));
  return launch_copy(planned, *from, into, stream);
}

/// Everything from the first to the last element of the target goes to the host device, gets the
/// values there, and comes back.
Status copy_by_host(const Ref<Tensor>& source, const Ref<Tensor>& target, Stream& stream,
                    const Status& refusal) {
  Device& device = stream.device();
  Runtime& runtime = device.runtime();
  Device* const host = runtime.host_device();
  const Status words = refusal.with_prefix(device.name() + " does not write into " +
                                           target->describe() + " with these strides");
  if (host == nullptr || host == &device) return words;
  if (runtime.fallback_mode() == FallbackMode::kDeny) {
    return Status(BP_UNSUPPORTED, words.message() + ", and BACKPLANE_FALLBACK is deny");
  }
  if (const auto op = runtime.registry().copy_op()) {
    runtime.note_fallback(device, *op, refusal.message());
  }
  device.counters().fallback_ops.fetch_add(1, std::memory_order_relaxed);
  const ElementRange range = element_range(target->sizes(), target->strides());
  const Ref<Tensor> region = target->view({range.count}, {1}, range.lowest);
  Stream& host_stream = host->default_stream();
  // What is written over as a whole need not be there, and may have been lost by a failure.
  BP_TRY_ASSIGN(const Ref<Tensor> there,
                target->contiguous()
                    ? Tensor::allocate(*host, target->dtype(), region->sizes(),
                                       MemoryTag::kActivations, host_stream)
                    : copy_to_device(region, *host, host_stream, MemoryTag::kActivations));
  BP_TRY_ASSIGN(const Ref<Tensor> values,
                copy_to_device(source, *host, host_stream, MemoryTag::kActivations));
  const Ref<Tensor> view = there->view(target->sizes(), target->strides(), -range.lowest);
  BP_TRY(copy_by_kernel(expand(*values, *view), view, host_stream));
  return copy_into(there, region, false, stream);
}

/// A copy of its own, where the target may be: the source otherwise.
Result<Ref<Tensor>> bring(const Ref<Tensor>& source, const Tensor& target, Stream& stream) {
  Device& device = stream.device();
  if (source->device() != &device) {
    return copy_to_device(source, device, stream, MemoryTag::kActivations);
  }
  if (!may_overlap(*source, target)) return source;
  return copy_dense(source, stream);
}

}  // namespace

Status assign(const Ref<Tensor>& source, const Ref<Tensor>& target, Stream& stream) {
  BP_TRY(check(*source, *target));
  if (target->element_count() == 0) return {};
  BP_TRY_ASSIGN(const Ref<Tensor> values, bring(source, *target, stream));
  const Status status = copy_by_kernel(expand(*values, *target), target, stream);
  if (status.code() != BP_UNSUPPORTED) return status;
  return copy_by_host(values, target, stream, status);
}

}  // namespace bp
