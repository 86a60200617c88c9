// SPDX-License-Identifier: Apache-2.0
//
// See combiner.hpp. A kernel is planned once for each size, since the parts of a schedule have few.
#include "ccl/bridge/combiner.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "core/base/dtype.hpp"
#include "core/dispatch/launch.hpp"
#include "core/op/scalar.hpp"
#include "core/runtime/runtime.hpp"

namespace bp::ccl {
namespace {

constexpr uint64_t kAlignment = 256;  // more is not known of any tensor

std::string_view op_name(Reduction reduction, bool divides) {
  if (divides) return "div";
  switch (reduction) {
    case Reduction::kProd:
      return "mul";
    case Reduction::kMin:
      return "min";
    case Reduction::kMax:
      return "max";
    case Reduction::kSum:
    case Reduction::kAvg:
      break;
  }
  return "add";
}

uint64_t offset_of(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % kAlignment;
}

bp_tensor tensor_at(const void* data, uint32_t dtype, uint64_t bytes, const int64_t* size) {
  static constexpr int64_t kStride = 1;
  bp_tensor tensor{};
  tensor.handle = reinterpret_cast<uint64_t>(data);
  tensor.storage_bytes = bytes;
  tensor.dtype = dtype;
  tensor.rank = 1;
  tensor.sizes = size;
  tensor.strides = &kStride;
  return tensor;
}

}  // namespace

void Combiner::Aligned::Free::operator()(std::byte* bytes) const { std::free(bytes); }

std::byte* Combiner::Aligned::get(uint64_t bytes) {
  if (bytes > bytes_) {
    const uint64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    data_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)));
    bytes_ = data_ != nullptr ? rounded : 0;
    if (data_ == nullptr) throw std::bad_alloc();
  }
  return data_.get();
}

Result<std::unique_ptr<Combiner>> Combiner::make(Device& device, uint32_t dtype,
                                                 Reduction reduction) {
  std::unique_ptr<Combiner> combiner(new Combiner(device, dtype, reduction));
  // A kernel that is missing is told before any rank waits for this one.
  const std::byte* const place = combiner->scratch_.get(kAlignment);
  BP_TRY(combiner->plan(place, place, place, 1, false));
  if (reduction == Reduction::kAvg) BP_TRY(combiner->plan(place, place, place, 1, true));
  return combiner;
}

Result<std::shared_ptr<PlannedKernel>> Combiner::plan(const void* a, const void* b, const void* y,
                                                      uint64_t count, bool divides) {
  const std::array<uint64_t, 3> offsets = {offset_of(a), offset_of(b), offset_of(y)};
  for (const Planned& planned : plans_) {
    if (planned.count == count && planned.divides == divides &&
        std::equal(offsets.begin(), offsets.end(), planned.offsets)) {
      return planned.kernel;
    }
  }
  const std::string_view name = op_name(reduction_, divides);
  const auto op = device_.runtime().registry().find(name);
  if (!op) {
    return Status(BP_UNSUPPORTED, "there is no operator " + std::string(name) + " to reduce with");
  }
  const Dims all{static_cast<int64_t>(count)};
  const Dims one{1};
  std::array<ArgType, 2> inputs;
  inputs[0] = {.dtype = dtype_, .sizes = all, .strides = one, .offset_bytes = offsets[0]};
  inputs[1] = {
      .dtype = dtype_, .sizes = divides ? one : all, .strides = one, .offset_bytes = offsets[1]};
  const auto refuse = [&](const std::string& why) {
    return Status(BP_UNSUPPORTED, device_.name() + " has no kernel that can reduce " +
                                      std::string(dtype_name(dtype_)) + " by operator " +
                                      std::string(name) + ": " + why);
  };
  const auto route = Dispatcher::of(device_).resolve(*op, inputs, nullptr);
  // The operator itself does not take the dtype.
  if (route.status().code() == BP_INVALID_ARGUMENT) return refuse(route.status().message());
  BP_TRY(route.status());
  const auto& found = *route;
  if (found->kind != RouteKind::kNative || !found->kernel->is_plain()) return refuse(found->reason);
  if (plans_.size() >= kMostPlans) plans_.erase(plans_.begin());
  plans_.push_back({count, {offsets[0], offsets[1], offsets[2]}, divides, found->kernel});
  return found->kernel;
}

/// Whether the result may lie in the memory of an argument.
bool Combiner::fits(const PlannedKernel& kernel, const void* a, const void* b, const void* y) {
  if (!kernel.contiguous_inputs().empty()) return false;  // wants more of its arguments' places
  if (y == a) return (kernel.in_place_inputs() & 1) != 0;
  if (y == b) return (kernel.in_place_inputs() & 2) != 0;
  return true;
}

Status Combiner::run(const void* a, const void* b, void* y, uint64_t count, bool divides) {
  const uint64_t bytes = count * dtype_bits(dtype_) / 8;
  BP_TRY_ASSIGN(auto kernel, plan(a, b, y, count, divides));
  void* result = y;
  std::byte* aligned = nullptr;
  if (!fits(*kernel, a, b, y)) {
    // All three at places that every kernel takes.
    const uint64_t room = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    const uint64_t b_bytes = divides ? dtype_bits(dtype_) / 8 : bytes;
    aligned = scratch_.get(3 * room);
    std::memcpy(aligned, a, bytes);
    std::memcpy(aligned + room, b, b_bytes);
    a = aligned;
    b = aligned + room;
    result = aligned + 2 * room;
    BP_TRY_ASSIGN(kernel, plan(a, b, result, count, divides));
    if (!kernel->contiguous_inputs().empty()) {
      return Status(BP_UNSUPPORTED, kernel->title() + " takes no contiguous memory as it is");
    }
  }
  const auto all = static_cast<int64_t>(count);
  constexpr int64_t kOne = 1;
  const std::array<bp_tensor, 3> tensors = {
      tensor_at(a, dtype_, bytes, &all),
      tensor_at(b, dtype_, divides ? dtype_bits(dtype_) / 8 : bytes, divides ? &kOne : &all),
      tensor_at(result, dtype_, bytes, &all)};
  const LaunchRequest request{.kernel = *kernel,
                              .tensors = tensors.data(),
                              .input_count = 2,
                              .output_count = 1,
                              .keep_alive = std::move(kernel)};
  BP_TRY(launch(device_.default_stream(), request));
  if (aligned != nullptr) std::memcpy(y, result, bytes);
  return {};
}

Status Combiner::combine(void* to, const void* from, uint64_t count, bool is_from_first) {
  if (count == 0) return {};
  return is_from_first ? run(from, to, to, count, false) : run(to, from, to, count, false);
}

Status Combiner::finish(void* values, uint64_t count, uint32_t rank_count) {
  if (reduction_ != Reduction::kAvg || count == 0 || rank_count == 1) return {};
  std::byte* const place = divisor_.get(kAlignment);
  BP_TRY(write_scalar(dtype_, rank_count, place));
  return run(values, place, values, count, true);
}

}  // namespace bp::ccl
