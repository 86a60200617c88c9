// SPDX-License-Identifier: Apache-2.0
//
// The plan of top_k.
#include <algorithm>
#include <array>
#include <span>

#include "backplane/ops/sorting.h"
#include "device.hpp"
#include "kernels/dtypes.hpp"
#include "kernels/nest.hpp"

namespace bp::xpu {
namespace {

std::string options_for(uint32_t dtype, bool largest) {
  std::string options =
      define("BP_DTYPE", dtype_name(dtype)) + define("BP_LARGEST", uint64_t{largest ? 1u : 0u});
  if (dtype == BP_DTYPE_F64) return options + define("BP_IS_F64", 1) + define("BP_KEY_BITS", 64);
  if (is_float(dtype)) return options + define("BP_IS_FLOAT", 1) + define("BP_KEY_BITS", 32);
  const uint64_t bits = 8 * sdk::dtype_bytes(dtype);
  const bool is_signed = unsigned_of(dtype) != dtype;
  return options + define("BP_KEY_BITS", bits) +
         define("BP_SIGN_BIT", is_signed ? uint64_t{1} << (bits - 1) : 0) + "UL";
}

/// By the axis, from the front: an axis of fewer than 2^32 elements.
constexpr auto kAxisRanges = [] {
  std::array<bp_size_range, BP_MAX_RANK> ranges{};
  for (int32_t axis = 0; axis < int32_t{BP_MAX_RANK}; ++axis)
    ranges[static_cast<size_t>(axis)] = {0, axis, 0, UINT32_MAX};
  return ranges;
}();

std::span<const bp_size_range> ranges_of(uint32_t axis) {
  return std::span(kAxisRanges).subspan(axis, 1);
}

sdk::Support support_top_k(bp_device* device, const bp_kernel_query& query) {
  constexpr uint64_t kLocalBytes =
      BP_XPU_DIGIT_VALUES * sizeof(uint32_t) + 2 * (BP_XPU_SORT_GROUP + 1) * sizeof(uint64_t);
  const auto attributes = sdk::read_attributes(query.attributes, bp_attrs_top_k_defaults());
  if (const char* const reason = why_not(*device, query)) return {.reason = reason};
  if (device->info().local_memory_bytes < kLocalBytes) return {.reason = "too little local memory"};
  const uint32_t rank = std::min<uint32_t>(sdk::arg_info(query, 0).rank, BP_MAX_RANK);
  return {.ranges = ranges_of(axis_from_front(attributes.axis, rank))};
}

uint64_t entry_bytes(uint32_t dtype) {
  return sdk::dtype_bytes(dtype) > sizeof(uint32_t) ? 2 * sizeof(uint64_t) : sizeof(uint64_t);
}

TopKGeometry make_geometry(const bp_arg_info& x, const bp_arg_info& y, uint32_t axis) {
  const LanesGeometry lanes = make_lanes(x, y, axis);
  TopKGeometry geometry{};
  geometry.lanes.item_count = lanes.lanes.item_count;
  geometry.lanes.rank = lanes.lanes.rank;
  std::copy_n(lanes.lanes.sizes, lanes.lanes.rank, geometry.lanes.sizes);
  std::copy_n(lanes.lanes.strides[0], lanes.lanes.rank, geometry.lanes.strides[0]);
  geometry.length = lanes.length;
  geometry.k = static_cast<uint64_t>(y.sizes[axis]);
  geometry.inner = 1;
  for (uint32_t d = axis + 1; d < x.rank; ++d) geometry.inner *= static_cast<uint64_t>(x.sizes[d]);
  geometry.step = lanes.x_step;
  geometry.run = BP_XPU_SORTED_BLOCK;
  geometry.is_last = geometry.k <= geometry.run ? 1 : 0;
  return geometry;
}

/// A step of `function` that reads entries in the workspace at `from` and leaves them at `to`.
Step make_step(const ProgramSource& source, const char* function, const TopKGeometry& geometry,
               Buffer from, Buffer to) {
  return Step(source, function, geometry)
      .buffers({Buffer::tensor(0), from, geometry.is_last != 0 ? Buffer::none() : to,
                Buffer::tensor(2), Buffer::tensor(3)});
}

/// Sorted blocks: of all elements, or of the best of each lane.
Step first_step(const ProgramSource& source, TopKGeometry geometry, uint64_t y_elements,
                Buffer from, Buffer to) {
  if (geometry.k < geometry.length) {
    const uint64_t lane_count = geometry.k == 0 ? 0 : geometry.lanes.item_count;
    return make_step(source, "select_best", geometry, from, to)
        .groups(lane_count, BP_XPU_SORT_GROUP);
  }
  geometry.item_count = y_elements;
  return make_step(source, "rank_all", geometry, Buffer::none(), to).items(y_elements);
}

Plan plan_top_k(const Device&, const bp_kernel_query& query) {
  expect_inputs(query, 2, 2);
  const auto attributes = sdk::read_attributes(query.attributes, bp_attrs_top_k_defaults());
  const bp_arg_info& x = argument(query, 0);
  const bp_arg_info& y = argument(query, 2);
  const uint32_t axis = axis_from_front(attributes.axis, x.rank);
  if (y.rank != x.rank || y.sizes[axis] > x.sizes[axis]) {
    sdk::refuse("plan: top_k of more elements than the axis has");
  }
  sdk::refuse_outside(query, ranges_of(axis));
  TopKGeometry geometry = make_geometry(x, y, axis);
  const uint64_t y_elements = element_count(y);
  const ProgramSource source =
      program_of("top_k.cl", options_for(x.dtype, attributes.largest != 0));
  const int64_t room_bytes = sdk::saturating_product(
      {static_cast<int64_t>(y_elements), static_cast<int64_t>(entry_bytes(x.dtype))});
  const auto rooms = static_cast<uint64_t>(room_bytes);
  Buffer from = Buffer::workspace(0);
  Buffer to = Buffer::workspace(rooms);
  Plan plan{.steps = {first_step(source, geometry, y_elements, from, to)}};
  const bool is_sort = geometry.k == geometry.length;
  plan.workspace_bytes = geometry.is_last == 0 ? 2 * rooms : is_sort ? 0 : rooms;
  geometry.item_count = y_elements / std::max<uint64_t>(geometry.k, 1) *
                        ((geometry.k + BP_XPU_MERGED - 1) / BP_XPU_MERGED);
  for (; geometry.is_last == 0; geometry.run *= 2) {
    std::swap(from, to);
    geometry.is_last = 2 * geometry.run >= geometry.k ? 1 : 0;
    plan.steps.push_back(
        make_step(source, "merge_runs", geometry, from, to).items(geometry.item_count));
  }
  return plan;
}

constexpr uint64_t kDtypes[] = {kNumbers};

constexpr bp_kernel kKernels[] = {
    describe<plan_top_k>("top_k_digits", "top_k", kDtypes,
                         {.arg_rules = kThenHost, .supports = sdk::support_slot<support_top_k>})};

}  // namespace

BP_SDK_KERNELS(top_k, kKernels);

}  // namespace bp::xpu
