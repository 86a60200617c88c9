// SPDX-License-Identifier: Apache-2.0
//
// Plans of the normalizations, which would be some eight launches each as decompositions.
#include <algorithm>
#include <bit>

#include "backplane/ops/nn.h"
#include "backplane/ops/normalization.h"
#include "device.hpp"
#include "kernels/dtypes.hpp"
#include "kernels/nest.hpp"

namespace bp::xpu {
namespace {

/// Rows of x, each of the elements from dimension `first` on of the dimensions `sizes` of x seen as
/// another tensor; the strides of scale and bias are along those.
struct Rows {
  uint32_t rank = 0;
  uint64_t sizes[BP_XPU_MAX_RANK] = {};
  int64_t scale_strides[BP_XPU_MAX_RANK] = {};
  int64_t bias_strides[BP_XPU_MAX_RANK] = {};
  uint32_t first = 0;
};

Plan plan_rows(const bp_kernel_query& query, const Rows& rows, double epsilon, bool centres) {
  NormGeometry geometry{};
  geometry.length = 1;
  for (uint32_t d = rows.first; d < rows.rank; ++d) geometry.length *= rows.sizes[d];
  geometry.epsilon = static_cast<float>(epsilon);
  geometry.epsilon_bits = std::bit_cast<uint64_t>(epsilon);
  geometry.parameters.item_count = element_count(argument(query, 0));
  geometry.parameters.rank = rows.rank;
  std::copy_n(rows.sizes, rows.rank, geometry.parameters.sizes);
  std::copy_n(rows.scale_strides, rows.rank, geometry.parameters.strides[0]);
  std::copy_n(rows.bias_strides, rows.rank, geometry.parameters.strides[1]);
  merge_dimensions(&geometry.parameters);
  const uint64_t row_count =
      geometry.length == 0 ? 0 : geometry.parameters.item_count / geometry.length;
  Step step(program_of("norm.cl", accumulate(argument(query, 0).dtype)),
            centres ? "center_and_scale" : "scale_rows", geometry);
  return {.steps = {step.groups(row_count, BP_XPU_PARTS)
                        .buffers({Buffer::tensor(0), Buffer::tensor(1),
                                  query.input_count == 3 ? Buffer::tensor(2) : Buffer::none(),
                                  Buffer::tensor(query.input_count)})}};
}

/// Of the dimensions from `axis` on, with parameters that broadcast to x.
Plan plan_from_axis(const bp_kernel_query& query, int64_t axis, double epsilon, bool centres) {
  const bp_arg_info& x = argument(query, 0);
  Rows rows;
  rows.rank = x.rank;
  std::copy_n(x.sizes, x.rank, rows.sizes);
  broadcast_strides(argument(query, 1), x.sizes, x.rank, rows.scale_strides);
  if (sdk::has_input(query, 2)) {
    broadcast_strides(argument(query, 2), x.sizes, x.rank, rows.bias_strides);
  }
  rows.first = axis_from_front(axis, x.rank);
  return plan_rows(query, rows, epsilon, centres);
}

/// Of groups of channels, with a parameter for each channel.
Plan plan_of_channels(const bp_kernel_query& query, int64_t groups, double epsilon) {
  expect_inputs(query, 3);
  const bp_arg_info& x = argument(query, 0);
  const bp_arg_info& scale = argument(query, 1);
  const bp_arg_info& bias = argument(query, 2);
  if (x.rank < 2 || scale.rank != 1 || bias.rank != 1 || scale.sizes[0] != x.sizes[1] ||
      bias.sizes[0] != x.sizes[1] || groups < 0 || (groups == 0 && x.sizes[1] != 0) ||
      (groups > 0 && x.sizes[1] % groups != 0)) {
    sdk::refuse("plan: a normalization of ", groups, " groups with parameters of other channels");
  }
  Rows rows;
  rows.rank = 4;
  rows.sizes[0] = static_cast<uint64_t>(x.sizes[0]);
  rows.sizes[1] = static_cast<uint64_t>(groups);
  rows.sizes[2] = groups == 0 ? 0 : static_cast<uint64_t>(x.sizes[1] / groups);
  rows.sizes[3] = 1;
  for (uint32_t d = 2; d < x.rank; ++d) rows.sizes[3] *= static_cast<uint64_t>(x.sizes[d]);
  rows.scale_strides[1] = scale.strides[0] * static_cast<int64_t>(rows.sizes[2]);
  rows.scale_strides[2] = scale.strides[0];
  rows.bias_strides[1] = bias.strides[0] * static_cast<int64_t>(rows.sizes[2]);
  rows.bias_strides[2] = bias.strides[0];
  rows.first = 2;
  return plan_rows(query, rows, epsilon, true);
}

Plan plan_layer_norm(const Device&, const bp_kernel_query& query) {
  if (query.input_count != 2) expect_inputs(query, 3);
  const auto attributes = sdk::read_attributes(query.attributes, bp_attrs_layer_norm_defaults());
  return plan_from_axis(query, attributes.axis, attributes.epsilon, true);
}

Plan plan_rms_norm(const Device&, const bp_kernel_query& query) {
  expect_inputs(query, 2);
  const auto attributes = sdk::read_attributes(query.attributes, bp_attrs_rms_norm_defaults());
  return plan_from_axis(query, attributes.axis, attributes.epsilon, false);
}

Plan plan_instance_norm(const Device&, const bp_kernel_query& query) {
  const bp_arg_info& x = argument(query, 0);
  const auto attributes = sdk::read_attributes(query.attributes, bp_attrs_instance_norm_defaults());
  return plan_of_channels(query, x.rank < 2 ? 0 : x.sizes[1], attributes.epsilon);
}

Plan plan_group_norm(const Device&, const bp_kernel_query& query) {
  const auto attributes = sdk::read_attributes(query.attributes, bp_attrs_group_norm_defaults());
  return plan_of_channels(query, attributes.num_groups, attributes.epsilon);
}

Plan plan_batch_norm(const Device&, const bp_kernel_query& query) {
  expect_inputs(query, 5);
  const auto attributes = sdk::read_attributes(query.attributes, bp_attrs_batch_norm_defaults());
  const bp_arg_info& x = argument(query, 0);
  const int64_t channels = x.rank < 2 ? 1 : x.sizes[1];
  BatchNormGeometry geometry{};
  geometry.x.item_count = element_count(x);
  geometry.x.rank = x.rank;
  std::copy_n(x.sizes, x.rank, geometry.x.sizes);
  std::copy_n(x.strides, x.rank, geometry.x.strides[0]);
  merge_dimensions(&geometry.x);
  geometry.channels = static_cast<uint64_t>(channels);
  geometry.inner = 1;
  for (uint32_t d = 2; d < x.rank; ++d) geometry.inner *= static_cast<uint64_t>(x.sizes[d]);
  const double epsilon = attributes.epsilon;
  geometry.epsilon = static_cast<float>(epsilon);
  geometry.epsilon_bits = std::bit_cast<uint64_t>(epsilon);
  for (uint32_t i = 0; i < 4; ++i) {
    const bp_arg_info& parameter = argument(query, i + 1);
    if (parameter.rank != 1 || parameter.sizes[0] != channels) {
      sdk::refuse("plan: batch_norm with parameters that are not one value for each channel");
    }
    geometry.strides[i] = parameter.strides[0];
  }
  Step step(program_of("norm.cl", accumulate(x.dtype)), "batch_norm", geometry);
  return {.steps = {step.items(geometry.x.item_count)}};
}

constexpr uint64_t kDtypes[] = {kFloats};

/// x contiguous, parameters with any strides.
constexpr const bp_arg_rule* kContiguousRows[] = {&kContiguousRule, &sdk::kAnyStridesRule};

constexpr bp_kernel kKernels[] = {
    describe<plan_batch_norm>("batch_norm_float", "batch_norm", kDtypes),
    describe<plan_layer_norm>("layer_norm_float", "layer_norm", kDtypes,
                              {.arg_rules = kContiguousRows}),
    describe<plan_rms_norm>("rms_norm_float", "rms_norm", kDtypes, {.arg_rules = kContiguousRows}),
    describe<plan_instance_norm>("instance_norm_float", "instance_norm", kDtypes,
                                 {.arg_rules = kContiguousRows}),
    describe<plan_group_norm>("group_norm_float", "group_norm", kDtypes,
                              {.arg_rules = kContiguousRows})};

}  // namespace

BP_SDK_KERNELS(norm, kKernels);

}  // namespace bp::xpu
