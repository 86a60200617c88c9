// SPDX-License-Identifier: Apache-2.0
//
// Elements that updates meet. See scatter.hpp.
#include "scatter.hpp"

#include <cstring>
#include <string_view>

#include "element.hpp"

namespace bp::cpu {
namespace {

/// What an element of type T is kept in, and what it becomes.
template <class T>
struct Sum {
  using Target = Compute<T>;
  static Target of(Target held, T update) {
    using W = Wrapping<T>;
    return static_cast<Target>(static_cast<W>(held) + static_cast<W>(load(update)));
  }
};

template <class T>
struct Product {
  using Target = Compute<T>;
  static Target of(Target held, T update) {
    using W = Wrapping<T>;
    return static_cast<Target>(static_cast<W>(held) * static_cast<W>(load(update)));
  }
};

template <class T>
struct Largest {
  using Target = T;
  static T of(T held, T update) { return store<T>(larger(load(held), load(update))); }
};

template <class T>
struct Smallest {
  using Target = T;
  static T of(T held, T update) { return store<T>(smaller(load(held), load(update))); }
};

template <class T>
struct Replaced {
  using Target = T;
  static T of(T, T update) { return update; }
};

template <class T, class Rule>
struct ToPlaces {
  static void run(void* target, const int64_t* places, const void* updates, int64_t stride,
                  int64_t count) noexcept {
    auto* const to = static_cast<typename Rule::Target*>(target);
    const T* const from = static_cast<const T*>(updates);
    for (int64_t i = 0; i < count; ++i) to[places[i]] = Rule::of(to[places[i]], from[i * stride]);
  }
};

template <class T, class Rule>
struct ToSlice {
  static void run(void* target, const void* updates, int64_t count) noexcept {
    auto* const to = static_cast<typename Rule::Target*>(target);
    const T* const from = static_cast<const T*>(updates);
    for (int64_t i = 0; i < count; ++i) to[i] = Rule::of(to[i], from[i]);
  }
};

/// Both loops of one rule, by the type of the elements.
template <template <class> class Rule>
struct With {
  template <class T>
  using Places = ToPlaces<T, Rule<T>>;
  template <class T>
  using Slice = ToSlice<T, Rule<T>>;
};

template <class T>
ScatterFunctions replacing() {
  return {&ToPlaces<T, Replaced<T>>::run, &ToSlice<T, Replaced<T>>::run};
}

ScatterFunctions replacing(uint32_t dtype) {
  switch (sdk::dtype_bytes(dtype)) {
    case 1:
      return replacing<uint8_t>();
    case 2:
      return replacing<uint16_t>();
    case 4:
      return replacing<uint32_t>();
    default:
      return replacing<uint64_t>();
  }
}

constexpr auto kSumPlaces = wrapping_table<With<Sum>::template Places>();
constexpr auto kSumSlice = wrapping_table<With<Sum>::template Slice>();
constexpr auto kProductPlaces = wrapping_table<With<Product>::template Places>();
constexpr auto kProductSlice = wrapping_table<With<Product>::template Slice>();
constexpr auto kLargestPlaces = number_table<With<Largest>::template Places>();
constexpr auto kLargestSlice = number_table<With<Largest>::template Slice>();
constexpr auto kSmallestPlaces = number_table<With<Smallest>::template Places>();
constexpr auto kSmallestSlice = number_table<With<Smallest>::template Slice>();

ScatterFunctions functions_of(uint32_t dtype, std::string_view reduction) {
  // bool is bytes of 0 and 1: "or" is their maximum, "and" their minimum.
  const bool is_bool = dtype == BP_DTYPE_BOOL;
  const uint32_t as = is_bool ? uint32_t{BP_DTYPE_U8} : dtype;
  if (reduction == "none") return replacing(dtype);
  if (reduction == "max" || (is_bool && reduction == "add")) {
    return {kLargestPlaces[as], kLargestSlice[as]};
  }
  if (reduction == "min" || (is_bool && reduction == "mul")) {
    return {kSmallestPlaces[as], kSmallestSlice[as]};
  }
  if (reduction == "add") return {kSumPlaces[as], kSumSlice[as]};
  if (reduction == "mul") return {kProductPlaces[as], kProductSlice[as]};
  sdk::refuse("scatter: reduction '", reduction, "'");
}

template <class T>
void widen_elements(float* to, const void* from, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) to[i] = load(static_cast<const T*>(from)[i]);
}

template <class T>
void narrow_elements(void* to, const float* from, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) static_cast<T*>(to)[i] = store<T>(from[i]);
}

}  // namespace

void plan_scatter(const bp_kernel_query& query, bp_str reduction, ScatterPlan* plan,
                  bp_plan_info* info) {
  const bp_arg_info& x = arg_info(query, 0);
  const std::string_view name(reduction.ptr, reduction.len);
  plan->functions = functions_of(x.dtype, name);
  const bool is_half = x.dtype == BP_DTYPE_F16 || x.dtype == BP_DTYPE_BF16;
  plan->widened = is_half && (name == "add" || name == "mul");
  plan->target_bytes =
      static_cast<int64_t>(plan->widened ? sizeof(float) : sdk::dtype_bytes(x.dtype));
  info->flags = BP_PLAN_CAN_FAULT_BIT;
  if (!plan->widened) return;
  int64_t bytes = plan->target_bytes;
  for (const int64_t size : sizes_of(x)) bytes = sdk::saturating_product({bytes, size});
  info->workspace_bytes = static_cast<uint64_t>(bytes);
  info->workspace_alignment_bytes = alignof(float);
}

void* begin_scatter(const bp_launch_args& args, const ScatterPlan& plan) {
  const bp_tensor& x = input_of(args, 0);
  const int64_t count = sdk::element_count(x);
  if (count == 0) return nullptr;
  const std::byte* const from = address_of(x);
  Workers& workers = args.device->workers;
  if (!plan.widened) {
    std::byte* const y = address_of(output_of(args));
    if (y == from) return y;  // in place
    const int64_t bytes = plan.target_bytes;
    workers.for_ranges(count, 1, [=](int64_t begin, int64_t end) noexcept {
      std::memcpy(y + begin * bytes, from + begin * bytes,
                  static_cast<size_t>((end - begin) * bytes));
    });
    return y;
  }
  float* const target = address_of<float>(args.workspace);
  const auto widen = x.dtype == BP_DTYPE_F16 ? widen_elements<F16> : widen_elements<Bf16>;
  workers.for_ranges(count, 2,
                     [=](int64_t begin, int64_t end) noexcept { widen(target, from, begin, end); });
  return target;
}

void end_scatter(const bp_launch_args& args, const ScatterPlan& plan) {
  if (!plan.widened) return;
  const bp_tensor& y = output_of(args);
  std::byte* const to = address_of(y);
  const float* const target = address_of<float>(args.workspace);
  const auto narrow = y.dtype == BP_DTYPE_F16 ? narrow_elements<F16> : narrow_elements<Bf16>;
  args.device->workers.for_ranges(
      sdk::element_count(y), 4,
      [=](int64_t begin, int64_t end) noexcept { narrow(to, target, begin, end); });
}

}  // namespace bp::cpu
