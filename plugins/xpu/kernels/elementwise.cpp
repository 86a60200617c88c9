// SPDX-License-Identifier: Apache-2.0
//
// Plans of relu and add.
#include "device.hpp"
#include "kernels/nest.hpp"

namespace bp::xpu {
namespace {

Plan plan_relu(const Device&, const bp_kernel_query& query) {
  expect_inputs(query, 1);
  const auto nest = make_nest<Nest2>(query);
  Step step(program_of("elementwise.cl", {}),
            is_dense(nest, 1) ? "relu_f32_dense" : "relu_f32_strided", nest);
  return {.steps = {step.items(nest.item_count)}};
}

Plan plan_add(const Device&, const bp_kernel_query& query) {
  expect_inputs(query, 2);
  const auto nest = make_nest<Nest2>(query);
  Step step(program_of("elementwise.cl", {}),
            is_dense(nest, 2) ? "add_f32_dense" : "add_f32_strided", nest);
  return {.steps = {step.items(nest.item_count)}};
}

constexpr uint64_t kF32[] = {sdk::dtypes({BP_DTYPE_F32})};

constexpr bp_kernel kKernels[] = {describe<plan_relu>("relu_f32", "relu", kF32),
                                  describe<plan_add>("add_f32", "add", kF32)};

}  // namespace

BP_SDK_KERNELS(elementwise, kKernels);

}  // namespace bp::xpu
