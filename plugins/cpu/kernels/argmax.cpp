// SPDX-License-Identifier: Apache-2.0
//
// argmax and argmin. Neighbouring lanes are worked on together; where the axis is the last one, a
// lane is cut into strands that count as neighbours, and the best of them is chosen at the end.
#include <algorithm>

#include "backplane/ops/sorting.h"
#include "element.hpp"
#include "indices.hpp"

namespace bp::cpu {
namespace {

constexpr int64_t kLanes = 32;

struct Position {
  const void* x;
  int64_t* y;
  int64_t length;  // of a lane
  int64_t inner;   // lanes next to each other
};

template <bool kLargest, class C>
bool before(C a, C b) {
  const bool wins = kLargest ? a > b : a < b;
  return wins || (a != a && b == b);
}

// Lanes [0, count) next to each other, each `length` values with `stride` between them.
template <bool kLargest, bool kLastOfEqual, class T>
void best_of_block(const T* x, int64_t length, int64_t stride, int64_t count, Compute<T>* best,
                   int64_t* places) {
  using C = Compute<T>;
  for (int64_t i = 0; i < count; ++i) {
    best[i] = load(x[i]);
    places[i] = 0;
  }
  for (int64_t k = 1; k < length; ++k) {
    const T* const row = x + k * stride;
    for (int64_t i = 0; i < count; ++i) {
      const C value = load(row[i]);
      const bool taken =
          kLastOfEqual ? !before<kLargest>(best[i], value) : before<kLargest>(value, best[i]);
      best[i] = taken ? value : best[i];
      places[i] = taken ? k : places[i];
    }
  }
}

// A lane of elements next to each other.
template <bool kLargest, bool kLastOfEqual, class T>
int64_t best_of_lane(const T* x, int64_t length) {
  using C = Compute<T>;
  const int64_t strands = std::min(length, kLanes);
  C best[kLanes];
  int64_t places[kLanes];
  best_of_block<kLargest, kLastOfEqual>(x, length / strands, strands, strands, best, places);
  C value = best[0];
  int64_t place = places[0] * strands;
  const auto challenge = [&](C other, int64_t at) {
    const bool equal = !before<kLargest>(other, value) && !before<kLargest>(value, other);
    const bool nearer = kLastOfEqual ? at > place : at < place;
    if (!before<kLargest>(other, value) && !(equal && nearer)) return;
    value = other;
    place = at;
  };
  for (int64_t i = 1; i < strands; ++i) challenge(best[i], places[i] * strands + i);
  for (int64_t k = length / strands * strands; k < length; ++k) challenge(load(x[k]), k);
  return place;
}

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
  const int64_t block_count = (call.inner - 1) / kLanes + 1;
  Compute<T> best[kLanes];
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t outer = unit / block_count;
    const int64_t lane = unit % block_count * kLanes;
    best_of_block<kLargest, kLastOfEqual>(x + outer * call.length * call.inner + lane, call.length,
                                          call.inner, std::min(kLanes, call.inner - lane), best,
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
  const int64_t units = outer * ((call.inner - 1) / kLanes + 1);
  const int64_t cost = sdk::saturating_product({call.length, std::min(kLanes, call.inner), 2});
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
