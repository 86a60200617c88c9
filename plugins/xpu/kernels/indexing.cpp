// SPDX-License-Identifier: Apache-2.0
//
// Plans of gather and non_zero: where each operand is stepped through along the dimensions of the
// output, or of the input whose elements are counted.
#include "backplane/ops/indexing.h"

#include <algorithm>
#include <array>
#include <string>

#include "device.hpp"
#include "kernels/kernel.hpp"

namespace bp::xpu {
namespace {

constexpr uint32_t kGroupSize = 256;

uint64_t element_bytes_of(const bp_arg_info& info) {
  const uint64_t bytes = sdk::dtype_bytes(info.dtype);
  if (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8) return bytes;
  throw sdk::Failure{BP_INVALID_ARGUMENT,
                     "plan: an element of dtype code " + std::to_string(info.dtype)};
}

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

const char* gather_function(uint64_t element_bytes, uint32_t index_dtype) {
  constexpr std::array<const char*, 4> kOfI32 = {"gather_1_i32", "gather_2_i32", "gather_4_i32",
                                                 "gather_8_i32"};
  constexpr std::array<const char*, 4> kOfI64 = {"gather_1_i64", "gather_2_i64", "gather_4_i64",
                                                 "gather_8_i64"};
  const auto row = static_cast<size_t>(element_bytes == 8 ? 3 : element_bytes / 2);
  return index_dtype == BP_DTYPE_I32 ? kOfI32[row] : kOfI64[row];
}

/// y has the dimensions of x before the axis, those of the indices, and those of x behind the axis.
Plan plan_gather(const bp_kernel_query& query) {
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
  return Plan(ProgramId::kIndexing, gather_function(element_bytes_of(x), indices.dtype), kGroupSize,
              geometry)
      .with_fault();
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

Plan plan_non_zero(const bp_kernel_query& query) {
  expect_inputs(query, 1);
  const bp_arg_info& x = argument(query, 0);
  const bp_arg_info& y = argument(query, 1);
  if (y.rank != 2) {
    throw sdk::Failure{BP_INVALID_ARGUMENT,
                       "plan: non_zero to an output of rank " + std::to_string(y.rank)};
  }
  NonZeroGeometry geometry{};
  geometry.item_count = 1;  // rounded up to one group, also where there are no elements to count
  geometry.element_count = 1;
  geometry.element_bytes = element_bytes_of(x);
  geometry.value_bits = value_bits(x.dtype);
  geometry.row_stride = static_cast<uint64_t>(y.sizes[1]);
  geometry.rank = x.rank;
  for (uint32_t d = 0; d < x.rank; ++d) {
    geometry.sizes[d] = static_cast<uint64_t>(x.sizes[d]);
    geometry.strides[d] = x.strides[d];
    geometry.element_count *= geometry.sizes[d];
  }
  return Plan(ProgramId::kIndexing, "non_zero", BP_XPU_NON_ZERO_GROUP, geometry).with_extents();
}

constexpr uint64_t kGatherDtypes[] = {kUpTo8Bytes, sdk::dtypes({BP_DTYPE_I32, BP_DTYPE_I64})};
constexpr uint64_t kNonZeroDtypes[] = {kUpTo8Bytes};

constexpr bp_kernel kKernels[] = {
    describe<plan_gather>("gather_any", "gather", kGatherDtypes),
    describe<plan_non_zero>("non_zero_any", "non_zero", kNonZeroDtypes)};

}  // namespace

BP_SDK_KERNELS(indexing, kKernels);

}  // namespace bp::xpu
