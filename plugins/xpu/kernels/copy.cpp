// SPDX-License-Identifier: Apache-2.0
//
// Plans of identity, with which the core makes tensors contiguous and writes into views, and of
// concat.
#include <algorithm>

#include "backplane/ops/movement.h"
#include "device.hpp"
#include "kernels/dtypes.hpp"
#include "kernels/nest.hpp"

namespace bp::xpu {
namespace {

ProgramSource copy_source(uint32_t dtype) {
  return program_of("copy.cl", define("BP_ELEMENT", element_type(dtype)));
}

/// Input `index` of the query to where element `start` of its output begins.
Step copy_part(const bp_kernel_query& query, uint32_t index, int64_t start) {
  const bp_arg_info& x = argument(query, index);
  const bp_arg_info& y = argument(query, query.input_count);
  PartGeometry geometry{};
  geometry.nest.item_count = element_count(x);
  geometry.nest.rank = y.rank;
  std::copy_n(x.sizes, y.rank, geometry.nest.sizes);
  std::copy_n(x.strides, y.rank, geometry.nest.strides[0]);
  std::copy_n(y.strides, y.rank, geometry.nest.strides[1]);
  geometry.start = start;
  merge_dimensions(&geometry.nest);
  Step step(copy_source(x.dtype), "copy_part", geometry);
  return step.items(geometry.nest.item_count)
      .buffers({Buffer::tensor(index), Buffer::tensor(query.input_count)});
}

bool is_contiguous(const bp_arg_info& argument) {
  int64_t expected = 1;
  for (uint32_t d = argument.rank; d-- > 0;) {
    if (argument.sizes[d] != 1 && argument.strides[d] != expected) return false;
    expected *= argument.sizes[d];
  }
  return true;
}

Plan plan_identity(const Device&, const bp_kernel_query& query) {
  expect_inputs(query, 1);
  if (!is_contiguous(argument(query, 1))) return {.steps = {copy_part(query, 0, 0)}};
  const auto nest = make_nest<Nest1>(query);
  Step step(copy_source(argument(query, 0).dtype),
            is_dense(nest, 1) ? "copy_dense" : "copy_strided", nest);
  return {.steps = {step.items(nest.item_count)}};
}

/// Each input to its part of the output.
Plan plan_concat(const Device&, const bp_kernel_query& query) {
  expect_inputs(query, query.input_count);
  const bp_arg_info& y = argument(query, query.input_count);
  const uint32_t axis = axis_from_front(
      sdk::read_attributes(query.attributes, bp_attrs_concat_defaults()).axis, y.rank);
  Plan plan;
  int64_t begin = 0;
  for (uint32_t i = 0; i < query.input_count; ++i) {
    const bp_arg_info& x = argument(query, i);
    if (x.rank != y.rank) sdk::refuse("plan: concat of rank ", x.rank, " to rank ", y.rank);
    plan.steps.push_back(copy_part(query, i, begin * y.strides[axis]));
    begin += x.sizes[axis];
  }
  if (begin != y.sizes[axis]) sdk::refuse("plan: concat of ", begin, " to ", y.sizes[axis]);
  return plan;
}

constexpr uint64_t kDtypes[] = {kUpTo16Bytes};

constexpr bp_kernel kKernels[] = {
    describe<plan_identity>("identity_copy", "identity", kDtypes,
                            {.computes = false, .flags = BP_KERNEL_STRIDED_OUTPUTS_BIT}),
    describe<plan_concat>("concat_copies", "concat", kDtypes, {.computes = false})};

}  // namespace

BP_SDK_KERNELS(copy, kKernels);

}  // namespace bp::xpu
