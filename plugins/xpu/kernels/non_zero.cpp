// SPDX-License-Identifier: Apache-2.0
//
// Plans of non_zero and compress, whose outputs are as large as the data says.
#include <algorithm>

#include "backplane/ops/indexing.h"
#include "device.hpp"
#include "kernels/dtypes.hpp"
#include "kernels/kernel.hpp"

namespace bp::xpu {
namespace {

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

ProgramSource source_for(const bp_arg_info& x) {
  return program_of("non_zero.cl", define("BP_ELEMENT", element_type(x.dtype)));
}

Plan plan_non_zero(const Device&, const bp_kernel_query& query) {
  expect_inputs(query, 1);
  const bp_arg_info& x = argument(query, 0);
  const bp_arg_info& y = argument(query, 1);
  if (y.rank != 2) sdk::refuse("plan: non_zero to an output of rank ", y.rank);
  NonZeroGeometry geometry{};
  geometry.element_count = element_count(x);
  geometry.value_bits = value_bits(x.dtype);
  geometry.row_stride = static_cast<uint64_t>(y.sizes[1]);
  geometry.rank = x.rank;
  std::copy_n(x.sizes, x.rank, geometry.sizes);
  std::copy_n(x.strides, x.rank, geometry.strides);
  Step step(source_for(x), "non_zero", geometry);
  return {.steps = {step.groups(1, BP_XPU_NON_ZERO_GROUP).add_extents()}};
}

Plan plan_compress(const Device&, const bp_kernel_query& query) {
  expect_inputs(query, 2);
  const bp_arg_info& x = argument(query, 0);
  const bp_arg_info& condition = argument(query, 1);
  const bp_arg_info& y = argument(query, 2);
  const uint32_t axis = axis_from_front(
      sdk::read_attributes(query.attributes, bp_attrs_compress_defaults()).axis, x.rank);
  if (condition.rank != 1 || y.rank != x.rank) {
    sdk::refuse("plan: compress by a condition of rank ", condition.rank);
  }
  CompressGeometry geometry{};
  geometry.item_count = element_count(y);
  geometry.told =
      static_cast<uint64_t>(std::min({condition.sizes[0], x.sizes[axis], y.sizes[axis]}));
  geometry.condition_stride = condition.strides[0];
  geometry.axis = axis;
  geometry.inner = 1;
  for (uint32_t d = axis + 1; d < y.rank; ++d) geometry.inner *= static_cast<uint64_t>(y.sizes[d]);
  geometry.axis_stride = x.strides[axis];
  geometry.y_rank = y.rank;
  std::copy_n(y.sizes, y.rank, geometry.y_sizes);
  std::copy_n(x.strides, x.rank, geometry.x_strides);
  geometry.x_strides[axis] = 0;
  Step places(source_for(x), "compress_places", geometry);
  Step copy(source_for(x), "compress_copy", geometry);
  return {.steps = {places.groups(1, BP_XPU_NON_ZERO_GROUP)
                        .buffers({Buffer::tensor(1), Buffer::workspace(0)})
                        .add_extents(),
                    copy.items(geometry.item_count)
                        .buffers({Buffer::tensor(0), Buffer::workspace(0), Buffer::tensor(2)})},
          .workspace_bytes = (geometry.told + 1) * sizeof(uint64_t)};
}

constexpr uint64_t kDtypes[] = {kUpTo8Bytes};

constexpr bp_kernel kKernels[] = {
    describe<plan_non_zero>("non_zero_any", "non_zero", kDtypes, {.computes = false}),
    describe<plan_compress>("compress_any", "compress", kDtypes, {.computes = false})};

}  // namespace

BP_SDK_KERNELS(non_zero, kKernels);

}  // namespace bp::xpu
