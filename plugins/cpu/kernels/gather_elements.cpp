// SPDX-License-Identifier: Apache-2.0
//
// gather_elements: each element of y is one of x, which an index picks along one axis. Rows of
// indices become places in x first, then the elements are copied, so that few loops serve all
// dtypes.
#include <algorithm>

#include "backplane/ops/indexing.h"
#include "indices.hpp"
#include "nest.hpp"

namespace bp::cpu {
namespace {

struct GatherElementsPlan : bp_kernel_plan {
  uint32_t axis = 0;
};

using CopyPicked = void (*)(void* y, int64_t y_begin, const void* x, const int64_t* places,
                            int64_t count) noexcept;

template <class T>
void copy_picked(void* y, int64_t y_begin, const void* x, const int64_t* places,
                 int64_t count) noexcept {
  T* const to = static_cast<T*>(y) + y_begin;
  const T* const from = static_cast<const T*>(x);
  for (int64_t i = 0; i < count; ++i) to[i] = from[places[i]];
}

CopyPicked copy_of(uint32_t dtype) {
  switch (sdk::dtype_bytes(dtype)) {
    case 1:
      return copy_picked<uint8_t>;
    case 2:
      return copy_picked<uint16_t>;
    case 4:
      return copy_picked<uint32_t>;
    default:
      return copy_picked<uint64_t>;
  }
}

std::unique_ptr<GatherElementsPlan> make_plan(bp_device*, const bp_kernel_query& query,
                                              bp_plan_info* info) {
  const auto attrs = read_attributes(query.attributes, bp_attrs_gather_elements_defaults());
  auto plan = std::make_unique<GatherElementsPlan>();
  plan->axis = axis_from_front("gather_elements", attrs.axis, arg_info(query, 0).rank);
  info->flags = BP_PLAN_CAN_FAULT_BIT;
  return plan;
}

// Operand 0: y and the indices; operand 1: x, whose position along the axis the indices give.
Nest make_nest(const bp_tensor& x, const bp_tensor& indices, uint32_t axis) {
  Nest nest;
  for (uint32_t d = 0; d < x.rank; ++d) {
    nest.add_dimension(indices.sizes[d]);
    nest.strides[0][d] = indices.strides[d];
    nest.strides[1][d] = d == axis ? 0 : x.strides[d];
  }
  simplify(&nest, 2);
  return nest;
}

bp_status launch(const bp_launch_args& args) {
  const uint32_t axis = static_cast<const GatherElementsPlan*>(args.plan)->axis;
  const bp_tensor& x = input_of(args, 0);
  const bp_tensor& indices = input_of(args, 1);
  const Nest nest = make_nest(x, indices, axis);
  const FaultReport report = FaultReport::of(args, 1);
  if (nest.count > 0 && sdk::element_count(x) == 0) {
    sdk::refuse("gather_elements: x has no elements");
  }
  const IndexRow row{address_of(indices), 1, x.sizes[axis], x.strides[axis]};
  const ResolveIndices resolve = resolve_indices(indices.dtype);
  const CopyPicked copy = copy_of(x.dtype);
  const void* const x_data = address_of(x);
  void* const y_data = address_of(output_of(args));
  const int64_t step = nest.strides[1][nest.rank - 1];
  args.device->workers.for_ranges(nest.count, 4, [&](int64_t begin, int64_t end) noexcept {
    int64_t places[kPlaceBlock];
    walk_rows(nest, 2, begin, end, [&](const int64_t* offsets, int64_t count) {
      for (int64_t i = 0; i < count; i += kPlaceBlock) {
        const int64_t block = std::min(kPlaceBlock, count - i);
        resolve(report, row, offsets[0] + i, block, offsets[1] + i * step, step, places);
        copy(y_data, offsets[0] + i, x_data, places, block);
      }
    });
  });
  return BP_OK;
}

constexpr uint64_t kMasks[] = {kAnyTypes, kIndexTypes};

constexpr bp_kernel kKernels[] = {sdk::describe({.name = "gather_elements_loop",
                                                 .op = "gather_elements",
                                                 .dtypes = kMasks,
                                                 .plan = plan_slot<GatherElementsPlan, make_plan>,
                                                 .plan_free = sdk::delete_plan<bp_kernel_plan>,
                                                 .launch = launch_slot<launch>})};

}  // namespace

BP_SDK_KERNELS(gather_elements, kKernels);

}  // namespace bp::cpu
