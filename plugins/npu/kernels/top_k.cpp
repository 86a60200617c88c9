// SPDX-License-Identifier: Apache-2.0
//
// top_k: positions along the axis are sorted, lane by lane. How many are wanted is the size of the
// output.
#include <algorithm>
#include <numeric>
#include <vector>

#include "backplane/ops/sorting.h"
#include "kernels/elements.hpp"
#include "kernels/loops.hpp"

namespace bp::npu {
namespace {

struct TopK {
  uint32_t axis;
  bool largest;
};

/// A NaN is larger than every number.
template <class C>
bool is_larger(C a, C b) {
  return a > b || (a != a && b == b);
}

template <class T>
void choose(const TopK& top_k, const Launch& launch) {
  const Tensor& x = launch.input(0);
  const Tensor& y = launch.output(0);
  const Tensor& indices = launch.output(1);
  const int64_t stride = x.strides[top_k.axis];
  const int64_t count = y.sizes[top_k.axis];
  if (count > x.sizes[top_k.axis]) refuse("top_k: ", count, " of ", x.sizes[top_k.axis]);
  if (y.element_count() == 0) return;  // a lane of none may claim any length
  std::vector<int64_t> order(static_cast<size_t>(x.sizes[top_k.axis]));
  for_each_element(lanes_of(x, y, top_k.axis), [&](const std::array<int64_t, 2>& at) {
    const T* const lane = x.as<T>() + at[0];
    const auto value = [&](int64_t k) { return load(lane[k * stride]); };
    std::iota(order.begin(), order.end(), int64_t{0});
    const auto is_before = [&](int64_t a, int64_t b) {
      if (is_larger(value(a), value(b))) return top_k.largest;
      if (is_larger(value(b), value(a))) return !top_k.largest;
      return a < b;
    };
    std::nth_element(order.begin(), order.begin() + count, order.end(), is_before);
    std::sort(order.begin(), order.begin() + count, is_before);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t k = order[static_cast<size_t>(i)];
      const int64_t to = at[1] + i * y.strides[top_k.axis];
      y.as<T>()[to] = lane[k * stride];
      indices.as<int64_t>()[to] = k;
    }
  });
}

KernelBody prepare(const bp_launch_args& args) {
  const auto attributes = read_attributes(args.attributes, bp_attrs_top_k_defaults());
  const TopK top_k{axis_from_front(attributes.axis, args.tensors[0].rank), attributes.largest != 0};
  return [top_k](const Launch& launch) {
    Numbers::with_type(launch.input(0).dtype, [&]<class T>(T) { choose<T>(top_k, launch); });
  };
}

constexpr const bp_arg_rule* kRules[] = {&sdk::kAnyStridesRule, &kHostAtLaunchRule};

constexpr bp_kernel kKernels[] = {describe({.name = "top_k_number",
                                            .op = "top_k",
                                            .dtypes = Numbers::kDtypes,
                                            .arg_rules = kRules,
                                            .launch = launch<prepare>})};

}  // namespace

BP_SDK_KERNELS(top_k, kKernels);

}  // namespace bp::npu
