// SPDX-License-Identifier: Apache-2.0
//
// Plans of cumsum and cumprod.
#include "backplane/ops/scan.h"

#include "device.hpp"
#include "kernels/dtypes.hpp"
#include "kernels/nest.hpp"

namespace bp::xpu {
namespace {

template <class Attributes>
Plan plan_scan(const bp_kernel_query& query, const Attributes& attributes, const char* inclusive,
               const char* exclusive) {
  expect_inputs(query, 2);
  const bp_arg_info& x = argument(query, 0);
  const bp_arg_info& axis = argument(query, 1);
  if (axis.host_data == nullptr || element_count(axis) != 1) {
    sdk::refuse("plan: a scan along an axis that is not one value on the host");
  }
  const void* const axis_value = axis.host_data;
  LanesGeometry geometry = make_lanes(
      x, argument(query, 2), axis_from_front(*static_cast<const int64_t*>(axis_value), x.rank));
  if (attributes.reverse != 0 && geometry.length > 0) {
    const auto last = static_cast<int64_t>(geometry.length - 1);
    geometry.x_start = last * geometry.x_step;
    geometry.y_start = last * geometry.y_step;
    geometry.x_step = -geometry.x_step;
    geometry.y_step = -geometry.y_step;
  }
  Step step(program_of("scan.cl", accumulate(x.dtype)),
            attributes.exclusive != 0 ? exclusive : inclusive, geometry);
  const uint64_t lane_count = geometry.length == 0 ? 0 : geometry.lanes.item_count;
  return {.steps = {step.items(lane_count).buffers({Buffer::tensor(0), Buffer::tensor(2)})}};
}

Plan plan_cumsum(const Device&, const bp_kernel_query& query) {
  return plan_scan(query, sdk::read_attributes(query.attributes, bp_attrs_cumsum_defaults()),
                   "sum_inclusive", "sum_exclusive");
}

Plan plan_cumprod(const Device&, const bp_kernel_query& query) {
  return plan_scan(query, sdk::read_attributes(query.attributes, bp_attrs_cumprod_defaults()),
                   "product_inclusive", "product_exclusive");
}

constexpr uint64_t kDtypes[] = {kNumbers};

constexpr bp_kernel kKernels[] = {
    describe<plan_cumsum>("cumsum_lanes", "cumsum", kDtypes, {.arg_rules = kThenHost}),
    describe<plan_cumprod>("cumprod_lanes", "cumprod", kDtypes, {.arg_rules = kThenHost})};

}  // namespace

BP_SDK_KERNELS(scan, kKernels);

}  // namespace bp::xpu
