// SPDX-License-Identifier: Apache-2.0
//
// gather_nd: slices of x at positions that rows of indices name, copied as bytes.
#include <cstring>

#include "backplane/ops/indexing.h"
#include "indices.hpp"

namespace bp::cpu {
namespace {

struct GatherNdPlan : bp_kernel_plan {
  uint32_t batch_dims = 0;
};

struct GatherNd {
  const std::byte* x;
  const void* indices;
  std::byte* y;
  int64_t rows_per_batch;
  int64_t batch_stride;  // of x, in slices
  int64_t point_size;    // indices in a row
  int64_t extents[BP_MAX_RANK];
  int64_t strides[BP_MAX_RANK];  // in slices
  int64_t slice_bytes;
  FaultReport report;
};

template <class I>
void gather_rows(const GatherNd& gather, int64_t begin, int64_t end) noexcept {
  const auto bytes = static_cast<size_t>(gather.slice_bytes);
  for (int64_t row = begin; row < end; ++row) {
    const I* const point = static_cast<const I*>(gather.indices) + row * gather.point_size;
    int64_t slice = row / gather.rows_per_batch * gather.batch_stride;
    for (int64_t i = 0; i < gather.point_size; ++i) {
      slice += index_in_range(gather.report, point[i], gather.extents[i]) * gather.strides[i];
    }
    std::memcpy(gather.y + row * gather.slice_bytes, gather.x + slice * gather.slice_bytes, bytes);
  }
}

std::unique_ptr<GatherNdPlan> make_plan(bp_device*, const bp_kernel_query& query,
                                        bp_plan_info* info) {
  const auto attrs = read_attributes(query.attributes, bp_attrs_gather_nd_defaults());
  if (attrs.batch_dims < 0 || attrs.batch_dims >= arg_info(query, 0).rank ||
      attrs.batch_dims >= arg_info(query, 1).rank) {
    sdk::refuse("gather_nd: batch_dims ", attrs.batch_dims);
  }
  auto plan = std::make_unique<GatherNdPlan>();
  plan->batch_dims = static_cast<uint32_t>(attrs.batch_dims);
  info->flags = BP_PLAN_CAN_FAULT_BIT;
  return plan;
}

bp_status launch(const bp_launch_args& args) {
  const uint32_t batch_dims = static_cast<const GatherNdPlan*>(args.plan)->batch_dims;
  const bp_tensor& x = input_of(args, 0);
  const bp_tensor& indices = input_of(args, 1);
  GatherNd gather{};
  gather.point_size = indices.sizes[indices.rank - 1];
  const auto first_kept = static_cast<int64_t>(batch_dims) + gather.point_size;
  if (first_kept > x.rank) sdk::refuse("gather_nd: rows of ", gather.point_size, " indices");
  int64_t slice = 1;
  for (auto d = static_cast<uint32_t>(first_kept); d < x.rank; ++d) slice *= x.sizes[d];
  int64_t stride = 1;
  for (auto d = static_cast<uint32_t>(first_kept); d-- > batch_dims;) {
    gather.extents[d - batch_dims] = x.sizes[d];
    gather.strides[d - batch_dims] = stride;
    stride *= x.sizes[d];
  }
  gather.batch_stride = stride;
  gather.rows_per_batch = 1;
  int64_t rows = 1;
  for (uint32_t d = 0; d + 1 < indices.rank; ++d) {
    rows *= indices.sizes[d];
    if (d >= batch_dims) gather.rows_per_batch *= indices.sizes[d];
  }
  gather.slice_bytes = slice * static_cast<int64_t>(sdk::dtype_bytes(x.dtype));
  if (rows == 0 || slice == 0) return BP_OK;
  if (sdk::element_count(x) == 0) sdk::refuse("gather_nd: x has no elements");
  gather.x = address_of(x);
  gather.indices = address_of(indices);
  gather.y = address_of(output_of(args));
  gather.report = FaultReport::of(args, 1);
  const auto run = indices.dtype == BP_DTYPE_I32 ? gather_rows<int32_t> : gather_rows<int64_t>;
  args.device->workers.for_ranges(
      rows, gather.slice_bytes / 16 + 4 * gather.point_size,
      [&](int64_t begin, int64_t end) noexcept { run(gather, begin, end); });
  return BP_OK;
}

constexpr uint64_t kMasks[] = {kAnyTypes, kIndexTypes};

constexpr bp_kernel kKernels[] = {sdk::describe({.name = "gather_nd_loop",
                                                 .op = "gather_nd",
                                                 .dtypes = kMasks,
                                                 .plan = plan_slot<GatherNdPlan, make_plan>,
                                                 .plan_free = sdk::delete_plan<bp_kernel_plan>,
                                                 .launch = launch_slot<launch>})};

}  // namespace

BP_SDK_KERNELS(gather_nd, kKernels);

}  // namespace bp::cpu
