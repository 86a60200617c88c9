// SPDX-License-Identifier: Apache-2.0
//
// The kernels of the plugin cpu that the driver needs, so that the simulated generations of it
// leave out the files of all the others.
#include "kernels/kernel_list.hpp"

namespace bp::cpu {
namespace {

constexpr const bp_kernel* kKernels[] = {&kRelu, &kAdd, &kSoftmax};

}  // namespace

std::span<const bp_kernel* const> all_kernels() { return kKernels; }

}  // namespace bp::cpu
