// SPDX-License-Identifier: Apache-2.0
//
// Plans of scatter_elements and scatter_nd: x is copied to the target, updates are brought to it,
// and where it is not y itself, it is rounded to y.
#include <algorithm>
#include <string_view>

#include "backplane/ops/indexing.h"
#include "device.hpp"
#include "kernels/dtypes.hpp"
#include "kernels/nest.hpp"

namespace bp::xpu {
namespace {

constexpr uint32_t kItemsPerGroup = 16;  // few, since each does much and groups are shared out

uint32_t reduction_of(bp_str name) {
  const std::string_view text = sdk::view(name);
  if (text == "none") return BP_XPU_SCATTER_NONE;
  if (text == "add") return BP_XPU_SCATTER_ADD;
  if (text == "mul") return BP_XPU_SCATTER_MUL;
  if (text == "max") return BP_XPU_SCATTER_MAX;
  if (text == "min") return BP_XPU_SCATTER_MIN;
  throw sdk::Refusal{"a reduction that is not known"};
}

/// What both scatters have in common.
class Scatter {
 public:
  Scatter(const bp_kernel_query& query, bp_str reduction_name) {
    expect_inputs(query, 3);
    const bp_arg_info& x = argument(query, 0);
    const bp_arg_info& y = argument(query, 3);
    if (x.rank != y.rank || !std::equal(x.sizes, x.sizes + x.rank, y.sizes)) {
      sdk::refuse("plan: a scatter of x to an output of other sizes");
    }
    uint32_t reduction = reduction_of(reduction_name);
    const bool sums = reduction == BP_XPU_SCATTER_ADD || reduction == BP_XPU_SCATTER_MUL;
    uint32_t dtype = x.dtype;
    if (dtype == BP_DTYPE_BOOL && sums) {
      reduction = reduction == BP_XPU_SCATTER_ADD ? BP_XPU_SCATTER_MAX : BP_XPU_SCATTER_MIN;
    } else if (reduction == BP_XPU_SCATTER_NONE || (sums && !is_float(dtype))) {
      dtype = unsigned_of(dtype);
    }
    is_apart_ = sums && is_half(dtype);
    source_ = program_of("scatter.cl",
                         define("BP_DTYPE", dtype_name(dtype)) +
                             define("BP_HELD", is_apart_ ? "f32" : dtype_name(dtype)) +
                             define("BP_INDEX", dtype_name(argument(query, 1).dtype)) +
                             define("BP_REDUCTION", reduction) +
                             (is_float(dtype) ? std::string() : define("BP_IS_INTEGER", 1)));
    nest_ = make_nest<Nest1>(query);
  }

  /// The plan, with the step that brings the updates.
  template <class Geometry>
  Plan around(const char* function, const Geometry& geometry, uint64_t item_count) const {
    const Buffer target = is_apart_ ? Buffer::workspace(0) : Buffer::tensor(3);
    Step begin(source_, "scatter_begin", nest_);
    begin.items(nest_.item_count).buffers({Buffer::tensor(0), target});
    Step bring(source_, function, geometry);
    bring.items(item_count, kItemsPerGroup)
        .buffers({Buffer::tensor(1), Buffer::tensor(2), target})
        .add_fault();
    Plan plan{.steps = {begin, bring}};
    if (is_apart_) {
      Step end(source_, "scatter_end", nest_);
      plan.steps.push_back(end.items(nest_.item_count).buffers({target, Buffer::tensor(3)}));
      plan.workspace_bytes = nest_.item_count * sizeof(float);
    }
    return plan;
  }

 private:
  bool is_apart_;
  ProgramSource source_;
  Nest1 nest_;  // x
};

/// How many work items share the `count` indices of a lane out: each looks at all of them, so one
/// where there are lanes enough.
uint64_t parts_of(const Device& device, uint64_t lane_count, uint64_t count) {
  const uint64_t units = std::max<uint64_t>(device.info().compute_unit_count, 1);
  return lane_count >= units ? 1 : std::clamp<uint64_t>(count / 64, 1, units);
}

Plan plan_scatter_elements(const Device& device, const bp_kernel_query& query) {
  const auto attributes =
      sdk::read_attributes(query.attributes, bp_attrs_scatter_elements_defaults());
  const Scatter scatter(query, attributes.reduction);
  const bp_arg_info& indices = argument(query, 1);
  const bp_arg_info& updates = argument(query, 2);
  const bp_arg_info& y = argument(query, 3);
  const uint32_t axis = axis_from_front(attributes.axis, y.rank);
  if (indices.rank != y.rank || updates.rank != y.rank ||
      !std::equal(indices.sizes, indices.sizes + y.rank, updates.sizes)) {
    sdk::refuse("plan: scatter_elements of updates with other sizes than the indices");
  }
  ScatterElementsGeometry geometry{};
  geometry.lanes.rank = y.rank;
  std::copy_n(indices.sizes, y.rank, geometry.lanes.sizes);
  std::copy_n(indices.strides, y.rank, geometry.lanes.strides[0]);
  std::copy_n(y.strides, y.rank, geometry.lanes.strides[1]);
  geometry.lanes.sizes[axis] = 1;
  geometry.lanes.item_count = 1;
  for (uint32_t d = 0; d < y.rank; ++d) geometry.lanes.item_count *= geometry.lanes.sizes[d];
  merge_dimensions(&geometry.lanes);
  geometry.length = static_cast<uint64_t>(indices.sizes[axis]);
  geometry.step = indices.strides[axis];
  geometry.extent = y.sizes[axis];
  geometry.target_step = y.strides[axis];
  geometry.part_count = parts_of(device, geometry.lanes.item_count, geometry.length);
  const bool is_empty = geometry.length == 0;
  return scatter.around("scatter_elements", geometry,
                        is_empty ? 0 : geometry.lanes.item_count * geometry.part_count);
}

Plan plan_scatter_nd(const Device& device, const bp_kernel_query& query) {
  const Scatter scatter(
      query, sdk::read_attributes(query.attributes, bp_attrs_scatter_nd_defaults()).reduction);
  const bp_arg_info& indices = argument(query, 1);
  const bp_arg_info& y = argument(query, 3);
  const int64_t point = indices.rank == 0 ? -1 : indices.sizes[indices.rank - 1];
  if (point < 0 || point > y.rank) sdk::refuse("plan: scatter_nd by rows of ", point, " indices");
  ScatterNdGeometry geometry{};
  geometry.row_count = 1;
  for (uint32_t d = 0; d + 1 < indices.rank; ++d) {
    geometry.row_count *= static_cast<uint64_t>(indices.sizes[d]);
  }
  geometry.point_size = static_cast<uint64_t>(point);
  geometry.slice_size = 1;
  for (uint32_t d = y.rank; d-- > geometry.point_size;) {
    geometry.slice_size *= static_cast<uint64_t>(y.sizes[d]);
  }
  int64_t stride = 1;
  for (auto d = static_cast<uint32_t>(point); d-- > 0;) {
    geometry.extents[d] = y.sizes[d];
    geometry.strides[d] = stride;
    stride *= y.sizes[d];
  }
  if (element_count(argument(query, 2)) != geometry.row_count * geometry.slice_size) {
    sdk::refuse("plan: scatter_nd of updates that are not a slice for each row of indices");
  }
  geometry.part_count = parts_of(device, geometry.slice_size, geometry.row_count);
  const bool is_empty = geometry.row_count == 0;
  return scatter.around("scatter_nd", geometry,
                        is_empty ? 0 : geometry.slice_size * geometry.part_count);
}

constexpr uint64_t kDtypes[] = {kNumbers | sdk::dtypes({BP_DTYPE_BOOL}), kIndices};

constexpr bp_kernel kKernels[] = {
    describe<plan_scatter_elements>("scatter_elements_lanes", "scatter_elements", kDtypes,
                                    {.arg_rules = kThenContiguous}),
    describe<plan_scatter_nd>("scatter_nd_columns", "scatter_nd", kDtypes,
                              {.arg_rules = kThenContiguous})};

}  // namespace

BP_SDK_KERNELS(scatter, kKernels);

}  // namespace bp::xpu
