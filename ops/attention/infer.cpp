// SPDX-License-Identifier: Apache-2.0
//
// Inference of attention.
#include <cmath>
#include <string>

#include "ops/attention/attention.hpp"

namespace bp::ops {
namespace {

/// Sizes of a call; unknown ones are made known by the arguments that know them.
struct AttentionSizes {
  int64_t batch = kUnknownDim;
  int64_t q_heads = kUnknownDim;
  int64_t kv_heads = kUnknownDim;
  int64_t queries = kUnknownDim;
  int64_t keys = kUnknownDim;
  int64_t dim = kUnknownDim;
};

Status check_rule(const AttentionRule& rule) {
  if (!std::isfinite(rule.scale)) {
    return attribute_error("scale", expected_found("a finite number", std::to_string(rule.scale)));
  }
  if (!std::isfinite(rule.softcap) || rule.softcap < 0) {
    return attribute_error("softcap",
                           expected_found("a finite number from 0", std::to_string(rule.softcap)));
  }
  if (rule.query_offset < -1) {
    return attribute_error("query_offset", expected_found("-1 or more", rule.query_offset));
  }
  if (rule.left_window < -1) {
    return attribute_error("left_window", expected_found("-1 or more", rule.left_window));
  }
  if (rule.right_window < -1) {
    return attribute_error("right_window", expected_found("-1 or more", rule.right_window));
  }
  return {};
}

/// Takes a size of an argument [B, H, S, D] over, or says where it differs.
Status take(std::string_view input, const Dims& sizes, size_t dim, int64_t* size,
            std::string_view other) {
  if (unify(sizes[dim], size)) return {};
  return input_error(input, expected_found("size " + std::to_string(*size) + " in dimension " +
                                               std::to_string(dim) + ", as " + std::string(other),
                                           sizes));
}

Status read_query_and_key(const InferContext& context, AttentionSizes* out) {
  BP_TRY_ASSIGN(const Dims q, sizes_of_rank("q", context.inputs[0], 4));
  BP_TRY_ASSIGN(const Dims k, sizes_of_rank("k", context.inputs[1], 4));
  *out = {
      .batch = q[0], .q_heads = q[1], .kv_heads = k[1], .queries = q[2], .keys = k[2], .dim = q[3]};
  BP_TRY(take("k", k, 0, &out->batch, "q"));
  BP_TRY(take("k", k, 3, &out->dim, "q"));
  if (out->kv_heads == 0 && out->q_heads != 0) {
    return input_error("k", expected_found("heads (dimension 1)", k));
  }
  if (is_known(out->q_heads) && is_known(out->kv_heads) && out->kv_heads != 0 &&
      out->q_heads % out->kv_heads != 0) {
    return input_error("q", expected_found("heads (dimension 1) that are a multiple of the " +
                                               std::to_string(out->kv_heads) + " of k",
                                           q));
  }
  return {};
}

/// `first`: the index of the mask, which kv_lengths follows.
Status check_restrictions(const InferContext& context, size_t first, AttentionSizes* sizes) {
  if (context.inputs.size() > first && context.inputs[first].dtype != BP_DTYPE_NONE &&
      context.inputs[first].has_rank) {
    const Dims& mask = context.inputs[first].sizes;
    const Dims whole{sizes->batch, sizes->q_heads, sizes->queries, sizes->keys};
    bool fits = mask.size() <= whole.size();
    for (size_t i = 0; fits && i < mask.size(); ++i) {
      int64_t target = whole[i + whole.size() - mask.size()];
      fits = mask[i] == 1 || unify(mask[i], &target);
    }
    if (!fits) {
      return input_error("mask",
                         expected_found("sizes that broadcast to " + to_string(whole), mask));
    }
  }
  if (context.inputs.size() > first + 1 && context.inputs[first + 1].dtype != BP_DTYPE_NONE) {
    BP_TRY_ASSIGN(const Dims lengths, sizes_of_rank("kv_lengths", context.inputs[first + 1], 1));
    BP_TRY(take("kv_lengths", lengths, 0, &sizes->batch, "q"));
  }
  return {};
}

}  // namespace

Status infer_attention(const InferContext& context, std::span<TensorType> out_types) {
  BP_TRY(check_rule(attention_rule(attrs<bp_attrs_attention>(context.attributes))));
  AttentionSizes sizes;
  BP_TRY(read_query_and_key(context, &sizes));
  BP_TRY_ASSIGN(const Dims v, sizes_of_rank("v", context.inputs[2], 4));
  BP_TRY(take("v", v, 0, &sizes.batch, "q"));
  BP_TRY(take("v", v, 1, &sizes.kv_heads, "k"));
  BP_TRY(take("v", v, 2, &sizes.keys, "k"));
  BP_TRY(check_restrictions(context, 3, &sizes));
  out_types[0].sizes = Dims{sizes.batch, sizes.q_heads, sizes.queries, v[3]};
  return {};
}

Status infer_attention_scores(const InferContext& context, std::span<TensorType> out_types) {
  const auto& attributes = attrs<bp_attrs_attention_scores>(context.attributes);
  BP_TRY(check_rule(attention_rule(attributes)));
  if (attributes.stage < 0 || attributes.stage > 3) {
    return attribute_error("stage", expected_found("0 to 3", attributes.stage));
  }
  AttentionSizes sizes;
  BP_TRY(read_query_and_key(context, &sizes));
  BP_TRY(check_restrictions(context, 2, &sizes));
  out_types[0].sizes = Dims{sizes.batch, sizes.q_heads, sizes.queries, sizes.keys};
  return {};
}

}  // namespace bp::ops
