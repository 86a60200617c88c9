// SPDX-License-Identifier: Apache-2.0
//
// searchsorted: a binary search for each value.
#include "backplane/ops/sorting.h"
#include "element.hpp"
#include "kernel_support.hpp"

namespace bp::cpu {
namespace {

constexpr int64_t kStepCost = 8;  // of one comparison, whose outcome no processor foresees

/// NaN is above every number.
template <class C>
bool is_below(C a, C b) {
  return a < b || (b != b && a == a);
}

/// How many of `sorted` stand before the value.
template <class T>
int64_t place_of(Compute<T> value, const T* sorted, int64_t count, bool right) {
  int64_t first = 0;
  while (count > 0) {
    const int64_t half = count / 2;
    const Compute<T> middle = load(sorted[first + half]);
    const bool is_before = right ? !is_below(value, middle) : is_below(middle, value);
    first = is_before ? first + half + 1 : first;
    count = is_before ? count - half - 1 : half;
  }
  return first;
}

struct Search {
  const void* sorted;
  const void* values;
  int64_t* y;
  int64_t sorted_count;
  bool right;
};

template <class T>
struct SearchSorted {
  static void run(const Search& search, int64_t begin, int64_t end) {
    const auto* const sorted = static_cast<const T*>(search.sorted);
    const auto* const values = static_cast<const T*>(search.values);
    for (int64_t i = begin; i < end; ++i) {
      search.y[i] = place_of(load(values[i]), sorted, search.sorted_count, search.right);
    }
  }
};

constexpr auto kTable = number_table<SearchSorted>();

bp_status launch(const bp_launch_args& args) {
  const auto attrs = read_attributes(args.attributes, bp_attrs_searchsorted_defaults());
  const bp_tensor& sorted = input_of(args, 0);
  const bp_tensor& values = input_of(args, 1);
  const Search search{.sorted = address_of(sorted),
                      .values = address_of(values),
                      .y = address_of<int64_t>(output_of(args)),
                      .sorted_count = sorted.sizes[0],
                      .right = attrs.right != 0};
  int64_t steps = 1;
  for (int64_t left = search.sorted_count; left > 1; left /= 2) ++steps;
  const auto run = kTable[sorted.dtype];
  args.device->workers.for_ranges(
      static_cast<int64_t>(sdk::element_count(values)), steps * kStepCost,
      [&](int64_t begin, int64_t end) noexcept { run(search, begin, end); });
  return BP_OK;
}

constexpr uint64_t kMasks[] = {kNumberTypes};

constexpr bp_kernel kKernels[] = {sdk::describe({.name = "searchsorted_binary",
                                                 .op = "searchsorted",
                                                 .dtypes = kMasks,
                                                 .launch = launch_slot<launch>})};

}  // namespace

BP_SDK_KERNELS(searchsorted, kKernels);

}  // namespace bp::cpu
