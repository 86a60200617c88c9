// SPDX-License-Identifier: Apache-2.0
//
// argmax and argmin: lanes along one axis are looked through one after the other. compress: the
// slices whose condition is true; how many is known only when it has run.
#include <algorithm>
#include <cstring>

#include "backplane/ops/indexing.h"
#include "backplane/ops/sorting.h"
#include "kernels/elements.hpp"
#include "kernels/loops.hpp"

namespace bp::npu {
namespace {

/// A NaN comes before every number.
template <class C>
bool is_better(C a, C b, bool largest) {
  if (a != a || b != b) return a != a && b == b;
  return largest ? a > b : a < b;
}

template <class T, class Attributes>
void find_best(const Launch& launch, const Attributes& attributes, bool largest) {
  const Tensor& x = launch.input(0);
  const Tensor& y = launch.output();
  const uint32_t axis = axis_from_front(attributes.axis, x.rank);
  const bool last = attributes.select_last_index != 0;
  if (x.sizes[axis] == 0) refuse("an axis without elements");
  for_each_element(lanes_of(x, y, axis), [&](const std::array<int64_t, 2>& at) {
    const auto value = [&](int64_t k) { return load(x.as<T>()[at[0] + k * x.strides[axis]]); };
    int64_t best = 0;
    for (int64_t k = 1; k < x.sizes[axis]; ++k) {
      const bool wins = is_better(value(k), value(best), largest);
      if (wins || (last && !is_better(value(best), value(k), largest))) best = k;
    }
    y.as<int64_t>()[at[1]] = best;
  });
}

void compress(const Launch& launch, uint32_t axis) {
  const Tensor& x = launch.input(0);
  const Tensor& condition = launch.input(1);
  const Tensor& y = launch.output();
  const auto bytes = static_cast<int64_t>(sdk::dtype_bytes(x.dtype));
  int64_t* const extents = launch.out_extents();
  std::copy_n(y.sizes.begin(), y.rank, extents);
  extents[axis] = 0;
  for (int64_t k = 0; k < std::min(condition.sizes[0], x.sizes[axis]); ++k) {
    if (condition.as<uint8_t>()[k * condition.strides[0]] == 0) continue;
    const int64_t to = extents[axis]++ * y.strides[axis];
    for_each_element(lanes_of(x, y, axis), [&](const std::array<int64_t, 2>& at) {
      std::memcpy(y.data + (at[1] + to) * bytes, x.data + (at[0] + k * x.strides[axis]) * bytes,
                  static_cast<size_t>(bytes));
    });
  }
}

KernelBody prepare_argmax(const bp_launch_args& args) {
  return [attributes =
              read_attributes(args.attributes, bp_attrs_argmax_defaults())](const Launch& launch) {
    Numbers::with_type(launch.input(0).dtype,
                       [&]<class T>(T) { find_best<T>(launch, attributes, true); });
  };
}

KernelBody prepare_argmin(const bp_launch_args& args) {
  return [attributes =
              read_attributes(args.attributes, bp_attrs_argmin_defaults())](const Launch& launch) {
    Numbers::with_type(launch.input(0).dtype,
                       [&]<class T>(T) { find_best<T>(launch, attributes, false); });
  };
}

KernelBody prepare_compress(const bp_launch_args& args) {
  const auto attributes = read_attributes(args.attributes, bp_attrs_compress_defaults());
  return [axis = axis_from_front(attributes.axis, args.tensors[0].rank)](const Launch& launch) {
    compress(launch, axis);
  };
}

constexpr uint64_t kWholeBytes[] = {kWholeByteDtypes};

constexpr bp_kernel kKernels[] = {describe({.name = "argmax_number",
                                            .op = "argmax",
                                            .dtypes = Numbers::kDtypes,
                                            .arg_rules = sdk::kAnyStrides,
                                            .launch = launch<prepare_argmax>}),
                                  describe({.name = "argmin_number",
                                            .op = "argmin",
                                            .dtypes = Numbers::kDtypes,
                                            .arg_rules = sdk::kAnyStrides,
                                            .launch = launch<prepare_argmin>}),
                                  describe({.name = "compress_any",
                                            .op = "compress",
                                            .dtypes = kWholeBytes,
                                            .arg_rules = sdk::kAnyStrides,
                                            .launch = launch<prepare_compress>})};

}  // namespace

BP_SDK_KERNELS(positions, kKernels);

}  // namespace bp::npu
