// SPDX-License-Identifier: Apache-2.0
//
// Elements in memory to vectors of the type that they are computed in, and back: f16 and bf16
// become f32, the rest stays. Ends of rows go through whole vectors as well, so that a value's
// result does not depend on its place.
#if defined(BACKPLANE_PLUGINS_CPU_MATH_LANES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef BACKPLANE_PLUGINS_CPU_MATH_LANES_INL
#undef BACKPLANE_PLUGINS_CPU_MATH_LANES_INL
#else
#define BACKPLANE_PLUGINS_CPU_MATH_LANES_INL
#endif

#include "element.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D, class T>
hn::Vec<D> load_lanes(D d, const T* x) {
  if constexpr (std::is_same_v<T, F16>) {
#if HWY_TARGET == HWY_SCALAR
    return hn::Set(d, widen(*x));
#else
    const hn::Rebind<hwy::float16_t, D> half;
    return hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(x)));
#endif
  } else if constexpr (std::is_same_v<T, Bf16>) {
    const hn::Rebind<uint16_t, D> half;
    const hn::Rebind<uint32_t, D> bits;
    const auto upper = hn::PromoteTo(bits, hn::LoadU(half, reinterpret_cast<const uint16_t*>(x)));
    return hn::BitCast(d, hn::ShiftLeft<16>(upper));
  } else {
    return hn::LoadU(d, x);
  }
}

// The upper half of each lane is what it becomes: rounds to nearest even. Wrong for a NaN.
template <class D>
hn::Vec<D> round_number_to_bf16(D du, hn::Vec<D> bits) {
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  return hn::Add(hn::Add(bits, hn::Set(du, 0x7fff)), odd);
}

// The same for any value: a NaN stays one.
template <class V>
auto round_to_bf16(V value) {
  const hn::RebindToUnsigned<hn::DFromV<V>> du;
  const auto bits = hn::BitCast(du, value);
  const auto nan = hn::Or(bits, hn::Set(du, 0x400000));
  const auto is_nan = hn::RebindMask(du, hn::IsNaN(value));
  return hn::IfThenElse(is_nan, nan, round_number_to_bf16(du, bits));
}

template <class D, class T>
void store_lanes(hn::Vec<D> value, D d, T* y) {
  if constexpr (std::is_same_v<T, F16>) {
#if HWY_TARGET == HWY_SCALAR
    *y = narrow_to_f16(hn::GetLane(value));
#else
    const hn::Rebind<hwy::float16_t, D> half;
    hn::StoreU(hn::DemoteTo(half, value), half, reinterpret_cast<hwy::float16_t*>(y));
#endif
  } else if constexpr (std::is_same_v<T, Bf16>) {
    const hn::Rebind<uint16_t, D> half;
    const hn::Rebind<int32_t, D> whole;
    const auto bits = hn::BitCast(whole, hn::ShiftRight<16>(round_to_bf16(value)));
    hn::StoreU(hn::DemoteTo(half, bits), half, reinterpret_cast<uint16_t*>(y));
  } else {
    hn::StoreU(value, d, y);
  }
}

// The first `count` lanes, fewer than a vector has; the others are 0.
template <class D, class T>
hn::Vec<D> load_part(D d, const T* x, size_t count) {
  if constexpr (sizeof(T) >= 4) {
    return hn::MaskedLoad(hn::FirstN(d, count), d, x);
  } else {
    HWY_ALIGN T part[hn::MaxLanes(d)] = {};
    for (size_t i = 0; i < count; ++i) part[i] = x[i];
    return load_lanes(d, part);
  }
}

template <class D, class T>
void store_part(hn::Vec<D> value, D d, T* y, size_t count) {
  if constexpr (sizeof(T) >= 4) {
    hn::BlendedStore(value, hn::FirstN(d, count), d, y);
  } else {
    HWY_ALIGN T part[hn::MaxLanes(d)];
    store_lanes(value, d, part);
    for (size_t i = 0; i < count; ++i) y[i] = part[i];
  }
}

// The first `count` lanes, or all if there are no more than that.
template <class D, class T>
void store_some(hn::Vec<D> value, D d, T* y, int64_t count) {
  if (count >= static_cast<int64_t>(hn::Lanes(d))) {
    store_lanes(value, d, y);
  } else {
    store_part(value, d, y, static_cast<size_t>(count));
  }
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
