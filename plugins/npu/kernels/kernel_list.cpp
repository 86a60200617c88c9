// SPDX-License-Identifier: Apache-2.0
//
// Every kernel file of this folder, one line each. There is no max_pool: the core falls back to the
// host device for it, so that this path is always in use.
#include "kernels/kernel_list.hpp"

#include <algorithm>

#include "device.hpp"
#include "kernels/launch.hpp"

#define BP_NPU_KERNEL_FILES(LINE) \
  LINE(binary)                    \
  LINE(cast)                      \
  LINE(conv)                      \
  LINE(gather)                    \
  LINE(identity)                  \
  LINE(matmul)                    \
  LINE(non_zero)                  \
  LINE(reduce)                    \
  LINE(unary)

namespace bp::npu {

#define BP_NPU_DECLARE(file) KernelSpan file##_kernels();
BP_NPU_KERNEL_FILES(BP_NPU_DECLARE)
#undef BP_NPU_DECLARE

namespace {

std::vector<const bp_kernel*> all_kernels() {
  std::vector<const bp_kernel*> all;
  const auto add = [&](KernelSpan kernels) {
    for (const bp_kernel& kernel : kernels) all.push_back(&kernel);
  };
#define BP_NPU_ADD(file) add(file##_kernels());
  BP_NPU_KERNEL_FILES(BP_NPU_ADD)
#undef BP_NPU_ADD
  return all;
}

bp_status kernel_list(bp_device* device, bp_kernel_list* out_list) {
  return slot("kernel_list", device, {out_list}, [&] {
    const std::vector<const bp_kernel*>& kernels = device->options().kernels;
    const bp_kernel_list list = {.struct_size = sizeof(bp_kernel_list),
                                 .flags = 0,
                                 .kernels = kernels.data(),
                                 .kernel_count = kernels.size()};
    sdk::write_out(out_list, list);
  });
}

}  // namespace

std::vector<const bp_kernel*> kernels_without(std::string_view operators) {
  std::vector<const bp_kernel*> kernels = all_kernels();
  while (!operators.empty()) {
    const size_t comma = std::min(operators.find(','), operators.size());
    const std::string_view name = operators.substr(0, comma);
    operators.remove_prefix(std::min(comma + 1, operators.size()));
    const auto is_named = [&](const bp_kernel* kernel) { return sdk::view(kernel->op) == name; };
    if (std::erase_if(kernels, is_named) == 0) {
      refuse("option kernels: the device has no kernel for '", name, "', or it is named twice");
    }
  }
  return kernels;
}

constinit const bp_kernel_api kKernelApi = {
    .struct_size = sizeof(bp_kernel_api),
    .flags = 0,
    .kernel_list = kernel_list,
};

}  // namespace bp::npu
