// SPDX-License-Identifier: Apache-2.0
//
// Attention as matrix products with a softmax between them, all scores at once. The score of a key
// that takes no part is -inf.
#include <array>
#include <limits>
#include <string_view>
#include <utility>

#include "core/base/dtype.hpp"
#include "ops/attention/attention.hpp"
#include "ops/decompose/builder.hpp"

namespace bp::ops {
namespace {

/// The arguments of either operator.
struct Arguments {
  ValueId q;
  ValueId k;
  ValueId mask;  // kNoValue: none
  bool mask_is_bool;
  ValueId lengths;  // kNoValue: none
  Dims q_sizes;
  Dims k_sizes;
};

class ScoreBuilder {
 public:
  ScoreBuilder(Builder& builder, const AttentionRule& rule, Arguments arguments, uint32_t work)
      : builder_(builder), rule_(rule), arguments_(std::move(arguments)), work_(work) {}

  /// UNSUPPORTED where sizes that it needs are not known.
  Status check() const {
    const Dims& q = arguments_.q_sizes;
    const Dims& k = arguments_.k_sizes;
    const bool is_known_call = is_known(q[1]) && is_known(q[2]) && is_known(q[3]) &&
                               is_known(k[1]) && is_known(k[2]) && k[1] > 0;
    if (is_known_call) return {};
    return {BP_UNSUPPORTED, "heads and sizes of q and k are not all known"};
  }

  /// [B, Hq, Sq, n] as [B, Hk, group * Sq, n], and back. Sizes of 0 stand in their own places, so
  /// that reshape may copy them.
  ValueId grouped(ValueId value, int64_t last) {
    return is_grouped() ? builder_.reshape(value, std::array{int64_t{0}, kv_heads(), rows(), last})
                        : value;
  }
  ValueId ungrouped(ValueId value, int64_t last) {
    return is_grouped() ? builder_.reshape(
                              value, std::array{int64_t{0}, arguments_.q_sizes[1], queries(), last})
                        : value;
  }

  /// v, with 0 for keys beyond their lengths: a weight of 0 would make NaN of an infinity there.
  ValueId without_padding(ValueId v) {
    if (arguments_.lengths == kNoValue) return v;
    const ValueId key = builder_.integers({keys(), 1}, builder_.counted(keys()));
    const ValueId kept = builder_.op("less", {key, clamped_lengths()});
    return builder_.op("where", {kept, v, number(0)});
  }

  ValueId at_stage(int64_t stage) {
    ValueId scores = products();
    if (stage >= 1 && rule_.softcap > 0) scores = capped(scores);
    if (stage >= 2) scores = masked(scores);
    return stage == 3 ? weights(scores) : scores;
  }

 private:
  int64_t kv_heads() const { return arguments_.k_sizes[1]; }
  int64_t queries() const { return arguments_.q_sizes[2]; }
  int64_t keys() const { return arguments_.k_sizes[2]; }
  int64_t rows() const { return arguments_.q_sizes[1] / kv_heads() * queries(); }
  bool is_grouped() const { return arguments_.q_sizes[1] != kv_heads(); }
  ValueId number(double value) { return builder_.scalar(work_, value); }

  ValueId products() {
    Attributes swap = builder_.attributes("transpose");
    builder_.check(swap.set_i64s("perm", std::array<int64_t, 4>{0, 1, 3, 2}));
    const ValueId k =
        builder_.op("transpose", {builder_.cast(arguments_.k, work_)}, std::move(swap));
    const ValueId q = builder_.cast(arguments_.q, work_);
    const ValueId scaled = builder_.op("mul", {q, number(rule_.factor(arguments_.q_sizes[3]))});
    const ValueId scores = builder_.op("matmul", {grouped(scaled, arguments_.q_sizes[3]), k});
    return ungrouped(scores, keys());
  }

  /// cap * tanh(score / cap), as cap - 2 cap / (e^(2 score / cap) + 1).
  ValueId capped(ValueId scores) {
    const ValueId power =
        builder_.op("exp", {builder_.op("mul", {scores, number(2 / rule_.softcap)})});
    const ValueId inverse = builder_.op("reciprocal", {builder_.op("add", {power, number(1)})});
    return builder_.op(
        "sub", {number(rule_.softcap), builder_.op("mul", {inverse, number(2 * rule_.softcap)})});
  }

  /// The mask first, so that what it adds to a key that no query sees does not matter.
  ValueId masked(ValueId scores) {
    if (arguments_.mask != kNoValue) {
      scores = arguments_.mask_is_bool ? where_seen(arguments_.mask, scores) : biased(scores);
    }
    const ValueId seen = seen_by_position();
    return seen == kNoValue ? scores : where_seen(seen, scores);
  }

  /// Added to NaN or to infinity, -inf would not leave the key out.
  ValueId biased(ValueId scores) {
    const ValueId mask = builder_.cast(arguments_.mask, work_);
    const ValueId left_out = builder_.op("less_or_equal", {mask, left_out_score()});
    return builder_.op("where", {left_out, left_out_score(), builder_.op("add", {scores, mask})});
  }

  ValueId left_out_score() { return number(-std::numeric_limits<double>::infinity()); }
  ValueId where_seen(ValueId seen, ValueId scores) {
    return builder_.op("where", {seen, scores, left_out_score()});
  }

  /// Which keys a query sees, whatever the mask says; kNoValue: all.
  ValueId seen_by_position() {
    if (!rule_.limits_positions() && arguments_.lengths == kNoValue) return kNoValue;
    ValueId seen = kNoValue;
    const auto keep = [&](std::string_view comparison, ValueId a, ValueId b) {
      const ValueId kept = builder_.op(comparison, {a, b});
      seen = seen == kNoValue ? kept : builder_.op("logical_and", {seen, kept});
    };
    const ValueId key = builder_.list(builder_.counted(keys()));
    ValueId offset =
        builder_.integer(rule_.query_offset < 0 ? keys() - queries() : rule_.query_offset);
    if (arguments_.lengths != kNoValue) {
      const ValueId length = clamped_lengths();
      keep("less", key, length);
      offset = builder_.op("sub", {length, builder_.integer(queries())});
    }
    if (!rule_.limits_positions()) return seen;
    const ValueId index = builder_.integers({queries(), 1}, builder_.counted(queries()));
    const ValueId position = builder_.op("add", {index, offset});
    const auto shifted = [&](int64_t by) {
      return builder_.op("add", {position, builder_.integer(by)});
    };
    if (rule_.causal) keep("less_or_equal", key, position);
    if (rule_.right_window >= 0) keep("less_or_equal", key, shifted(rule_.right_window));
    if (rule_.left_window >= 0) keep("less_or_equal", shifted(-rule_.left_window), key);
    return seen;
  }

  /// [B, 1, 1, 1], from 0 to the number of keys.
  ValueId clamped_lengths() {
    const ValueId above = builder_.op("max", {arguments_.lengths, builder_.integer(0)});
    const ValueId length = builder_.op("min", {above, builder_.integer(keys())});
    return builder_.reshape(length, std::array<int64_t, 4>{0, 1, 1, 1});
  }

  /// Softmax, but 0 for a query without keys: its sum is 0, where any other has the 1 of its
  /// highest score.
  ValueId weights(ValueId scores) {
    const double lowest = work_ == BP_DTYPE_F64 ? std::numeric_limits<double>::lowest()
                                                : double{std::numeric_limits<float>::lowest()};
    const ValueId highest = builder_.op("max", {reduced("reduce_max", scores), number(lowest)});
    const ValueId powers = builder_.op("exp", {builder_.op("sub", {scores, highest})});
    const ValueId sum = builder_.op("max", {reduced("reduce_sum", powers), number(1)});
    return builder_.op("div", {powers, sum});
  }

  ValueId reduced(std::string_view op, ValueId value) {
    Attributes last = builder_.attributes(op);
    builder_.check(last.set_i64s("axes", std::array<int64_t, 1>{-1}));
    return builder_.op(op, {value}, std::move(last));
  }

  Builder& builder_;
  AttentionRule rule_;
  Arguments arguments_;
  uint32_t work_;
};

/// `mask`: the index of that input, which kv_lengths follows.
Result<Arguments> arguments_of(const InferContext& context, const Builder& builder, size_t mask) {
  BP_TRY_ASSIGN(const Dims q_sizes, sizes_of_rank("q", context.inputs[0], 4));
  BP_TRY_ASSIGN(const Dims k_sizes, sizes_of_rank("k", context.inputs[1], 4));
  const ValueId mask_value = builder.input(mask);
  return Arguments{
      .q = builder.input(0),
      .k = builder.input(1),
      .mask = mask_value,
      .mask_is_bool = mask_value != kNoValue && context.inputs[mask].dtype == BP_DTYPE_BOOL,
      .lengths = builder.input(mask + 1),
      .q_sizes = q_sizes,
      .k_sizes = k_sizes};
}

}  // namespace

Status decompose_attention(const InferContext& context, GraphBuilder* graph) {
  const TensorType& v = context.inputs[2];
  if (!v.has_rank || !is_known(v.sizes[3])) return {BP_UNSUPPORTED, "sizes of v are not known"};
  Builder builder(context, {"q", "k", "v", "mask", "kv_lengths"}, graph);
  const uint32_t work = working_dtype(v.dtype);
  BP_TRY_ASSIGN(Arguments arguments, arguments_of(context, builder, 3));
  ScoreBuilder scores(builder, attention_rule(attrs<bp_attrs_attention>(context.attributes)),
                      std::move(arguments), work);
  BP_TRY(scores.check());
  const ValueId weights = scores.grouped(scores.at_stage(3), context.inputs[1].sizes[2]);
  const ValueId kept = scores.without_padding(builder.cast(builder.input(2), work));
  const ValueId y = builder.op("matmul", {weights, kept});
  return builder.finish(builder.cast(scores.ungrouped(y, v.sizes[3]), v.dtype));
}

Status decompose_attention_scores(const InferContext& context, GraphBuilder* graph) {
  const auto& attributes = attrs<bp_attrs_attention_scores>(context.attributes);
  const uint32_t dtype = context.inputs[0].dtype;
  Builder builder(context, {"q", "k", "mask", "kv_lengths"}, graph);
  BP_TRY_ASSIGN(Arguments arguments, arguments_of(context, builder, 2));
  ScoreBuilder scores(builder, attention_rule(attributes), std::move(arguments),
                      working_dtype(dtype));
  BP_TRY(scores.check());
  return builder.finish(builder.cast(scores.at_stage(attributes.stage), dtype));
}

}  // namespace bp::ops
