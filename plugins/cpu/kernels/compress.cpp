// SPDX-License-Identifier: Apache-2.0
//
// compress: the slices whose condition is true, copied as bytes. The output was allocated for as
// many as the condition has; the real size goes to out_extents, and rows stay where that puts them.
#include <algorithm>
#include <cstring>

#include "backplane/ops/indexing.h"
#include "indices.hpp"

namespace bp::cpu {
namespace {

bp_status launch(const bp_launch_args& args) {
  const bp_tensor& x = input_of(args, 0);
  const bp_tensor& condition = input_of(args, 1);
  const bp_tensor& y = output_of(args);
  const auto attrs = read_attributes(args.attributes, bp_attrs_compress_defaults());
  const uint32_t axis = axis_from_front("compress", attrs.axis, x.rank);
  if (args.out_extents.handle == 0) sdk::refuse("compress: the launch has no place for real sizes");
  const auto* const keep = address_of<const uint8_t>(condition);
  const int64_t told = std::min(condition.sizes[0], x.sizes[axis]);
  int64_t* const extents = address_of<int64_t>(args.out_extents);
  std::copy_n(y.sizes, y.rank, extents);
  extents[axis] = std::count_if(keep, keep + told, [](uint8_t kept) { return kept != 0; });
  int64_t outer = 1;
  int64_t slice_bytes = static_cast<int64_t>(sdk::dtype_bytes(x.dtype));
  for (uint32_t d = 0; d < x.rank; ++d) {
    if (d < axis) outer *= x.sizes[d];
    if (d > axis) slice_bytes *= x.sizes[d];
  }
  if (outer == 0 || slice_bytes == 0 || extents[axis] == 0) return BP_OK;
  const std::byte* const from = address_of(x);
  std::byte* const to = address_of(y);
  const int64_t x_bytes = x.sizes[axis] * slice_bytes;
  const int64_t y_bytes = y.sizes[axis] * slice_bytes;
  const int64_t cost = told + extents[axis] * (slice_bytes / 16 + 1);
  args.device->workers.for_ranges(outer, cost, [&](int64_t begin, int64_t end) noexcept {
    for (int64_t i = begin; i < end; ++i) {
      std::byte* next = to + i * y_bytes;
      for (int64_t k = 0; k < told;) {
        if (keep[k] == 0) {
          ++k;
          continue;
        }
        const int64_t first = k;  // neighbours that are kept are copied as one
        while (k < told && keep[k] != 0) ++k;
        const int64_t bytes = (k - first) * slice_bytes;
        std::memcpy(next, from + i * x_bytes + first * slice_bytes, static_cast<size_t>(bytes));
        next += bytes;
      }
    }
  });
  return BP_OK;
}

constexpr uint64_t kMasks[] = {kAnyTypes};

constexpr bp_kernel kKernels[] = {sdk::describe(
    {.name = "compress_loop", .op = "compress", .dtypes = kMasks, .launch = launch_slot<launch>})};

}  // namespace

BP_SDK_KERNELS(compress, kKernels);

}  // namespace bp::cpu
