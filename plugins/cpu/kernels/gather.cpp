// SPDX-License-Identifier: Apache-2.0
//
// gather: slices along one axis, copied as bytes. An index out of range is clamped and goes to the
// fault word, so that no index can make it read outside its input.
#include <cstring>

#include "backplane/ops/indexing.h"
#include "indices.hpp"

namespace bp::cpu {
namespace {

struct GatherPlan : bp_kernel_plan {
  uint32_t axis = 0;
};

struct Gather {
  const std::byte* x;
  const void* indices;
  std::byte* y;
  int64_t extent;       // of the axis
  int64_t index_count;  // rows of y per outer index
  int64_t row_bytes;    // of one slice
  FaultReport report;
};

// Rows [begin, end) of y.
template <class I>
void gather_rows(const Gather& gather, int64_t begin, int64_t end) {
  const I* const indices = static_cast<const I*>(gather.indices);
  const size_t row_bytes = static_cast<size_t>(gather.row_bytes);
  for (int64_t row = begin; row < end; ++row) {
    std::byte* const to = gather.y + row * gather.row_bytes;
    const int64_t index =
        index_in_range(gather.report, indices[row % gather.index_count], gather.extent);
    if (gather.extent == 0) {  // nothing to clamp to
      std::memset(to, 0, row_bytes);
      continue;
    }
    const int64_t outer = row / gather.index_count;
    std::memcpy(to, gather.x + (outer * gather.extent + index) * gather.row_bytes, row_bytes);
  }
}

std::unique_ptr<GatherPlan> make_plan(bp_device*, const bp_kernel_query& query,
                                      bp_plan_info* info) {
  const auto attrs = read_attributes(query.attributes, bp_attrs_gather_defaults());
  const uint32_t rank = arg_info(query, 0).rank;
  auto plan = std::make_unique<GatherPlan>();
  plan->axis = axis_from_front("gather", attrs.axis, rank);
  info->flags = BP_PLAN_CAN_FAULT_BIT;
  return plan;
}

bp_status launch(const bp_launch_args& args) {
  const uint32_t axis = static_cast<const GatherPlan*>(args.plan)->axis;
  const bp_tensor& x = input_of(args, 0);
  const bp_tensor& indices = input_of(args, 1);
  int64_t outer = 1;
  int64_t row_bytes = static_cast<int64_t>(sdk::dtype_bytes(x.dtype));
  for (uint32_t d = 0; d < x.rank; ++d) {
    if (d < axis) outer *= x.sizes[d];
    if (d > axis) row_bytes *= x.sizes[d];
  }
  if (row_bytes == 0) return BP_OK;
  const Gather gather{.x = address_of(x),
                      .indices = address_of(indices),
                      .y = address_of(output_of(args)),
                      .extent = x.sizes[axis],
                      .index_count = sdk::element_count(indices),
                      .row_bytes = row_bytes,
                      .report = FaultReport::of(args, 1)};
  const auto run = indices.dtype == BP_DTYPE_I32 ? gather_rows<int32_t> : gather_rows<int64_t>;
  args.device->workers.for_ranges(
      outer * gather.index_count, row_bytes / 16 + 4,
      [&](int64_t begin, int64_t end) noexcept { run(gather, begin, end); });
  return BP_OK;
}

constexpr uint64_t kMasks[] = {kAnyTypes, kIndexTypes};

constexpr bp_kernel kKernels[] = {sdk::describe({.name = "gather_loop",
                                                 .op = "gather",
                                                 .dtypes = kMasks,
                                                 .plan = plan_slot<GatherPlan, make_plan>,
                                                 .plan_free = sdk::delete_plan<bp_kernel_plan>,
                                                 .launch = launch_slot<launch>})};

}  // namespace

BP_SDK_KERNELS(gather, kKernels);

}  // namespace bp::cpu
