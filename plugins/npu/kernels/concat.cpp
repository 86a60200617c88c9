// SPDX-License-Identifier: Apache-2.0
//
// concat, which shows an operator of any number of inputs: the last rule of a descriptor stands for
// all further ones.
#include <cstring>

#include "backplane/ops/movement.h"
#include "kernels/launch.hpp"
#include "kernels/loops.hpp"

namespace bp::npu {
namespace {

void concat(const Launch& launch, int64_t given) {
  const Tensor& y = launch.output();
  const uint32_t dim = axis_from_front(given, y.rank);
  const auto bytes = static_cast<int64_t>(sdk::dtype_bytes(y.dtype));
  int64_t start = 0;
  for (size_t i = 0; i < launch.input_count(); ++i) {
    const Tensor& x = launch.input(i);
    const Nest<2> nest{x.rank, x.sizes, {y.strides, x.strides}};
    std::byte* const part = y.data + start * y.strides[dim] * bytes;
    for_each_element(nest, [&](const std::array<int64_t, 2>& offsets) {
      std::memcpy(part + offsets[0] * bytes, x.data + offsets[1] * bytes,
                  static_cast<size_t>(bytes));
    });
    start += x.sizes[dim];
  }
}

KernelBody prepare(const bp_launch_args& args) {
  const int64_t axis = read_attributes(args.attributes, bp_attrs_concat_defaults()).axis;
  return [axis](const Launch& launch) { concat(launch, axis); };
}

constexpr uint64_t kDtypes[] = {kWholeByteDtypes};

constexpr bp_kernel kKernels[] = {describe({.name = "concat_any",
                                            .op = "concat",
                                            .dtypes = kDtypes,
                                            .arg_rules = sdk::kAnyStrides,
                                            .launch = launch<prepare>})};

}  // namespace

BP_SDK_KERNELS(concat, kKernels);

}  // namespace bp::npu
