// SPDX-License-Identifier: Apache-2.0
//
// Plans of identity, with which the core makes tensors contiguous.
#include "device.hpp"
#include "kernels/dtypes.hpp"
#include "kernels/nest.hpp"

namespace bp::xpu {
namespace {

Plan plan_identity(const Device&, const bp_kernel_query& query) {
  expect_inputs(query, 1);
  const auto nest = make_nest<Nest1>(query);
  Step step(program_of("copy.cl", define("BP_ELEMENT", element_type(argument(query, 0).dtype))),
            is_dense(nest, 1) ? "copy_dense" : "copy_strided", nest);
  return {.steps = {step.items(nest.item_count)}};
}

constexpr uint64_t kDtypes[] = {kUpTo8Bytes};

constexpr bp_kernel kKernels[] = {
    describe<plan_identity>("identity_copy", "identity", kDtypes, Work::kMoves)};

}  // namespace

BP_SDK_KERNELS(copy, kKernels);

}  // namespace bp::xpu
