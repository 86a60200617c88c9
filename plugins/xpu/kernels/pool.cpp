// SPDX-License-Identifier: Apache-2.0
//
// Plans of max_pool, max_pool_indices and average_pool.
#include "backplane/ops/pooling.h"
#include "device.hpp"
#include "kernels/dtypes.hpp"
#include "kernels/window.hpp"

namespace bp::xpu {
namespace {

template <class Attributes>
PoolGeometry make_geometry(const bp_kernel_query& query, const Attributes& attributes) {
  const bp_arg_info& x = argument(query, 0);
  const bp_arg_info& y = argument(query, 1);
  PoolGeometry geometry{};
  geometry.window = make_window(
      x, y, attributes.kernel_shape,
      {.strides = attributes.strides, .pads = attributes.pads, .dilations = attributes.dilations});
  geometry.item_count = element_count(y);
  geometry.channels = static_cast<uint64_t>(x.sizes[1]);
  copy_strides(x, geometry.x_strides);
  return geometry;
}

Plan plan_max_pool(const Device&, const bp_kernel_query& query) {
  expect_inputs(query, 1);
  const PoolGeometry geometry =
      make_geometry(query, sdk::read_attributes(query.attributes, bp_attrs_max_pool_defaults()));
  Step step(program_of("pool.cl", define("BP_DTYPE", dtype_name(argument(query, 0).dtype))),
            "max_pool", geometry);
  return {.steps = {step.items(geometry.item_count)}};
}

Plan plan_max_pool_indices(const Device&, const bp_kernel_query& query) {
  expect_inputs(query, 1, 2);
  const auto attributes =
      sdk::read_attributes(query.attributes, bp_attrs_max_pool_indices_defaults());
  PoolGeometry geometry = make_geometry(query, attributes);
  geometry.first_dimension_fastest = attributes.storage_order != 0 ? 1 : 0;
  Step step(program_of("pool.cl", define("BP_DTYPE", dtype_name(argument(query, 0).dtype))),
            "max_pool_indices", geometry);
  return {.steps = {step.items(geometry.item_count)}};
}

Plan plan_average_pool(const Device&, const bp_kernel_query& query) {
  expect_inputs(query, 1);
  const auto attributes = sdk::read_attributes(query.attributes, bp_attrs_average_pool_defaults());
  PoolGeometry geometry = make_geometry(query, attributes);
  geometry.counts_padding = attributes.count_include_pad != 0 ? 1 : 0;
  Step step(program_of("pool.cl", accumulate(argument(query, 0).dtype)), "average_pool", geometry);
  return {.steps = {step.items(geometry.item_count)}};
}

constexpr uint64_t kAny[] = {kNumbers};
constexpr uint64_t kOfFloats[] = {kFloats};

constexpr bp_kernel kKernels[] = {
    describe<plan_max_pool>("max_pool_number", "max_pool", kAny),
    describe<plan_max_pool_indices>("max_pool_indices_number", "max_pool_indices", kAny),
    describe<plan_average_pool>("average_pool_float", "average_pool", kOfFloats)};

}  // namespace

BP_SDK_KERNELS(pool, kKernels);

}  // namespace bp::xpu
