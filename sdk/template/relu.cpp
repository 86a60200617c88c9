// SPDX-License-Identifier: Apache-2.0
//
// One kernel, one file: its name stands in KERNELS (CMakeLists.txt) and nowhere else.
#include "device.hpp"

namespace {

// Inputs are contiguous, since the descriptor has no arg_rules.
bp_status launch(const bp_launch_args& args) {
  const bp_tensor& x = args.tensors[0];
  const bp_tensor& y = args.tensors[1];
  const int64_t count = sdk::element_count(y);
  if (count == 0) return BP_OK;
  const uint64_t bytes = static_cast<uint64_t>(count) * sizeof(float);
  const auto* in = reinterpret_cast<float*>(args.device->at({x.handle, x.offset_bytes}, bytes));
  auto* out = reinterpret_cast<float*>(args.device->at({y.handle, y.offset_bytes}, bytes));
  for (int64_t i = 0; i < count; ++i) out[i] = in[i] < 0 ? 0 : in[i];
  return BP_OK;
}

constexpr uint64_t kFloat32[] = {sdk::dtypes({BP_DTYPE_F32})};  // one set per type variable
constexpr bp_kernel kKernels[] = {sdk::describe(
    {.name = "relu_f32", .op = "relu", .dtypes = kFloat32, .launch = sdk::launch_slot<launch>})};

}  // namespace

BP_SDK_KERNELS(relu, kKernels);
