// SPDX-License-Identifier: Apache-2.0
//
// Plans of argmax and argmin: one work item for each lane, or a group where there are few long
// ones.
#include "backplane/ops/sorting.h"
#include "device.hpp"
#include "kernels/dtypes.hpp"
#include "kernels/nest.hpp"

namespace bp::xpu {
namespace {

template <class Attributes>
Plan plan_position(const Device& device, const bp_kernel_query& query, const Attributes& attributes,
                   bool largest) {
  expect_inputs(query, 1);
  const bp_arg_info& x = argument(query, 0);
  const bp_arg_info& y = argument(query, 1);
  const uint32_t axis = axis_from_front(attributes.axis, x.rank);
  const LanesGeometry geometry = make_lanes(x, y, axis);
  const uint64_t lane_count = geometry.lanes.item_count;
  if (geometry.length == 0) sdk::refuse("plan: a position along an axis without elements");
  if (element_count(y) != lane_count) sdk::refuse("plan: positions that are not one for each lane");
  const bool last = attributes.select_last_index != 0;
  const std::string options = define("BP_DTYPE", dtype_name(x.dtype)) +
                              define("BP_LARGEST", uint64_t{largest ? 1u : 0u}) +
                              define("BP_LAST", uint64_t{last ? 1u : 0u});
  const bool are_few = lane_count < uint64_t{device.info().compute_unit_count} * kGroupSize;
  const bool by_group = are_few && geometry.length >= BP_XPU_PARTS;
  Step step(program_of("position.cl", options), by_group ? "position_of_group" : "position_of_item",
            geometry);
  if (by_group) return {.steps = {step.groups(lane_count, BP_XPU_PARTS)}};
  return {.steps = {step.items(lane_count)}};
}

Plan plan_argmax(const Device& device, const bp_kernel_query& query) {
  return plan_position(device, query,
                       sdk::read_attributes(query.attributes, bp_attrs_argmax_defaults()), true);
}

Plan plan_argmin(const Device& device, const bp_kernel_query& query) {
  return plan_position(device, query,
                       sdk::read_attributes(query.attributes, bp_attrs_argmin_defaults()), false);
}

constexpr uint64_t kDtypes[] = {kNumbers};

constexpr bp_kernel kKernels[] = {describe<plan_argmax>("argmax_number", "argmax", kDtypes),
                                  describe<plan_argmin>("argmin_number", "argmin", kDtypes)};

}  // namespace

BP_SDK_KERNELS(position, kKernels);

}  // namespace bp::xpu
