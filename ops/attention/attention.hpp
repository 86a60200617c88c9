// SPDX-License-Identifier: Apache-2.0
//
// What attention and attention_scores share: the checked sizes of a call, and which keys a query
// sees. Private to ops.
#ifndef BACKPLANE_OPS_ATTENTION_ATTENTION_HPP
#define BACKPLANE_OPS_ATTENTION_ATTENTION_HPP

#include <algorithm>
#include <cmath>

#include "backplane/ops/attention.h"
#include "ops/infer/common.hpp"

namespace bp::ops {

/// The attributes that both have.
struct AttentionRule {
  double scale = 0;
  double softcap = 0;
  bool causal = false;
  int64_t query_offset = 0;
  int64_t left_window = -1;
  int64_t right_window = -1;

  bool limits_positions() const { return causal || left_window >= 0 || right_window >= 0; }
  double factor(int64_t dim) const {
    return scale != 0 ? scale : 1.0 / std::sqrt(static_cast<double>(dim));
  }
  /// Whether the query at `position` sees `key`.
  bool sees(int64_t position, int64_t key) const {
    if (causal && key > position) return false;
    if (left_window >= 0 && key < position - left_window) return false;
    return right_window < 0 || key <= position + right_window;
  }
};

/// Offsets and windows beyond any position are cut, so that no sum of them wraps.
template <class Attrs>
AttentionRule attention_rule(const Attrs& attributes) {
  constexpr int64_t kBeyondAll = int64_t{1} << 61;
  return {.scale = attributes.scale,
          .softcap = attributes.softcap,
          .causal = attributes.causal != 0,
          .query_offset = std::min(attributes.query_offset, kBeyondAll),
          .left_window = std::min(attributes.left_window, kBeyondAll),
          .right_window = std::min(attributes.right_window, kBeyondAll)};
}

}  // namespace bp::ops

#endif
