// SPDX-License-Identifier: Apache-2.0
//
// The geometry of attention; see attention_shape.hpp.
#include "attention_shape.hpp"

#include <algorithm>
#include <cmath>

#include "backplane/ops/attention.h"

namespace bp::cpu {
namespace {

void take_strides(const bp_arg_info& info, int64_t* strides) {
  std::copy_n(info.strides, 3, strides);
}

void take_mask(const bp_arg_info& mask, AttentionShape* shape) {
  if (mask.rank > 4) throw sdk::Failure{BP_INVALID_ARGUMENT, "attention: a mask of rank above 4"};
  shape->mask_dtype = mask.dtype;
  for (uint32_t d = 0; d < mask.rank; ++d) {
    shape->mask_strides[4 - mask.rank + d] = mask.sizes[d] == 1 ? 0 : mask.strides[d];
  }
}

}  // namespace

AttentionShape make_attention_shape(const bp_kernel_query& query) {
  const auto attrs = read_attributes(query.attributes, bp_attrs_attention_defaults());
  const bp_arg_info& q = arg_info(query, 0);
  const bp_arg_info& k = arg_info(query, 1);
  const bp_arg_info& v = arg_info(query, 2);
  if (q.rank != 4 || k.rank != 4 || v.rank != 4) {
    throw sdk::Failure{BP_INVALID_ARGUMENT, "attention: expected q, k and v of rank 4"};
  }
  AttentionShape shape{.batch = q.sizes[0],
                       .q_heads = q.sizes[1],
                       .kv_heads = k.sizes[1],
                       .queries = q.sizes[2],
                       .keys = k.sizes[2],
                       .dim = q.sizes[3],
                       .v_dim = v.sizes[3],
                       .has_lengths = has_input(query, 4),
                       .causal = attrs.causal != 0,
                       .softcap = attrs.softcap,
                       .left_window = attrs.left_window,
                       .right_window = attrs.right_window};
  if (shape.kv_heads < 1 && !shape.is_empty()) {
    throw sdk::Failure{BP_INVALID_ARGUMENT, "attention: k has no heads"};
  }
  shape.scale = attrs.scale != 0 ? attrs.scale : 1.0 / std::sqrt(static_cast<double>(shape.dim));
  shape.query_offset = attrs.query_offset < 0 ? shape.keys - shape.queries : attrs.query_offset;
  take_strides(q, shape.q_strides);
  take_strides(k, shape.k_strides);
  take_strides(v, shape.v_strides);
  if (has_input(query, 3)) take_mask(arg_info(query, 3), &shape);
  return shape;
}

}  // namespace bp::cpu
