// SPDX-License-Identifier: Apache-2.0
//
// See combiner.hpp. A kernel is planned once for each size, since the parts of a schedule have few.
#include "ccl/bridge/combiner.hpp"

#include <cstdlib>
#include <cstring>

#include "core/base/dtype.hpp"
#include "core/dispatch/launch.hpp"
#include "core/op/scalar.hpp"
#include "core/runtime/runtime.hpp"

namespace bp::ccl {
namespace {

constexpr uint64_t kAlignment = 256;  // more is not known of any tensor
constexpr int64_t kOne = 1;           // a size, and a stride

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

/// The numbers that an element consists of, where these are reduced one by one: sums of complex
/// numbers are those of their parts.
struct Numbers {
  uint32_t dtype;
  uint64_t of_each = 1;
};
Numbers numbers_of(uint32_t dtype, Reduction reduction) {
  const bool sums = reduction == Reduction::kSum || reduction == Reduction::kAvg;
  if (sums && dtype == BP_DTYPE_C64) return {BP_DTYPE_F32, 2};
  if (sums && dtype == BP_DTYPE_C128) return {BP_DTYPE_F64, 2};
  return {dtype};
}

/// Without its place.
bp_tensor tensor_of_size(uint32_t dtype, uint64_t bytes, const int64_t* size) {
  bp_tensor tensor{};
  tensor.storage_bytes = bytes;
  tensor.dtype = dtype;
  tensor.rank = 1;
  tensor.sizes = size;
  tensor.strides = &kOne;
  return tensor;
}

}  // namespace

Combiner::Offsets Combiner::offsets_of(const Places& places) {
  const auto offset_of = [](const void* pointer) {
    return reinterpret_cast<uintptr_t>(pointer) % kAlignment;
  };
  return {offset_of(places.a), offset_of(places.b), offset_of(places.y)};
}

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
  const Numbers numbers = numbers_of(dtype, reduction);
  std::unique_ptr<Combiner> combiner(
      new Combiner(device, numbers.dtype, numbers.of_each, reduction));
  // A kernel that is missing is told before any rank waits for this one.
  std::byte* const place = combiner->scratch_.get(kAlignment);
  BP_TRY(combiner->plan({place, place, place}, 1, false));
  if (reduction == Reduction::kAvg) BP_TRY(combiner->plan({place, place, place}, 1, true));
  return combiner;
}

Result<std::shared_ptr<PlannedKernel>> Combiner::plan(const Places& places, uint64_t count,
                                                      bool divides) {
  const Offsets offsets = offsets_of(places);
  for (const Planned& planned : plans_) {
    if (planned.is_for(offsets, count, divides)) return planned.kernel;
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
  plans_.push_back({count, offsets, divides, found->kernel});
  return found->kernel;
}

/// Whether the result may lie in the memory of an argument.
bool Combiner::fits(const PlannedKernel& kernel, const Places& places) {
  if (!kernel.contiguous_inputs().empty()) return false;  // wants more of its arguments' places
  if (places.y == places.a) return (kernel.in_place_inputs() & 1) != 0;
  if (places.y == places.b) return (kernel.in_place_inputs() & 2) != 0;
  return true;
}

void Combiner::make_ready(std::shared_ptr<PlannedKernel> kernel, const Places& places,
                          uint64_t count, bool divides) {
  const uint64_t element = dtype_bits(dtype_) / 8;
  ready_.is_in_a = places.y == places.a;
  ready_.is_in_b = places.y == places.b;
  ready_.size = static_cast<int64_t>(count);
  const auto tensor_of = [&](bool is_one) {
    return tensor_of_size(dtype_, is_one ? element : count * element,
                          is_one ? &kOne : &ready_.size);
  };
  ready_.tensors = {tensor_of(false), tensor_of(divides), tensor_of(false)};
  ready_.planned = {count, offsets_of(places), divides, std::move(kernel)};
}

Status Combiner::launch_ready(const Places& places) {
  ready_.tensors[0].handle = reinterpret_cast<uint64_t>(places.a);
  ready_.tensors[1].handle = reinterpret_cast<uint64_t>(places.b);
  ready_.tensors[2].handle = reinterpret_cast<uint64_t>(places.y);
  const LaunchRequest request{.kernel = *ready_.planned.kernel,
                              .tensors = ready_.tensors.data(),
                              .input_count = 2,
                              .output_count = 1,
                              .keep_alive = ready_.planned.kernel};
  return launch(device_.default_stream(), request).status();
}

/// All three at places that every kernel takes.
Status Combiner::run_aligned(const Places& places, uint64_t count, bool divides) {
  const uint64_t element = dtype_bits(dtype_) / 8;
  const uint64_t bytes = count * element;
  const uint64_t room = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  std::byte* const aligned = scratch_.get(3 * room);
  std::memcpy(aligned, places.a, bytes);
  std::memcpy(aligned + room, places.b, divides ? element : bytes);
  const Places there{aligned, aligned + room, aligned + 2 * room};
  BP_TRY_ASSIGN(auto kernel, plan(there, count, divides));
  if (!kernel->contiguous_inputs().empty()) {
    return Status(BP_UNSUPPORTED, kernel->title() + " takes no contiguous memory as it is");
  }
  make_ready(std::move(kernel), there, count, divides);
  BP_TRY(launch_ready(there));
  std::memcpy(places.y, there.y, bytes);
  return {};
}

Status Combiner::run(const Places& places, uint64_t count, bool divides) {
  if (!ready_.is_for(places, count, divides)) {
    BP_TRY_ASSIGN(auto kernel, plan(places, count, divides));
    if (!fits(*kernel, places)) return run_aligned(places, count, divides);
    make_ready(std::move(kernel), places, count, divides);
  }
  return launch_ready(places);
}

Status Combiner::combine(void* to, const void* from, uint64_t count, bool is_from_first) {
  if (count == 0) return {};
  const Places places = is_from_first ? Places{from, to, to} : Places{to, from, to};
  return run(places, count * numbers_of_each_, false);
}

Status Combiner::divide(void* values, uint64_t count, uint32_t rank_count) {
  std::byte* const place = divisor_.get(kAlignment);
  BP_TRY(write_scalar(dtype_, rank_count, place));
  return run({values, place, values}, count * numbers_of_each_, true);
}

}  // namespace bp::ccl
