// SPDX-License-Identifier: Apache-2.0
//
// The geometry of attention: sizes, strides and rules of one call, checked once per plan.
#ifndef BACKPLANE_PLUGINS_CPU_KERNELS_ATTENTION_SHAPE_HPP
#define BACKPLANE_PLUGINS_CPU_KERNELS_ATTENTION_SHAPE_HPP

#include <cstdint>

#include "kernel_support.hpp"

namespace bp::cpu {

struct AttentionShape {
  int64_t batch = 0;
  int64_t q_heads = 0;
  int64_t kv_heads = 0;
  int64_t queries = 0;
  int64_t keys = 0;
  int64_t dim = 0;
  int64_t v_dim = 0;
  // In elements: of batch, head, position. What lies in one position is dense.
  int64_t q_strides[3] = {};
  int64_t k_strides[3] = {};
  int64_t v_strides[3] = {};
  int64_t mask_strides[4] = {};  // 0 where the mask repeats
  uint32_t mask_dtype = 0;       // BP_DTYPE_NONE: no mask
  bool has_lengths = false;
  bool causal = false;
  double scale = 0;
  double softcap = 0;
  int64_t query_offset = 0;
  int64_t left_window = -1;
  int64_t right_window = -1;

  int64_t group() const { return q_heads / kv_heads; }
  /// Queries that share a head of k and v, one head of q after the other.
  int64_t rows() const { return group() * queries; }
  bool is_empty() const { return batch == 0 || q_heads == 0 || queries == 0 || v_dim == 0; }
};

/// The sizes and strides are known, as the kernel depends on both.
AttentionShape make_attention_shape(const bp_kernel_query& query);

/// Which keys are seen from a position: [first, last), and none but those that a mask keeps.
struct KeyRange {
  int64_t first;
  int64_t last;
};

/// `position` of the query among the keys, and how many keys are no padding.
inline KeyRange keys_seen(const AttentionShape& shape, int64_t position, int64_t length) {
  KeyRange range{0, length};
  if (shape.left_window >= 0 && position - shape.left_window > range.first) {
    range.first = position - shape.left_window;
  }
  if (shape.causal && position + 1 < range.last) range.last = position + 1;
  if (shape.right_window >= 0 && shape.right_window < length &&
      position + shape.right_window + 1 < range.last) {
    range.last = position + shape.right_window + 1;
  }
  if (range.last < range.first) range.last = range.first;
  return range;
}

}  // namespace bp::cpu

#endif
