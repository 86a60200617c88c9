// SPDX-License-Identifier: Apache-2.0
//
// The kernels of this device, for the kernel table and for the option that switches some off.
#ifndef BACKPLANE_PLUGINS_NPU_KERNELS_KERNEL_LIST_HPP
#define BACKPLANE_PLUGINS_NPU_KERNELS_KERNEL_LIST_HPP

#include <string_view>
#include <vector>

#include "backplane/kernel.h"

namespace bp::npu {

/// All kernels but those of the named operators, a comma-separated list. Throws Failure
/// BP_INVALID_ARGUMENT with the name of an operator that has no kernel here.
std::vector<const bp_kernel*> kernels_without(std::string_view operators);

extern const bp_kernel_api kKernelApi;

}  // namespace bp::npu

#endif
