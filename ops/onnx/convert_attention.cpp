// SPDX-License-Identifier: Apache-2.0
//
// Attention of ONNX: heads side by side in one dimension, a cache that is joined to the new keys,
// masks that end early, and results on the way as outputs.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "core/base/dims.hpp"
#include "core/base/dtype.hpp"
#include "ops/onnx/steps.hpp"
#include "ops/onnx/values.hpp"

namespace bp::onnx {
namespace {

constexpr size_t kMask = 3;
constexpr size_t kPastKey = 4;
constexpr size_t kPastValue = 5;
constexpr size_t kLengths = 6;
constexpr size_t kScoresOutput = 3;

bool is_float(uint32_t dtype) {
  return dtype == BP_DTYPE_F16 || dtype == BP_DTYPE_BF16 || dtype == BP_DTYPE_F32 ||
         dtype == BP_DTYPE_F64;
}

class AttentionImport {
 public:
  explicit AttentionImport(NodeImport* node) : node_(node), steps_(node) {}

  Status run() {
    BP_TRY(check());
    BP_TRY(read_heads());
    BP_TRY(join_past());
    BP_TRY(read_mask());
    Attributes attributes = steps_.fields("attention");
    BP_TRY(steps_.status());
    BP_TRY(set_rule(&attributes));
    const uint32_t of_q = node_->type(q_).dtype;
    const uint32_t work = widest_float({of_q, node_->type(v_).dtype});
    const ValueId wide = steps_.op("attention",
                                   {steps_.cast(q_, work), steps_.cast(k_, work),
                                    steps_.cast(v_, work), mask_, node_->input(kLengths)},
                                   std::move(attributes));
    ValueId y = steps_.cast(wide, of_q);
    if (rank_ == 3) {
      y = steps_.transpose(y, std::array<int64_t, 4>{0, 2, 1, 3});
      y = steps_.reshape(y, std::array<int64_t, 3>{0, 0, -1});
    }
    std::vector<ValueId> outputs = {y, k_, v_, kNoValue};
    if (node_->has_output(kScoresOutput)) {
      BP_TRY_ASSIGN(outputs[kScoresOutput], scores());
    }
    return steps_.finish(std::move(outputs));
  }

 private:
  Status check() {
    const TensorType& q = node_->input_type(0);
    for (size_t i = 0; i < 3; ++i) {
      const TensorType& type = node_->input_type(i);
      if (type.has_rank && (type.sizes.size() == 3 || type.sizes.size() == 4) &&
          type.sizes.size() == q.sizes.size()) {
        continue;
      }
      return node_->error(BP_INVALID_ARGUMENT,
                          "inputs 'Q', 'K' and 'V': expected one known rank of 3 or 4, found " +
                              (type.has_rank ? to_string(type.sizes) : std::string("none")));
    }
    rank_ = q.sizes.size();
    for (const size_t index : {size_t{0}, size_t{1}, size_t{2}}) {
      BP_TRY(node_->check_dtype("attention", index, "input " + std::to_string(index),
                                node_->input_type(index).dtype));
    }
    // V may have another dtype, and the result has that of Q.
    const uint32_t of_k = node_->input_type(1).dtype;
    if (of_k != q.dtype) {
      return node_->error(BP_UNSUPPORTED, "inputs 'Q' and 'K': expected one dtype, found " +
                                              std::string(dtype_name(q.dtype)) + " and " +
                                              std::string(dtype_name(of_k)));
    }
    const bool has_past = node_->input(kPastKey) != kNoValue;
    if (has_past != (node_->input(kPastValue) != kNoValue)) {
      return node_->error(BP_INVALID_ARGUMENT, "past_key and past_value need each other");
    }
    if (has_past && node_->input(kLengths) != kNoValue) {
      return node_->error(BP_INVALID_ARGUMENT, "nonpad_kv_seqlen excludes past_key");
    }
    return {};
  }

  /// [B, S, H * D] as [B, H, S, D].
  Result<ValueId> split_heads(size_t index, std::string_view attribute) {
    if (rank_ == 4) return node_->input(index);
    const int64_t heads = node_->i64(attribute, 0);
    const int64_t width = node_->input_type(index).sizes[2];
    const bool fits = heads >= 1 && (!is_known(width) || width % heads == 0);
    if (!fits) {
      return node_->error(BP_INVALID_ARGUMENT, "attribute '" + std::string(attribute) +
                                                   "': expected a divisor of the last size of " +
                                                   to_string(node_->input_type(index).sizes) +
                                                   ", found " + std::to_string(heads));
    }
    const ValueId split =
        steps_.reshape(node_->input(index), std::array<int64_t, 4>{0, 0, heads, -1});
    return steps_.transpose(split, std::array<int64_t, 4>{0, 2, 1, 3});
  }

  Status read_heads() {
    BP_TRY_ASSIGN(q_, split_heads(0, "q_num_heads"));
    BP_TRY_ASSIGN(k_, split_heads(1, "kv_num_heads"));
    BP_TRY_ASSIGN(v_, split_heads(2, "kv_num_heads"));
    return steps_.status();
  }

  ValueId joined(ValueId first, ValueId second, int64_t axis) {
    Attributes attributes = steps_.attributes("concat");
    steps_.check(attributes.set_i64("axis", axis));
    return steps_.op("concat", {first, second}, std::move(attributes));
  }

  Status join_past() {
    if (node_->input(kPastKey) == kNoValue) return {};
    const TensorType past = node_->input_type(kPastKey);
    const int64_t queries = node_->type(q_).sizes[2];
    const int64_t new_keys = node_->type(k_).sizes[2];
    if (past.has_rank && past.sizes.size() == 4 && is_known(past.sizes[2])) {
      query_offset_ = past.sizes[2];
    } else if (queries == new_keys && queries != kUnknownDim) {
      query_offset_ = -1;  // the last query stands at the last key
    } else if (node_->i64("is_causal", 0) != 0 || node_->i64("left_window_size", -1) >= 0 ||
               node_->i64("right_window_size", -1) >= 0) {
      return node_->error(BP_UNSUPPORTED,
                          "positions behind a past of unknown length need as many new keys as "
                          "queries, found " +
                              to_string(node_->type(q_).sizes) + " and " +
                              to_string(node_->type(k_).sizes));
    }
    k_ = joined(node_->input(kPastKey), k_, 2);
    v_ = joined(node_->input(kPastValue), v_, 2);
    return steps_.status();
  }

  /// A mask may end before the keys do; those behind it take no part.
  Status read_mask() {
    mask_ = node_->input(kMask);
    if (mask_ == kNoValue) return {};
    const uint32_t dtype = node_->type(mask_).dtype;
    if (dtype != BP_DTYPE_BOOL && !is_float(dtype)) {
      mask_ = steps_.cast(mask_, node_->input_type(0).dtype);
      BP_TRY(steps_.status());
    }
    const TensorType type = node_->type(mask_);
    const int64_t keys = node_->type(k_).sizes[2];
    if (!type.has_rank || type.sizes.empty()) return {};
    const int64_t given = type.sizes.back();
    if (!is_known(given) || !is_known(keys) || given >= keys) return {};
    Dims missing = type.sizes;
    missing[missing.size() - 1] = keys - given;
    if (!std::all_of(missing.begin(), missing.end(), is_known)) {
      return node_->error(BP_UNSUPPORTED, "input 3 ('attn_mask'): a mask of " +
                                              to_string(type.sizes) +
                                              " that ends before the keys needs known sizes");
    }
    BP_TRY_ASSIGN(const ValueId excluded, excluded_keys(type.dtype, missing));
    mask_ = joined(mask_, excluded, -1);
    return steps_.status();
  }

  /// A part of a mask that keeps nothing: false, or -inf.
  Result<ValueId> excluded_keys(uint32_t dtype, const Dims& sizes) {
    const uint32_t stored = dtype == BP_DTYPE_BOOL ? BP_DTYPE_BOOL : BP_DTYPE_F32;
    void* data = nullptr;
    BP_TRY_ASSIGN(HostTensor tensor, HostTensor::allocate(stored, sizes, &data));
    if (stored == BP_DTYPE_BOOL) {
      std::memset(data, 0, tensor.bytes);
    } else {
      std::fill_n(static_cast<float*>(data), tensor.bytes / sizeof(float),
                  -std::numeric_limits<float>::infinity());
    }
    BP_TRY_ASSIGN(const ValueId value, node_->constant(std::move(tensor)));
    return steps_.cast(value, dtype);
  }

  /// What the rule of the node does not copy.
  Status set_rule(Attributes* attributes) const {
    BP_TRY(attributes->set_i64("query_offset", query_offset_));
    const AttributeProto* scale = node_->attribute("scale");
    if (scale == nullptr) return {};
    if (scale->f == 0) {
      return node_->error(BP_UNSUPPORTED, "attribute 'scale': 0 is not supported");
    }
    return attributes->set_f64("scale", double{scale->f});
  }

  Result<ValueId> scores() {
    const int64_t mode = node_->i64("qk_matmul_output_mode", 0);
    if (mode < 0 || mode > 3) {
      return node_->error(
          BP_INVALID_ARGUMENT,
          "attribute 'qk_matmul_output_mode': expected 0 to 3, found " + std::to_string(mode));
    }
    Attributes attributes = steps_.attributes("attention_scores");
    BP_TRY(steps_.status());
    BP_TRY(set_rule(&attributes));
    BP_TRY(attributes.set_i64("stage", mode));
    BP_TRY(attributes.set_i64("causal", node_->i64("is_causal", 0)));
    BP_TRY(attributes.set_i64("left_window", node_->i64("left_window_size", -1)));
    BP_TRY(attributes.set_i64("right_window", node_->i64("right_window_size", -1)));
    const AttributeProto* softcap = node_->attribute("softcap");
    if (softcap != nullptr) BP_TRY(attributes.set_f64("softcap", double{softcap->f}));
    return steps_.op("attention_scores", {q_, k_, mask_, node_->input(kLengths)},
                     std::move(attributes));
  }

  NodeImport* node_;
  Steps steps_;
  size_t rank_ = 4;
  ValueId q_ = kNoValue;
  ValueId k_ = kNoValue;
  ValueId v_ = kNoValue;
  ValueId mask_ = kNoValue;
  int64_t query_offset_ = 0;
};

}  // namespace

Status convert_attention(NodeImport* node) { return AttentionImport(node).run(); }

}  // namespace bp::onnx
