// SPDX-License-Identifier: Apache-2.0
//
// identity: a copy from any strides to any others. The core also calls it to make a strided tensor
// contiguous for a kernel that needs that, and to write into a view.
#include <cstring>

#include "kernels/launch.hpp"
#include "kernels/loops.hpp"

namespace bp::npu {
namespace {

constexpr uint64_t kDtypes[] = {kWholeByteDtypes};

void identity(const Launch& launch) {
  const Tensor& x = launch.input(0);
  const Tensor& y = launch.output();
  const auto bytes = static_cast<int64_t>(sdk::dtype_bytes(y.dtype));
  for_each_row(broadcast_nest(y, x), [&](const auto& offsets, int64_t count, const auto& steps) {
    std::byte* const out = y.data + offsets[0] * bytes;
    const std::byte* const in = x.data + offsets[1] * bytes;
    if (steps[0] == 1 && steps[1] == 1) {
      std::memcpy(out, in, static_cast<size_t>(count * bytes));
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(out + i * steps[0] * bytes, in + i * steps[1] * bytes,
                  static_cast<size_t>(bytes));
    }
  });
}

constexpr bp_kernel kKernels[] = {
    describe({.name = "identity_any",
              .op = "identity",
              .dtypes = kDtypes,
              .arg_rules = sdk::kAnyStrides,
              .flags = BP_KERNEL_DETERMINISTIC_BIT | BP_KERNEL_STRIDED_OUTPUTS_BIT,
              .launch = launch<identity>})};

}  // namespace

BP_SDK_KERNELS(identity, kKernels);

}  // namespace bp::npu
