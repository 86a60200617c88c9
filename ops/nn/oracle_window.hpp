// SPDX-License-Identifier: Apache-2.0
//
// Sliding windows in the oracle's loops. Private to the oracle's operators with windows.
#ifndef BACKPLANE_OPS_NN_ORACLE_WINDOW_HPP
#define BACKPLANE_OPS_NN_ORACLE_WINDOW_HPP

#include <cassert>
#include <utility>

#include "ops/nn/window.hpp"
#include "ops/oracle/evaluators.hpp"

namespace bp::ops {

/// The window that inference accepted before, with explicit pads for this x.
inline Window accepted_window(Result<Window> resolved, const Dims& x_sizes) {
  assert(resolved.ok());
  Window window = std::move(resolved).value();
  const auto pads = explicit_pads(window, x_sizes);
  assert(pads);
  for (size_t i = 0; i < window.kernel.size(); ++i) {
    window.pads_begin[i] = (*pads)[i];
    window.pads_end[i] = (*pads)[i + window.kernel.size()];
  }
  return window;
}

/// The row-major index, within one channel of x, that kernel position `tap` of window `at` (a whole
/// output position: N, C, spatial...) touches; -1 in the padding.
inline int64_t tap_index(const Window& window, const Dims& x_sizes, const Dims& at,
                         const Dims& tap) {
  int64_t index = 0;
  for (size_t i = 0; i < tap.size(); ++i) {
    const int64_t place =
        at[i + 2] * window.strides[i] - window.pads_begin[i] + tap[i] * window.dilations[i];
    if (place < 0 || place >= x_sizes[i + 2]) return -1;
    index = index * x_sizes[i + 2] + place;
  }
  return index;
}

inline int64_t spatial_count(const Dims& sizes) {
  int64_t count = 1;
  for (size_t i = 2; i < sizes.size(); ++i) count *= sizes[i];
  return count;
}

}  // namespace bp::ops

#endif
