// SPDX-License-Identifier: Apache-2.0
//
// What attention adds to scores: masks of any dtype and stride.
#ifndef BACKPLANE_PLUGINS_CPU_KERNELS_ATTENTION_MASK_HPP
#define BACKPLANE_PLUGINS_CPU_KERNELS_ATTENTION_MASK_HPP

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "backplane/sdk/sdk.hpp"
#include "element.hpp"

namespace bp::cpu {

/// The score of a key that takes no part.
template <class C>
inline constexpr C kMasked = -std::numeric_limits<C>::infinity();

/// What is added to a row of scores; -inf leaves a key out, whatever its score is.
template <class M, class C>
void add_mask(C* scores, const void* mask, int64_t stride, int64_t count) {
  const M* const bias = static_cast<const M*>(mask);
  for (int64_t j = 0; j < count; ++j) {
    if constexpr (std::is_same_v<M, bool>) {
      scores[j] = bias[j * stride] ? scores[j] : kMasked<C>;
    } else {
      const C value = static_cast<C>(load(bias[j * stride]));
      scores[j] = value == kMasked<C> ? kMasked<C> : scores[j] + value;
    }
  }
}

template <class C>
void add_mask_of(uint32_t dtype, C* scores, const std::byte* mask, int64_t offset, int64_t stride,
                 int64_t count) {
  const std::byte* const at = mask + offset * static_cast<int64_t>(sdk::dtype_bytes(dtype));
  switch (dtype) {
    case BP_DTYPE_BOOL:
      return add_mask<bool>(scores, at, stride, count);
    case BP_DTYPE_F16:
      return add_mask<F16>(scores, at, stride, count);
    case BP_DTYPE_BF16:
      return add_mask<Bf16>(scores, at, stride, count);
    case BP_DTYPE_F64:
      return add_mask<double>(scores, at, stride, count);
    default:
      return add_mask<float>(scores, at, stride, count);
  }
}

}  // namespace bp::cpu

#endif
