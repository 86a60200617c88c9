// SPDX-License-Identifier: Apache-2.0
//
// gather, which shows a plan and the fault word: whether an index is in range is known only when
// the kernel runs, so the plan says that it can fault, the kernel clamps, and the first bad index
// is reported through the fault word.
#include <algorithm>
#include <cstring>
#include <memory>

#include "backplane/ops/indexing.h"
#include "kernels/elements.hpp"
#include "kernels/loops.hpp"

namespace bp::npu {
namespace {

/// What gather works out before there is data.
struct GatherPlan : bp_kernel_plan {
  explicit GatherPlan(uint32_t axis_from_front) : axis(axis_from_front) {}

  uint32_t axis;  // counted from the front
};

constexpr uint32_t kIndicesInput = 1;

/// x and the indices seen along the dimensions of y = x[:axis] + indices + x[axis + 1:], each with
/// stride 0 where the other rules. Operands: y, x without its axis, indices.
Nest<3> gather_nest(const Tensor& x, const Tensor& indices, const Tensor& y, uint32_t axis) {
  if (y.rank + 1 != x.rank + indices.rank) refuse("gather: an output of rank ", y.rank);
  Nest<3> nest{y.rank, y.sizes, {y.strides, Dims{}, Dims{}}};
  auto& [y_strides, x_strides, index_strides] = nest.strides;
  std::copy_n(x.strides.begin(), axis, x_strides.begin());
  std::copy_n(indices.strides.begin(), indices.rank, index_strides.begin() + axis);
  std::copy(x.strides.begin() + axis + 1, x.strides.begin() + x.rank,
            x_strides.begin() + axis + indices.rank);
  return nest;
}

template <class Index>
void gather(const Launch& launch, uint32_t axis) {
  const Tensor& x = launch.input(0);
  const Tensor& indices = launch.input(kIndicesInput);
  const Tensor& y = launch.output();
  const auto bytes = static_cast<int64_t>(sdk::dtype_bytes(y.dtype));
  const int64_t extent = x.sizes[axis];
  for_each_element(gather_nest(x, indices, y, axis), [&](const std::array<int64_t, 3>& offsets) {
    std::byte* const out = y.data + offsets[0] * bytes;
    const int64_t given = indices.as<Index>()[offsets[2]];
    const int64_t index = given < 0 ? given + extent : given;
    if (index < 0 || index >= extent) launch.report_index(kIndicesInput, given, extent);
    if (extent == 0) {  // Nothing to clamp to.
      std::memset(out, 0, static_cast<size_t>(bytes));
      return;
    }
    const int64_t clamped = std::clamp<int64_t>(index, 0, extent - 1);
    std::memcpy(out, x.data + (offsets[1] + clamped * x.strides[axis]) * bytes,
                static_cast<size_t>(bytes));
  });
}

std::unique_ptr<GatherPlan> plan(bp_device*, const bp_kernel_query& query, bp_plan_info* out_info) {
  const int64_t axis = read_attributes(query.attributes, bp_attrs_gather_defaults()).axis;
  out_info->flags = BP_PLAN_CAN_FAULT_BIT;
  return std::make_unique<GatherPlan>(axis_from_front(axis, sdk::arg_info(query, 0).rank));
}

KernelBody prepare(const bp_launch_args& args) {
  if (args.plan == nullptr) refuse("gather: a launch without a plan");
  return [axis = static_cast<const GatherPlan*>(args.plan)->axis](const Launch& launch) {
    Indices::with_type(launch.input(kIndicesInput).dtype,
                       [&]<class Index>(Index) { gather<Index>(launch, axis); });
  };
}

constexpr uint64_t kDtypes[] = {kWholeByteDtypes, Indices::kMask};

constexpr bp_kernel kKernels[] = {describe({.name = "gather_any",
                                            .op = "gather",
                                            .dtypes = kDtypes,
                                            .arg_rules = sdk::kAnyStrides,
                                            .depends_on = BP_DEPENDS_SIZES_BIT,
                                            .plan = sdk::plan_slot<GatherPlan, plan>,
                                            .plan_free = sdk::delete_plan<bp_kernel_plan>,
                                            .launch = launch<prepare>})};

}  // namespace

BP_SDK_KERNELS(gather, kKernels);

}  // namespace bp::npu
