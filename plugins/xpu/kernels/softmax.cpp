// SPDX-License-Identifier: Apache-2.0
//
// Plans of softmax and log_softmax, which would be five launches each as decompositions.
#include "backplane/ops/softmax.h"

#include "backplane/ops/nn.h"
#include "device.hpp"
#include "kernels/dtypes.hpp"
#include "kernels/nest.hpp"

namespace bp::xpu {
namespace {

Plan plan_lanes(const bp_kernel_query& query, int64_t axis, const char* function) {
  expect_inputs(query, 1);
  const bp_arg_info& x = argument(query, 0);
  const LanesGeometry geometry = make_lanes(x, argument(query, 1), axis_from_front(axis, x.rank));
  Step step(program_of("softmax.cl", accumulate(x.dtype)), function, geometry);
  const uint64_t lane_count = geometry.length == 0 ? 0 : geometry.lanes.item_count;
  return {.steps = {step.groups(lane_count, BP_XPU_PARTS)}};
}

Plan plan_softmax(const Device&, const bp_kernel_query& query) {
  return plan_lanes(query, sdk::read_attributes(query.attributes, bp_attrs_softmax_defaults()).axis,
                    "softmax");
}

Plan plan_log_softmax(const Device&, const bp_kernel_query& query) {
  return plan_lanes(query,
                    sdk::read_attributes(query.attributes, bp_attrs_log_softmax_defaults()).axis,
                    "log_softmax");
}

constexpr uint64_t kDtypes[] = {kFloats};

constexpr bp_kernel kKernels[] = {
    describe<plan_softmax>("softmax_float", "softmax", kDtypes),
    describe<plan_log_softmax>("log_softmax_float", "log_softmax", kDtypes)};

}  // namespace

BP_SDK_KERNELS(softmax, kKernels);

}  // namespace bp::xpu
