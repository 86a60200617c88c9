// SPDX-License-Identifier: Apache-2.0
//
// argmax and argmin. How: best.hpp.
#include <algorithm>

#include "backplane/ops/sorting.h"
#include "element.hpp"
#include "indices.hpp"
#include "kernels/best.hpp"

namespace bp::cpu {
namespace {

struct Position {
  const void* x;
  int64_t* y;
  int64_t length;  // of a lane
  int64_t inner;   // lanes next to each other
};

// Units: a block of lanes each.
template <bool kLargest, bool kLastOfEqual, class T>
void find(const Position& call, int64_t begin, int64_t end) {
  const T* const x = static_cast<const T*>(call.x);
  if (call.inner == 1) {
    for (int64_t lane = begin; lane < end; ++lane) {
      call.y[lane] = best_of_lane<kLargest, kLastOfEqual>(x + lane * call.length, call.length);
    }
    return;
  }
  const int64_t block_count = (call.inner - 1) / kBestLanes + 1;
  Compute<T> best[kBestLanes];
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t outer = unit / block_count;
    const int64_t lane = unit % block_count * kBestLanes;
    best_of_block<kLargest, kLastOfEqual>(x + outer * call.length * call.inner + lane, call.length,
                                          call.inner, std::min(kBestLanes, call.inner - lane), best,
                                          call.y + outer * call.inner + lane);
  }
}

// By whether the last of equal ones is wanted.
template <class T>
struct FindMax {
  static void run(bool last, const Position& call, int64_t begin, int64_t end) {
    last ? find<true, true, T>(call, begin, end) : find<true, false, T>(call, begin, end);
  }
};
template <class T>
struct FindMin {
  static void run(bool last, const Position& call, int64_t begin, int64_t end) {
    last ? find<false, true, T>(call, begin, end) : find<false, false, T>(call, begin, end);
  }
};

constexpr auto kMax = number_table<FindMax>();
constexpr auto kMin = number_table<FindMin>();

template <class Attributes>
bp_status find_all(const bp_launch_args& args, const char* op, const Attributes& attrs,
                   decltype(&FindMax<float>::run) run) {
  const bp_tensor& x = input_of(args, 0);
  const uint32_t axis = axis_from_front(op, attrs.axis, x.rank);
  const bool last = attrs.select_last_index != 0;
  Position call{address_of(x), address_of<int64_t>(output_of(args)), x.sizes[axis], 1};
  int64_t outer = 1;
  for (uint32_t d = 0; d < x.rank; ++d) {
    if (d < axis) outer *= x.sizes[d];
    if (d > axis) call.inner *= x.sizes[d];
  }
  if (outer == 0 || call.inner == 0) return BP_OK;
  if (call.length == 0) sdk::refuse(op, ": an axis without elements");
  const int64_t units = outer * ((call.inner - 1) / kBestLanes + 1);
  const int64_t cost = sdk::saturating_product({call.length, std::min(kBestLanes, call.inner), 2});
  args.device->workers.for_ranges(
      units, cost, [&](int64_t begin, int64_t end) noexcept { run(last, call, begin, end); });
  return BP_OK;
}

bp_status launch_max(const bp_launch_args& args) {
  return find_all(args, "argmax", read_attributes(args.attributes, bp_attrs_argmax_defaults()),
                  kMax[input_of(args, 0).dtype]);
}

bp_status launch_min(const bp_launch_args& args) {
  return find_all(args, "argmin", read_attributes(args.attributes, bp_attrs_argmin_defaults()),
                  kMin[input_of(args, 0).dtype]);
}

constexpr uint64_t kMasks[] = {kNumberTypes};

constexpr bp_kernel kKernels[] = {sdk::describe({.name = "argmax_loop",
                                                 .op = "argmax",
                                                 .dtypes = kMasks,
                                                 .launch = launch_slot<launch_max>}),
                                  sdk::describe({.name = "argmin_loop",
                                                 .op = "argmin",
                                                 .dtypes = kMasks,
                                                 .launch = launch_slot<launch_min>})};

}  // namespace

BP_SDK_KERNELS(argmax, kKernels);

}  // namespace bp::cpu
