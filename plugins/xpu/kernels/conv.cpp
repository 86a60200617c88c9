// SPDX-License-Identifier: Apache-2.0
//
// Plans of conv: as a matrix product by tiles in local memory, or one element of y at a time where
// groups have few channels.
#include "backplane/ops/nn.h"
#include "device.hpp"
#include "kernels/dtypes.hpp"
#include "kernels/window.hpp"

namespace bp::xpu {
namespace {

constexpr uint32_t kItemsPerGroup = 32;  // few, since each does much and groups are shared out

ConvGeometry make_geometry(const bp_kernel_query& query) {
  const auto attributes = sdk::read_attributes(query.attributes, bp_attrs_conv_defaults());
  const bp_arg_info& x = argument(query, 0);
  const bp_arg_info& w = argument(query, 1);
  const bp_arg_info& y = argument(query, query.input_count);
  const auto groups = attributes.group;
  if (w.rank != x.rank || y.rank != x.rank || x.rank < 3 || groups < 1 ||
      x.sizes[1] != w.sizes[1] * groups || w.sizes[0] % groups != 0 || y.sizes[1] != w.sizes[0] ||
      y.sizes[0] != x.sizes[0]) {
    sdk::refuse("plan: conv of x, w and y whose channels do not fit ", groups, " groups");
  }
  ConvGeometry geometry{};
  geometry.window = make_window(
      x, y, {w.sizes + 2, uint64_t{w.rank} - 2},
      {.strides = attributes.strides, .pads = attributes.pads, .dilations = attributes.dilations});
  geometry.item_count = element_count(y);
  geometry.groups = static_cast<uint64_t>(groups);
  geometry.group_in = static_cast<uint64_t>(w.sizes[1]);
  geometry.group_out = static_cast<uint64_t>(w.sizes[0] / groups);
  copy_strides(x, geometry.x_strides);
  copy_strides(w, geometry.w_strides);
  if (sdk::has_input(query, 2)) {
    const bp_arg_info& b = argument(query, 2);
    if (b.rank != 1 || b.sizes[0] != w.sizes[0]) {
      sdk::refuse("plan: conv with a bias that is not one value for each channel");
    }
    geometry.b_stride = b.strides[0];
  }
  return geometry;
}

uint64_t parts(uint64_t count, uint64_t size) { return (count + size - 1) / size; }

/// Strips in registers for processors, tiles in local memory where that is faster than the rest of
/// it, or rows are short; one element at a time where groups have few channels.
Step choose_step(const Device& device, const ProgramSource& source, uint64_t images,
                 ConvGeometry geometry) {
  const auto* const out = geometry.window.out;
  const auto rows = static_cast<uint64_t>(out[0] * out[1]);
  const auto width = static_cast<uint64_t>(out[2]);
  const uint64_t planes = images * geometry.groups;
  const bool prefers_tiles = device.info().has_fast_local_memory || width < 4;
  if (prefers_tiles && geometry.group_out >= BP_XPU_TILE_SIDE && can_tile(device)) {
    return Step(source, "conv_tile", geometry)
        .groups(planes * parts(geometry.group_out, BP_XPU_TILE) * parts(rows * width, BP_XPU_TILE),
                BP_XPU_TILE_ITEMS);
  }
  if (width >= 4) {
    geometry.item_count =
        planes * parts(geometry.group_out, BP_XPU_STRIP_CHANNELS) * rows * parts(width, 8);
    return Step(source, "conv_strip", geometry).items(geometry.item_count, kItemsPerGroup);
  }
  return Step(source, "conv_direct", geometry).items(geometry.item_count, kItemsPerGroup);
}

Plan plan_conv(const Device& device, const bp_kernel_query& query) {
  if (query.input_count < 2 || query.input_count > 3 || query.output_count != 1) {
    expect_inputs(query, 3);
  }
  ConvGeometry geometry = make_geometry(query);
  std::vector<Buffer> buffers{Buffer::tensor(0), Buffer::tensor(1),
                              query.input_count == 3 ? Buffer::tensor(2) : Buffer::none(),
                              Buffer::tensor(query.input_count)};
  const ProgramSource source = program_of("conv.cl", accumulate(argument(query, 0).dtype));
  const auto images = static_cast<uint64_t>(argument(query, 0).sizes[0]);
  Step step = choose_step(device, source, images, geometry);
  return {.steps = {step.buffers(std::move(buffers))}};
}

constexpr uint64_t kDtypes[] = {kFloats};

constexpr bp_kernel kKernels[] = {describe<plan_conv>("conv_float", "conv", kDtypes)};

}  // namespace

BP_SDK_KERNELS(conv, kKernels);

}  // namespace bp::xpu
