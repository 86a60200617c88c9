// SPDX-License-Identifier: Apache-2.0
//
// cumsum and cumprod, lane by lane. They show a host argument: the axis is an input that the launch
// reads at a host address, before it returns.
#include "backplane/ops/scan.h"

#include "kernels/elements.hpp"
#include "kernels/loops.hpp"

namespace bp::npu {
namespace {

struct Scan {
  uint32_t axis;
  bool exclusive;
  bool reverse;
};

struct Sum {
  static constexpr int kFirst = 0;
  template <class R>
  static R combine(R a, R b) {
    return a + b;
  }
};

struct Product {
  static constexpr int kFirst = 1;
  template <class R>
  static R combine(R a, R b) {
    return a * b;
  }
};

template <class Rule, class T>
void scan_lanes(const Scan& scan, const Tensor& x, const Tensor& y) {
  if (y.element_count() == 0) return;  // lanes of no length may be any number
  const int64_t length = x.sizes[scan.axis];
  for_each_element(lanes_of(x, y, scan.axis), [&](const std::array<int64_t, 2>& at) {
    Running<T> total{Rule::kFirst};
    for (int64_t i = 0; i < length; ++i) {
      const int64_t k = scan.reverse ? length - 1 - i : i;
      const Running<T> next =
          Rule::combine(total, load_running(x.as<T>()[at[0] + k * x.strides[scan.axis]]));
      y.as<T>()[at[1] + k * y.strides[scan.axis]] = store_running<T>(scan.exclusive ? total : next);
      total = next;
    }
  });
}

/// `attributes` are those of cumsum or cumprod.
template <class Rule, class Attributes>
KernelBody body_for(const bp_launch_args& args, const Attributes& attributes) {
  const bp_tensor& axis = args.tensors[1];
  if (axis.dtype != BP_DTYPE_I64) refuse("an axis of dtype ", axis.dtype);
  const auto given = *reinterpret_cast<const int64_t*>(axis.handle + axis.offset_bytes);
  const Scan scan{axis_from_front(given, args.tensors[0].rank), attributes.exclusive != 0,
                  attributes.reverse != 0};
  return [scan](const Launch& launch) {
    const Tensor& x = launch.input(0);
    Numbers::with_type(x.dtype, [&]<class T>(T) { scan_lanes<Rule, T>(scan, x, launch.output()); });
  };
}

KernelBody prepare_sum(const bp_launch_args& args) {
  return body_for<Sum>(args, read_attributes(args.attributes, bp_attrs_cumsum_defaults()));
}
KernelBody prepare_product(const bp_launch_args& args) {
  return body_for<Product>(args, read_attributes(args.attributes, bp_attrs_cumprod_defaults()));
}

constexpr const bp_arg_rule* kRules[] = {&sdk::kAnyStridesRule, &kHostAtLaunchRule};

constexpr bp_kernel kKernels[] = {describe({.name = "cumsum_number",
                                            .op = "cumsum",
                                            .dtypes = Numbers::kDtypes,
                                            .arg_rules = kRules,
                                            .launch = launch<prepare_sum>}),
                                  describe({.name = "cumprod_number",
                                            .op = "cumprod",
                                            .dtypes = Numbers::kDtypes,
                                            .arg_rules = kRules,
                                            .launch = launch<prepare_product>})};

}  // namespace

BP_SDK_KERNELS(scan, kKernels);

}  // namespace bp::npu
