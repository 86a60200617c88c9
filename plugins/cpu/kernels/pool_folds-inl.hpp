// SPDX-License-Identifier: Apache-2.0
//
// What pools do with the elements of a window, for vectors of f32.
#if defined(BACKPLANE_PLUGINS_CPU_KERNELS_POOL_FOLDS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef BACKPLANE_PLUGINS_CPU_KERNELS_POOL_FOLDS_INL
#undef BACKPLANE_PLUGINS_CPU_KERNELS_POOL_FOLDS_INL
#else
#define BACKPLANE_PLUGINS_CPU_KERNELS_POOL_FOLDS_INL
#endif

#include "element.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

struct Max {
  static constexpr bool kCounts = false;
  static float start() { return lowest<float>(); }
  // NaN wins over numbers.
  template <class V>
  static V fold(V so_far, V value) {
    return hn::IfThenElse(hn::Or(hn::Gt(value, so_far), hn::IsNaN(value)), value, so_far);
  }
  template <class V>
  static V finish(V best, V) {
    return best;
  }
};

struct Average {
  static constexpr bool kCounts = true;  // divides by the number of elements
  static float start() { return 0; }
  template <class V>
  static V fold(V so_far, V value) {
    return hn::Add(so_far, value);
  }
  template <class V>
  static V finish(V sum, V count) {
    return hn::Div(sum, count);
  }
};

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
