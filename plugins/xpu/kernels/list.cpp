// SPDX-License-Identifier: Apache-2.0
//
// The kernels of every device, in preference order. What is not here the core decomposes into these
// or runs elsewhere.
#include "kernels/kernel.hpp"

namespace bp::xpu {
namespace {

constexpr const bp_kernel* kKernels[] = {&kReluF32,  &kAddF32, &kMatmulF32,
                                         &kIdentity, &kGather, &kNonZero};

bp_status kernel_list(bp_device* device, bp_kernel_list* out_list) {
  if (device == nullptr || out_list == nullptr) return BP_INVALID_ARGUMENT;
  bp_kernel_list list{};
  list.kernels = kKernels;
  list.kernel_count = std::size(kKernels);
  sdk::write_out(out_list, list);
  return BP_OK;
}

}  // namespace

constinit const bp_kernel_api kKernelApi{
    .struct_size = sizeof(bp_kernel_api), .flags = 0, .kernel_list = kernel_list};

}  // namespace bp::xpu
