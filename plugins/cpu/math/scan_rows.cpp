// SPDX-License-Identifier: Apache-2.0
//
// See scan_rows.hpp. Vector code by Highway, compiled for each instruction set and chosen when it
// runs. Four lanes are enough: what is left of the chain is one addition for eight elements, and
// across blocks of 128 bits lanes are dear to shift.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "math/scan_rows.cpp"
// clang-format off: this file includes itself once per instruction set, before anything else.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "math/scan_rows.hpp"

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

float sum_row(float* y, const float* x, int64_t count, int64_t step, bool exclusive,
              float running) {
  for (int64_t i = 0; i < count; ++i) {
    const float next = running + x[i * step];
    y[i * step] = exclusive ? running : next;
    running = next;
  }
  return running;
}

#if HWY_TARGET != HWY_SCALAR
using D = hn::CappedTag<float, 4>;
using V = hn::Vec<D>;
constexpr int64_t kLanes = 4;

// Four elements in the order of the walk.
template <bool kBackward>
HWY_INLINE V load(const float* x, int64_t i) {
  if constexpr (kBackward) return hn::Reverse(D(), hn::LoadU(D(), x - i - (kLanes - 1)));
  return hn::LoadU(D(), x + i);
}

template <bool kBackward>
HWY_INLINE void store(V value, float* y, int64_t i) {
  if constexpr (kBackward) return hn::StoreU(hn::Reverse(D(), value), D(), y - i - (kLanes - 1));
  hn::StoreU(value, D(), y + i);
}

HWY_INLINE V sums_of_four(V x) {
  const V pairs = hn::Add(x, hn::ShiftLeftLanes<1>(D(), x));
  return hn::Add(pairs, hn::ShiftLeftLanes<2>(D(), pairs));
}

template <bool kBackward, bool kExclusive>
float sum_blocks(float* y, const float* x, int64_t count, float first) {
  V running = hn::Set(D(), first);
  for (int64_t i = 0; i < count; i += 2 * kLanes) {
    const V low = sums_of_four(load<kBackward>(x, i));
    const V total = hn::Broadcast<kLanes - 1>(low);
    const V high = hn::Add(total, sums_of_four(load<kBackward>(x, i + kLanes)));
    if constexpr (kExclusive) {
      // Of the block: what stands before each element.
      const V zero = hn::Zero(D());
      store<kBackward>(hn::Add(running, hn::CombineShiftRightBytes<12>(D(), low, zero)), y, i);
      store<kBackward>(hn::Add(running, hn::CombineShiftRightBytes<12>(D(), high, low)), y,
                       i + kLanes);
    } else {
      store<kBackward>(hn::Add(running, low), y, i);
      store<kBackward>(hn::Add(running, high), y, i + kLanes);
    }
    running = hn::Add(running, hn::Broadcast<kLanes - 1>(high));
  }
  return hn::GetLane(running);
}
#endif

float sums(float* y, const float* x, int64_t count, int64_t step, bool exclusive, float running) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  i = count / (2 * kLanes) * (2 * kLanes);
  const auto run = step > 0 ? (exclusive ? sum_blocks<false, true> : sum_blocks<false, false>)
                            : (exclusive ? sum_blocks<true, true> : sum_blocks<true, false>);
  running = run(y, x, i, running);
#endif
  return sum_row(y + i * step, x + i * step, count - i, step, exclusive, running);
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bp::cpu {

HWY_EXPORT(sums);

float running_sums(float* y, const float* x, int64_t count, int64_t step, bool exclusive,
                   float running) {
  return HWY_DYNAMIC_DISPATCH(sums)(y, x, count, step, exclusive, running);
}

}  // namespace bp::cpu
#endif
