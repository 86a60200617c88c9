// SPDX-License-Identifier: Apache-2.0
//
// See convert.hpp. Vector code by Highway, compiled for each instruction set and chosen when it
// runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "math/convert.cpp"
// clang-format off: this file includes itself once per instruction set, before anything else.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include <algorithm>
#include <type_traits>

#include "math/convert.hpp"
#include "math/copies.hpp"
#include "math/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

template <bool kPastCache, class V, class T>
HWY_INLINE void store_whole(V value, T* y) {
  const hn::DFromV<V> d;
  if constexpr (kPastCache) {
    hn::Stream(value, d, reinterpret_cast<hn::TFromD<decltype(d)>*>(y));
  } else {
    hn::StoreU(value, d, reinterpret_cast<hn::TFromD<decltype(d)>*>(y));
  }
}

#if HWY_TARGET != HWY_SCALAR
// Two vectors as one. Values are rarely NaN, so that one test serves both: the sum of a NaN and
// anything is one. The sum of infinities may be one as well, and only costs time.
template <class D>
HWY_INLINE auto narrow_to_bf16(D d, hn::Vec<D> low, hn::Vec<D> high) {
  const hn::RebindToUnsigned<D> du;
  const hn::Repartition<uint16_t, D> halves;
  if (HWY_UNLIKELY(!hn::AllFalse(d, hn::IsNaN(hn::Add(low, high))))) {
    return hn::ConcatOdd(halves, hn::BitCast(halves, round_to_bf16(high)),
                         hn::BitCast(halves, round_to_bf16(low)));
  }
  const auto lower = round_number_to_bf16(du, hn::BitCast(du, low));
  const auto upper = round_number_to_bf16(du, hn::BitCast(du, high));
  return hn::ConcatOdd(halves, hn::BitCast(halves, upper), hn::BitCast(halves, lower));
}
#endif

// Two vectors of f32, where both are there.
template <bool kPastCache, class D, class To, class From>
HWY_INLINE void convert_two(D d, const From* x, To* y) {
  const size_t lanes = hn::Lanes(d);
#if HWY_TARGET == HWY_SCALAR
  for (size_t i = 0; i < 2 * lanes; i += lanes) store_lanes(load_lanes(d, x + i), d, y + i);
#else
  const auto low = load_lanes(d, x);
  const auto high = load_lanes(d, x + lanes);
  if constexpr (std::is_same_v<To, Bf16>) {
    store_whole<kPastCache>(narrow_to_bf16(d, low, high), y);
  } else if constexpr (std::is_same_v<To, F16>) {
    const hn::Rebind<hwy::float16_t, D> half;
    const hn::Rebind<uint16_t, D> bits;
    store_whole<kPastCache>(hn::BitCast(bits, hn::DemoteTo(half, low)), y);
    store_whole<kPastCache>(hn::BitCast(bits, hn::DemoteTo(half, high)), y + lanes);
  } else {
    store_whole<kPastCache>(low, y);
    store_whole<kPastCache>(high, y + lanes);
  }
#endif
}

template <bool kPastCache, class To, class From>
void convert(const From* x, To* y, int64_t count) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto convert_some = [&](int64_t i, int64_t end) HWY_ATTR {
    for (; i < end; i += lanes) {
      const auto part = static_cast<size_t>(std::min(lanes, end - i));
      store_part(load_part(d, x + i, part), d, y + i, part);
    }
  };
  int64_t i = 0;
  if constexpr (kPastCache) {
    i = std::min(count, bytes_to_line(y) / static_cast<int64_t>(sizeof(To)));
  }
  convert_some(0, i);
  for (; i + 2 * lanes <= count; i += 2 * lanes) convert_two<kPastCache>(d, x + i, y + i);
  convert_some(i, count);
}

template <class To, class From>
void convert_row(const void* x, void* y, int64_t count, bool past_cache) {
  const auto run = past_cache ? convert<true, To, From> : convert<false, To, From>;
  run(static_cast<const From*>(x), static_cast<To*>(y), count);
}

void widen_row(bool is_f16, const void* x, float* y, int64_t count, bool past_cache) {
  if (is_f16) return convert_row<float, F16>(x, y, count, past_cache);
  convert_row<float, Bf16>(x, y, count, past_cache);
}

void narrow_row(bool is_f16, const float* x, void* y, int64_t count, bool past_cache) {
  if (is_f16) return convert_row<F16, float>(x, y, count, past_cache);
  convert_row<Bf16, float>(x, y, count, past_cache);
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bp::cpu {

HWY_EXPORT(widen_row);
HWY_EXPORT(narrow_row);

void widen_halves(uint32_t dtype, const void* halves, float* out_values, int64_t count,
                  bool past_cache) {
  HWY_DYNAMIC_DISPATCH(widen_row)(dtype == BP_DTYPE_F16, halves, out_values, count, past_cache);
}
void narrow_halves(uint32_t dtype, const float* values, void* out_halves, int64_t count,
                   bool past_cache) {
  HWY_DYNAMIC_DISPATCH(narrow_row)(dtype == BP_DTYPE_F16, values, out_halves, count, past_cache);
}

}  // namespace bp::cpu
#endif
