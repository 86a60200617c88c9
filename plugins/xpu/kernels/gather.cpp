// SPDX-License-Identifier: Apache-2.0
//
// Plans of gather, gather_elements and gather_nd: where each operand is stepped through along the
// dimensions of the output.
#include <algorithm>

#include "backplane/ops/indexing.h"
#include "device.hpp"
#include "kernels/dtypes.hpp"
#include "kernels/nest.hpp"

namespace bp::xpu {
namespace {

ProgramSource gather_source(const bp_arg_info& x, const bp_arg_info& indices) {
  return program_of("gather.cl", define("BP_ELEMENT", element_type(x.dtype)) +
                                     define("BP_INDEX", dtype_name(indices.dtype)));
}

/// y has the dimensions of x before the axis, those of the indices, and those of x behind the axis.
Plan plan_gather(const Device&, const bp_kernel_query& query) {
  expect_inputs(query, 2);
  const bp_arg_info& x = argument(query, 0);
  const bp_arg_info& indices = argument(query, 1);
  const bp_arg_info& y = argument(query, 2);
  const uint32_t axis = axis_from_front(
      sdk::read_attributes(query.attributes, bp_attrs_gather_defaults()).axis, x.rank);
  if (y.rank + 1 != x.rank + indices.rank) {
    sdk::refuse("plan: gather to an output of rank ", y.rank);
  }
  GatherGeometry geometry{};
  geometry.item_count = element_count(y);
  geometry.rank = y.rank;
  std::copy_n(y.sizes, y.rank, geometry.sizes);
  std::copy_n(x.strides, axis, geometry.x_strides);
  std::copy_n(indices.strides, indices.rank, geometry.index_strides + axis);
  std::copy(x.strides + axis + 1, x.strides + x.rank, geometry.x_strides + axis + indices.rank);
  geometry.extent = x.sizes[axis];
  geometry.axis_stride = x.strides[axis];
  Step step(gather_source(x, indices), "gather", geometry);
  return {.steps = {step.items(geometry.item_count).add_fault()}};
}

/// y has the dimensions of the indices, and x moves as they do but along the axis.
Plan plan_gather_elements(const Device&, const bp_kernel_query& query) {
  expect_inputs(query, 2);
  const bp_arg_info& x = argument(query, 0);
  const bp_arg_info& indices = argument(query, 1);
  const uint32_t axis = axis_from_front(
      sdk::read_attributes(query.attributes, bp_attrs_gather_elements_defaults()).axis, x.rank);
  if (indices.rank != x.rank)
    sdk::refuse("plan: gather_elements by indices of rank ", indices.rank);
  GatherGeometry geometry{};
  geometry.item_count = element_count(indices);
  geometry.rank = x.rank;
  std::copy_n(indices.sizes, x.rank, geometry.sizes);
  std::copy_n(indices.strides, x.rank, geometry.index_strides);
  std::copy_n(x.strides, x.rank, geometry.x_strides);
  geometry.x_strides[axis] = 0;
  geometry.extent = x.sizes[axis];
  geometry.axis_stride = x.strides[axis];
  Step step(gather_source(x, indices), "gather", geometry);
  return {.steps = {step.items(geometry.item_count).add_fault()}};
}

/// y has the dimensions of the rows of indices, and those of x behind what a row names.
Plan plan_gather_nd(const Device&, const bp_kernel_query& query) {
  expect_inputs(query, 2);
  const bp_arg_info& x = argument(query, 0);
  const bp_arg_info& indices = argument(query, 1);
  const bp_arg_info& y = argument(query, 2);
  const int64_t batch =
      sdk::read_attributes(query.attributes, bp_attrs_gather_nd_defaults()).batch_dims;
  const int64_t rows = int64_t{indices.rank} - 1;
  const int64_t point = rows < 0 ? 0 : indices.sizes[rows];
  if (rows < 0 || batch < 0 || batch > rows || point > x.rank - batch ||
      y.rank != rows + x.rank - batch - point) {
    sdk::refuse("plan: gather_nd with batch_dims ", batch, " and rows of ", point, " indices");
  }
  GatherNdGeometry geometry{};
  geometry.rows.item_count = element_count(y);
  geometry.rows.rank = y.rank;
  std::copy_n(y.sizes, y.rank, geometry.rows.sizes);
  std::copy_n(x.strides, batch, geometry.rows.strides[0]);
  std::copy(x.strides + batch + point, x.strides + x.rank, geometry.rows.strides[0] + rows);
  std::copy_n(indices.strides, rows, geometry.rows.strides[1]);
  merge_dimensions(&geometry.rows);
  geometry.point_size = static_cast<uint64_t>(point);
  geometry.point_stride = indices.strides[rows];
  std::copy_n(x.sizes + batch, point, geometry.extents);
  std::copy_n(x.strides + batch, point, geometry.strides);
  Step step(gather_source(x, indices), "gather_nd", geometry);
  return {.steps = {step.items(geometry.rows.item_count).add_fault()}};
}

constexpr uint64_t kDtypes[] = {kUpTo8Bytes, kIndices};

constexpr bp_kernel kKernels[] = {
    describe<plan_gather>("gather_any", "gather", kDtypes, {.computes = false}),
    describe<plan_gather_elements>("gather_elements_any", "gather_elements", kDtypes,
                                   {.computes = false}),
    describe<plan_gather_nd>("gather_nd_any", "gather_nd", kDtypes, {.computes = false})};

}  // namespace

BP_SDK_KERNELS(gather, kKernels);

}  // namespace bp::xpu
