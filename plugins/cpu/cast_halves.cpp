// SPDX-License-Identifier: Apache-2.0
//
// See cast_halves.hpp.
#include "cast_halves.hpp"

#include "kernel_support.hpp"
#include "large.hpp"
#include "math/convert.hpp"
#include "math/copies.hpp"

namespace bp::cpu {

void cast_halves(Workers& workers, const bp_tensor& x, const bp_tensor& y) {
  std::byte* const y_data = address_of(y);
  const std::byte* const x_data = address_of(x);
  const bool past_cache = is_past_cache(y);
  workers.for_ranges(sdk::element_count(y), 1, [&](int64_t begin, int64_t end) noexcept {
    const int64_t count = end - begin;
    if (y.dtype == BP_DTYPE_F32) {
      widen_halves(x.dtype, x_data + begin * 2, reinterpret_cast<float*>(y_data) + begin, count,
                   past_cache);
    } else {
      narrow_halves(y.dtype, reinterpret_cast<const float*>(x_data) + begin, y_data + begin * 2,
                    count, past_cache);
    }
    if (past_cache) finish_stream();
  });
}

}  // namespace bp::cpu
