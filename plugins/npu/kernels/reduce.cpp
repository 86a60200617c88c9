// SPDX-License-Identifier: Apache-2.0
//
// reduce_sum and reduce_max over any axes. The output is seen with the input's rank and stride 0
// along what is reduced; a walk over the input in row-major order then combines each element into
// its place, so every sum has one order.
#include <limits>

#include "backplane/ops/reduction.h"
#include "kernels/elements.hpp"
#include "kernels/loops.hpp"

namespace bp::npu {
namespace {

using Plain = TypeList<float, int32_t, int64_t>;

struct Sum {
  template <class T>
  static T initial() {
    return 0;
  }
  template <class T>
  static T combine(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using Unsigned = std::make_unsigned_t<T>;  // wraps
      return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
    } else {
      return a + b;
    }
  }
};

struct Max {
  template <class T>
  static T initial() {
    using Limits = std::numeric_limits<T>;
    return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  }
  template <class T>
  static T combine(T a, T b) {
    return a > b || a != a ? a : b;  // NaN if either is
  }
};

/// Bit d: dimension d is reduced.
using AxisSet = uint32_t;

AxisSet read_axes(bp_i64_span axes, uint32_t rank) {
  AxisSet set = axes.count == 0 ? ~AxisSet{0} : 0;
  for (const int64_t axis : std::span(axes.ptr, axes.count)) {
    const int64_t dimension = axis < 0 ? axis + rank : axis;
    if (dimension < 0 || dimension >= rank) refuse("axis ", axis, " of a tensor of rank ", rank);
    set |= AxisSet{1} << dimension;
  }
  return set;
}

/// The strides of the output along the dimensions of x.
Dims output_strides(const Tensor& x, AxisSet reduced) {
  Dims strides{};
  int64_t stride = 1;
  for (uint32_t d = x.rank; d-- > 0;) {
    if ((reduced >> d & 1) != 0) continue;
    strides[d] = stride;
    stride *= x.sizes[d];
  }
  return strides;
}

template <class Reduction, class T>
void reduce(const Tensor& x, const Tensor& y, AxisSet reduced) {
  std::fill_n(y.as<T>(), y.element_count(), Reduction::template initial<T>());
  const Nest<2> nest{x.rank, x.sizes, {output_strides(x, reduced), x.strides}};
  for_each_row(nest, [&](const auto& offsets, int64_t count, const auto& steps) {
    T* const out = y.as<T>() + offsets[0];
    const T* const in = x.as<T>() + offsets[1];
    for (int64_t i = 0; i < count; ++i) {
      T& place = out[i * steps[0]];
      place = Reduction::template combine<T>(place, in[i * steps[1]]);
    }
  });
}

template <class Reduction>
KernelBody body_for(bp_i64_span axes, uint32_t rank) {
  return [reduced = read_axes(axes, rank)](const Launch& launch) {
    const Tensor& x = launch.input(0);
    Plain::with_type(x.dtype,
                     [&]<class T>(T) { reduce<Reduction, T>(x, launch.output(), reduced); });
  };
}

KernelBody prepare_sum(const bp_launch_args& args) {
  const auto attributes = read_attributes(args.attributes, bp_attrs_reduce_sum_defaults());
  return body_for<Sum>(attributes.axes, args.tensors[0].rank);
}

KernelBody prepare_max(const bp_launch_args& args) {
  const auto attributes = read_attributes(args.attributes, bp_attrs_reduce_max_defaults());
  return body_for<Max>(attributes.axes, args.tensors[0].rank);
}

constexpr bp_kernel kKernels[] = {sdk::describe({.name = "reduce_sum_number",
                                                 .op = "reduce_sum",
                                                 .dtypes = Plain::kDtypes,
                                                 .arg_rules = sdk::kAnyStrides,
                                                 .launch = launch<prepare_sum>}),
                                  sdk::describe({.name = "reduce_max_number",
                                                 .op = "reduce_max",
                                                 .dtypes = Plain::kDtypes,
                                                 .arg_rules = sdk::kAnyStrides,
                                                 .launch = launch<prepare_max>})};

}  // namespace

BP_SDK_KERNELS(reduce, kKernels);

}  // namespace bp::npu
