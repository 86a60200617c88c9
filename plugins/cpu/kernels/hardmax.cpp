// SPDX-License-Identifier: Apache-2.0
//
// hardmax: zeros, and a one where the largest value of each lane is.
#include <algorithm>
#include <span>

#include "backplane/ops/softmax.h"
#include "element.hpp"
#include "indices.hpp"
#include "kernels/best.hpp"

namespace bp::cpu {
namespace {

struct Lanes {
  int64_t length = 1;
  int64_t inner = 1;  // lanes next to each other
  int64_t blocks = 1;
};

// Units: a lane each, or a block of lanes next to each other.
template <class T>
struct Hardmax {
  static void run(const Lanes& lanes, void* y_data, const void* x_data, int64_t begin,
                  int64_t end) {
    T* const y = static_cast<T*>(y_data);
    const T* const x = static_cast<const T*>(x_data);
    const T one = store<T>(Compute<T>{1});
    const T zero = store<T>(Compute<T>{0});
    Compute<T> best[kBestLanes];
    int64_t places[kBestLanes];
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t lane = unit % lanes.blocks * kBestLanes;
      const int64_t offset = unit / lanes.blocks * lanes.length * lanes.inner + lane;
      const int64_t count = std::min(kBestLanes, lanes.inner - lane);
      if (lanes.inner == 1) {
        const int64_t place = best_of_lane<true, false>(x + offset, lanes.length);
        std::fill_n(y + offset, lanes.length, zero);
        y[offset + place] = one;
        continue;
      }
      best_of_block<true, false>(x + offset, lanes.length, lanes.inner, count, best, places);
      for (int64_t k = 0; k < lanes.length; ++k) {
        T* const row = y + offset + k * lanes.inner;
        for (int64_t i = 0; i < count; ++i) row[i] = places[i] == k ? one : zero;
      }
    }
  }
};

constexpr auto kTable = float_table<Hardmax>();

bp_status launch(const bp_launch_args& args) {
  const bp_tensor& x = input_of(args, 0);
  const auto attrs = read_attributes(args.attributes, bp_attrs_hardmax_defaults());
  const uint32_t axis = axis_from_front("hardmax", attrs.axis, x.rank);
  Lanes lanes{.length = x.sizes[axis]};
  int64_t outer = 1;
  for (uint32_t d = 0; d < x.rank; ++d) {
    if (d < axis) outer *= x.sizes[d];
    if (d > axis) lanes.inner *= x.sizes[d];
  }
  if (outer == 0 || lanes.inner == 0) return BP_OK;
  if (lanes.length == 0) sdk::refuse("hardmax: an axis without elements");
  lanes.blocks = (lanes.inner - 1) / kBestLanes + 1;
  const int64_t cost =
      sdk::saturating_product({lanes.length, std::min(kBestLanes, lanes.inner), 3});
  std::byte* const y_data = address_of(output_of(args));
  const std::byte* const x_data = address_of(x);
  args.device->workers.for_ranges(outer * lanes.blocks, cost,
                                  [&](int64_t begin, int64_t end) noexcept {
                                    kTable[x.dtype](lanes, y_data, x_data, begin, end);
                                  });
  return BP_OK;
}

constexpr uint64_t kMasks[] = {kFloatTypes};

constexpr bp_kernel kKernels[] = {sdk::describe(
    {.name = "hardmax_loop", .op = "hardmax", .dtypes = kMasks, .launch = launch_slot<launch>})};

}  // namespace

BP_SDK_KERNELS(hardmax, kKernels);

}  // namespace bp::cpu
