// SPDX-License-Identifier: Apache-2.0
//
// scatter_nd: a copy of x whose slices updates meet at positions that rows of indices name. Any two
// rows may name the same slice, so rows are worked through in order; threads share the columns of
// the slices.
#include "backplane/ops/indexing.h"
#include "indices.hpp"
#include "scatter.hpp"

namespace bp::cpu {
namespace {

struct ScatterNd {
  const ScatterPlan& plan;
  const void* indices;
  const std::byte* updates;
  std::byte* target;
  int64_t row_count;
  int64_t point_size;  // indices in a row
  int64_t extents[BP_MAX_RANK];
  int64_t strides[BP_MAX_RANK];  // in elements
  int64_t slice;                 // elements
  int64_t element_bytes;         // of an update
  FaultReport report;
};

// Columns [begin, end) of all slices.
template <class I>
void scatter_columns(const ScatterNd& call, int64_t begin, int64_t end) noexcept {
  for (int64_t row = 0; row < call.row_count; ++row) {
    const I* const point = static_cast<const I*>(call.indices) + row * call.point_size;
    int64_t place = begin;
    for (int64_t i = 0; i < call.point_size; ++i) {
      place += index_in_range(call.report, point[i], call.extents[i]) * call.strides[i];
    }
    call.plan.functions.to_slice(call.target + place * call.plan.target_bytes,
                                 call.updates + (row * call.slice + begin) * call.element_bytes,
                                 end - begin);
  }
}

std::unique_ptr<ScatterPlan> make_plan(bp_device*, const bp_kernel_query& query,
                                       bp_plan_info* info) {
  const auto attrs = read_attributes(query.attributes, bp_attrs_scatter_nd_defaults());
  auto plan = std::make_unique<ScatterPlan>();
  plan_scatter(query, attrs.reduction, plan.get(), info);
  return plan;
}

bp_status launch(const bp_launch_args& args) {
  const auto& plan = *static_cast<const ScatterPlan*>(args.plan);
  const bp_tensor& x = input_of(args, 0);
  const bp_tensor& indices = input_of(args, 1);
  void* const target = begin_scatter(args, plan);
  ScatterNd call{.plan = plan,
                 .indices = address_of(indices),
                 .updates = address_of(input_of(args, 2)),
                 .target = static_cast<std::byte*>(target),
                 .row_count = 1,
                 .point_size = indices.sizes[indices.rank - 1],
                 .extents = {},
                 .strides = {},
                 .slice = 1,
                 .element_bytes = static_cast<int64_t>(sdk::dtype_bytes(x.dtype)),
                 .report = FaultReport::of(args, 1)};
  if (call.point_size > x.rank) sdk::refuse("scatter_nd: rows of ", call.point_size, " indices");
  for (uint32_t d = 0; d + 1 < indices.rank; ++d) call.row_count *= indices.sizes[d];
  for (int64_t d = x.rank; d-- > 0;) {
    if (d >= call.point_size) {
      call.slice *= x.sizes[d];
      continue;
    }
    call.extents[d] = x.sizes[d];
    call.strides[d] = x.strides[d];
  }
  if (target != nullptr && call.row_count > 0) {
    const auto run =
        indices.dtype == BP_DTYPE_I32 ? scatter_columns<int32_t> : scatter_columns<int64_t>;
    args.device->workers.for_ranges(
        call.slice, call.row_count,
        [&](int64_t begin, int64_t end) noexcept { run(call, begin, end); });
  }
  end_scatter(args, plan);
  return BP_OK;
}

constexpr uint64_t kMasks[] = {kAnyTypes, kIndexTypes};

constexpr bp_kernel kKernels[] = {sdk::describe({.name = "scatter_nd_loop",
                                                 .op = "scatter_nd",
                                                 .dtypes = kMasks,
                                                 .depends_on = BP_DEPENDS_SIZES_BIT,
                                                 .plan = plan_slot<ScatterPlan, make_plan>,
                                                 .plan_free = sdk::delete_plan<bp_kernel_plan>,
                                                 .launch = launch_slot<launch>,
                                                 .in_place_inputs = 1})};

}  // namespace

BP_SDK_KERNELS(scatter_nd, kKernels);

}  // namespace bp::cpu
