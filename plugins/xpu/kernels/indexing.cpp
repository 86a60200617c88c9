// SPDX-License-Identifier: Apache-2.0
//
// Plans of gather and non_zero: where each operand is stepped through along the dimensions of the
// output, or of the input whose elements are counted.
#include "backplane/ops/indexing.h"

#include <algorithm>
#include <string>

#include "device.hpp"
#include "kernels/dtypes.hpp"
#include "kernels/kernel.hpp"

namespace bp::xpu {
namespace {

int64_t axis_of(const bp_kernel_query& query) {
  const bp_attrs_gather attributes =
      sdk::read_attributes(query.attributes, bp_attrs_gather_defaults());
  const int64_t rank = argument(query, 0).rank;
  const int64_t axis = attributes.axis < 0 ? attributes.axis + rank : attributes.axis;
  if (axis >= 0 && axis < rank) return axis;
  throw sdk::Failure{BP_INVALID_ARGUMENT, "plan: gather along axis " +
                                              std::to_string(attributes.axis) + " of rank " +
                                              std::to_string(rank)};
}

/// y has the dimensions of x before the axis, those of the indices, and those of x behind the axis.
Plan plan_gather(const Device&, const bp_kernel_query& query) {
  expect_inputs(query, 2);
  const bp_arg_info& x = argument(query, 0);
  const bp_arg_info& indices = argument(query, 1);
  const bp_arg_info& y = argument(query, 2);
  const auto axis = static_cast<uint32_t>(axis_of(query));
  if (y.rank + 1 != x.rank + indices.rank) {
    throw sdk::Failure{BP_INVALID_ARGUMENT,
                       "plan: gather to an output of rank " + std::to_string(y.rank)};
  }
  GatherGeometry geometry{};
  geometry.item_count = 1;
  geometry.rank = y.rank;
  for (uint32_t d = 0; d < y.rank; ++d) {
    geometry.sizes[d] = static_cast<uint64_t>(y.sizes[d]);
    geometry.item_count *= geometry.sizes[d];
  }
  std::copy_n(x.strides, axis, geometry.x_strides);
  std::copy_n(indices.strides, indices.rank, geometry.index_strides + axis);
  std::copy(x.strides + axis + 1, x.strides + x.rank, geometry.x_strides + axis + indices.rank);
  geometry.extent = x.sizes[axis];
  geometry.axis_stride = x.strides[axis];
  Step step(program_of("indexing.cl", define("BP_ELEMENT", element_type(x.dtype)) +
                                          define("BP_INDEX", dtype_name(indices.dtype))),
            "gather", geometry);
  return {.steps = {step.items(geometry.item_count).add_fault()}};
}

/// The bits of an element that make it differ from 0: the sign of a float does not.
uint64_t value_bits(uint32_t dtype) {
  switch (dtype) {
    case BP_DTYPE_F8E4M3FN:
    case BP_DTYPE_F8E5M2:
      return 0x7F;
    case BP_DTYPE_F16:
    case BP_DTYPE_BF16:
      return 0x7FFF;
    case BP_DTYPE_F32:
      return 0x7FFF'FFFF;
    case BP_DTYPE_F64:
      return 0x7FFF'FFFF'FFFF'FFFF;
    case BP_DTYPE_C64:
      return 0x7FFF'FFFF'7FFF'FFFF;
    default:  // integers, bool, and the f8 kinds without a -0
      return UINT64_MAX;
  }
}

Plan plan_non_zero(const Device&, const bp_kernel_query& query) {
  expect_inputs(query, 1);
  const bp_arg_info& x = argument(query, 0);
  const bp_arg_info& y = argument(query, 1);
  if (y.rank != 2) {
    throw sdk::Failure{BP_INVALID_ARGUMENT,
                       "plan: non_zero to an output of rank " + std::to_string(y.rank)};
  }
  NonZeroGeometry geometry{};
  geometry.element_count = 1;
  geometry.value_bits = value_bits(x.dtype);
  geometry.row_stride = static_cast<uint64_t>(y.sizes[1]);
  geometry.rank = x.rank;
  for (uint32_t d = 0; d < x.rank; ++d) {
    geometry.sizes[d] = static_cast<uint64_t>(x.sizes[d]);
    geometry.strides[d] = x.strides[d];
    geometry.element_count *= geometry.sizes[d];
  }
  Step step(program_of("indexing.cl",
                       define("BP_ELEMENT", element_type(x.dtype)) + define("BP_INDEX", "i64")),
            "non_zero", geometry);
  return {.steps = {step.groups(1, BP_XPU_NON_ZERO_GROUP).add_extents()}};
}

constexpr uint64_t kGatherDtypes[] = {kUpTo8Bytes, kIndices};
constexpr uint64_t kNonZeroDtypes[] = {kUpTo8Bytes};

constexpr bp_kernel kKernels[] = {
    describe<plan_gather>("gather_any", "gather", kGatherDtypes, Work::kMoves),
    describe<plan_non_zero>("non_zero_any", "non_zero", kNonZeroDtypes, Work::kMoves)};

}  // namespace

BP_SDK_KERNELS(indexing, kKernels);

}  // namespace bp::xpu
