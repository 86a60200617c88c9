// SPDX-License-Identifier: Apache-2.0
//
// scatter_elements: a copy of x whose elements updates meet at positions that indices give along
// one axis. Updates that differ in another dimension cannot meet the same element, so lanes along
// the axis go to threads, and each is worked through in order.
#include <algorithm>

#include "backplane/ops/indexing.h"
#include "indices.hpp"
#include "nest.hpp"
#include "scatter.hpp"

namespace bp::cpu {
namespace {

struct ScatterElementsPlan : ScatterPlan {
  uint32_t axis = 0;
};

struct ScatterElements {
  const ScatterFunctions& functions;
  ResolveIndices resolve;
  FaultReport report;
  IndexRow along;  // indices of one lane, or of one step of neighbouring lanes
  const std::byte* updates;
  int64_t element_bytes;
  int64_t lane_length;
  int64_t index_step;  // from one index of a lane to the next
  void* target;
};

// `count` indices from `begin` with their updates; the first meets target[first].
void scatter_row(const ScatterElements& call, int64_t begin, int64_t count, int64_t first,
                 int64_t step) {
  int64_t places[kPlaceBlock];
  for (int64_t i = 0; i < count; i += kPlaceBlock) {
    const int64_t block = std::min(kPlaceBlock, count - i);
    const int64_t at = begin + i * call.along.stride;
    call.resolve(call.report, call.along, at, block, first + i * step, step, places);
    call.functions.to_places(call.target, places, call.updates + at * call.element_bytes,
                             call.along.stride, block);
  }
}

std::unique_ptr<ScatterElementsPlan> make_plan(bp_device*, const bp_kernel_query& query,
                                               bp_plan_info* info) {
  const auto attrs = read_attributes(query.attributes, bp_attrs_scatter_elements_defaults());
  auto plan = std::make_unique<ScatterElementsPlan>();
  plan->axis = axis_from_front("scatter_elements", attrs.axis, arg_info(query, 0).rank);
  plan_scatter(query, attrs.reduction, plan.get(), info);
  return plan;
}

// The lanes. Operand 0: indices and updates; operand 1: x. Neither moves along the axis.
Nest make_nest(const bp_tensor& x, const bp_tensor& indices, uint32_t axis) {
  Nest nest;
  for (uint32_t d = 0; d < x.rank; ++d) {
    if (d == axis) continue;
    nest.strides[0][nest.rank] = indices.strides[d];
    nest.strides[1][nest.rank] = x.strides[d];
    nest.add_dimension(indices.sizes[d]);
  }
  simplify(&nest, 2);
  return nest;
}

bp_status launch(const bp_launch_args& args) {
  const auto& plan = *static_cast<const ScatterElementsPlan*>(args.plan);
  const bp_tensor& x = input_of(args, 0);
  const bp_tensor& indices = input_of(args, 1);
  void* const target = begin_scatter(args, plan);
  if (target == nullptr || sdk::element_count(indices) == 0) {
    end_scatter(args, plan);
    return BP_OK;
  }
  const Nest lanes = make_nest(x, indices, plan.axis);
  const int64_t lane_stride = lanes.strides[0][lanes.rank - 1];
  const int64_t x_lane_stride = lanes.strides[1][lanes.rank - 1];
  const int64_t index_step = indices.strides[plan.axis];
  // Whichever of both loops moves by one element is the inner one.
  const bool lane_by_lane = index_step == 1 || lanes.count == 1;
  const ScatterElements call{.functions = plan.functions,
                             .resolve = resolve_indices(indices.dtype),
                             .report = FaultReport::of(args, 1),
                             .along = {address_of(indices), lane_by_lane ? index_step : lane_stride,
                                       x.sizes[plan.axis], x.strides[plan.axis]},
                             .updates = address_of(input_of(args, 2)),
                             .element_bytes = static_cast<int64_t>(sdk::dtype_bytes(x.dtype)),
                             .lane_length = indices.sizes[plan.axis],
                             .index_step = index_step,
                             .target = target};
  args.device->workers.for_ranges(
      lanes.count, sdk::saturating_product({call.lane_length, 8}),
      [&](int64_t begin, int64_t end) noexcept {
        walk_rows(lanes, 2, begin, end, [&](const int64_t* offsets, int64_t count) {
          if (lane_by_lane) {
            for (int64_t i = 0; i < count; ++i) {
              scatter_row(call, offsets[0] + i * lane_stride, call.lane_length,
                          offsets[1] + i * x_lane_stride, 0);
            }
            return;
          }
          for (int64_t k = 0; k < call.lane_length; ++k) {
            scatter_row(call, offsets[0] + k * call.index_step, count, offsets[1], x_lane_stride);
          }
        });
      });
  end_scatter(args, plan);
  return BP_OK;
}

constexpr uint64_t kMasks[] = {kAnyTypes, kIndexTypes};

constexpr bp_kernel kKernels[] = {sdk::describe({.name = "scatter_elements_loop",
                                                 .op = "scatter_elements",
                                                 .dtypes = kMasks,
                                                 .depends_on = BP_DEPENDS_SIZES_BIT,
                                                 .plan = plan_slot<ScatterElementsPlan, make_plan>,
                                                 .plan_free = sdk::delete_plan<bp_kernel_plan>,
                                                 .launch = launch_slot<launch>,
                                                 .in_place_inputs = 1})};

}  // namespace

BP_SDK_KERNELS(scatter_elements, kKernels);

}  // namespace bp::cpu
