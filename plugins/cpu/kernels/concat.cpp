// SPDX-License-Identifier: Apache-2.0
//
// concat: each input is copied to its part of the output, one input after the other.
#include "backplane/ops/movement.h"
#include "copy_rows.hpp"
#include "kernel_support.hpp"
#include "order.hpp"

namespace bp::cpu {
namespace {

bp_status launch(const bp_launch_args& args) {
  const bp_tensor& y = output_of(args);
  const int64_t given = read_attributes(args.attributes, bp_attrs_concat_defaults()).axis;
  const int64_t axis = given < 0 ? given + y.rank : given;
  if (axis < 0 || axis >= y.rank) {
    sdk::refuse("concat: axis ", given, " of a tensor of rank ", y.rank);
  }
  const auto bytes = static_cast<int64_t>(sdk::dtype_bytes(y.dtype));
  std::byte* to = address_of(y);
  for (uint32_t i = 0; i < args.input_count; ++i) {
    const bp_tensor& x = input_of(args, i);
    if (sdk::element_count(x) == 0) continue;
    bp_tensor part = y;
    part.sizes = x.sizes;
    copy_strided(args.device->workers, part, to, x, address_of(x), bytes);
    to += x.sizes[axis] * y.strides[axis] * bytes;
  }
  return BP_OK;
}

std::unique_ptr<OrderedPlan> make_plan(bp_device*, const bp_kernel_query& query,
                                       bp_plan_info* info) {
  auto plan = std::make_unique<OrderedPlan>();
  follow_channels(query, plan.get(), info);
  return plan;
}

constexpr uint64_t kMasks[] = {kAnyTypes};

constexpr bp_kernel kKernels[] = {
    sdk::describe({.name = "concat_copies",
                   .op = "concat",
                   .dtypes = kMasks,
                   .arg_rules = sdk::kAnyStrides,
                   .flags = BP_KERNEL_DETERMINISTIC_BIT | BP_KERNEL_CHOOSES_ORDER_BIT,
                   .depends_on = BP_DEPENDS_SIZES_BIT | BP_DEPENDS_STRIDES_BIT,
                   .plan = plan_slot<OrderedPlan, make_plan>,
                   .plan_free = sdk::delete_plan<bp_kernel_plan>,
                   .launch = launch_slot<launch>})};

}  // namespace

BP_SDK_KERNELS(concat, kKernels);

}  // namespace bp::cpu
