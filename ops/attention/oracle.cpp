// SPDX-License-Identifier: Apache-2.0
//
// Attention of the oracle: all scores of one query at a time, as the definition has them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/attention/attention.hpp"
#include "ops/oracle/evaluators.hpp"

namespace bp::ops {
namespace {

constexpr double kMasked = -std::numeric_limits<double>::infinity();

/// The scores of a call and what it takes to work them out; `mask` is the index of that input.
class Scores {
 public:
  Scores(const OracleCall& call, const AttentionRule& rule, size_t mask)
      : call_(call),
        rule_(rule),
        mask_(mask),
        q_sizes_(call.inputs[0].sizes),
        k_sizes_(call.inputs[1].sizes),
        q_(numbers<double>(call.inputs[0])),
        k_(numbers<double>(call.inputs[1])) {
    if (call.has_input(mask)) bias_ = biases(call.inputs[mask]);
    if (call.has_input(mask + 1)) lengths_ = numbers<int64_t>(call.inputs[mask + 1]);
  }

  int64_t kv_head(int64_t head) const { return head / (q_sizes_[1] / k_sizes_[1]); }

  /// Those of the query [batch, head, index] at this stage; see attention_scores.
  std::vector<double> of(int64_t batch, int64_t head, int64_t query, int64_t stage) const {
    std::vector<double> scores;
    for (int64_t key = 0; key < k_sizes_[2]; ++key) {
      double score = product(batch, head, query, key) * rule_.factor(q_sizes_[3]);
      if (stage >= 1 && rule_.softcap > 0) score = rule_.softcap * std::tanh(score / rule_.softcap);
      if (stage >= 2) {
        const double bias = bias_of(batch, head, query, key);
        score = bias == kMasked ? kMasked : score + bias;
      }
      scores.push_back(score);
    }
    if (stage == 3) soften(&scores);
    return scores;
  }

 private:
  static std::vector<double> biases(const OracleTensor& mask) {
    if (mask.dtype != BP_DTYPE_BOOL) return numbers<double>(mask);
    std::vector<double> values;
    for (uint64_t kept : numbers<uint64_t>(mask)) values.push_back(kept != 0 ? 0.0 : kMasked);
    return values;
  }

  double product(int64_t batch, int64_t head, int64_t query, int64_t key) const {
    double sum = 0;
    for (int64_t d = 0; d < q_sizes_[3]; ++d) {
      const int64_t q = broadcast_index(q_sizes_, {batch, head, query, d});
      const int64_t k = broadcast_index(k_sizes_, {batch, kv_head(head), key, d});
      sum += q_[static_cast<size_t>(q)] * k_[static_cast<size_t>(k)];
    }
    return sum;
  }

  /// What is added to a score; kMasked: the key takes no part.
  double bias_of(int64_t batch, int64_t head, int64_t query, int64_t key) const {
    int64_t offset = rule_.query_offset < 0 ? k_sizes_[2] - q_sizes_[2] : rule_.query_offset;
    if (!lengths_.empty()) {
      const int64_t length =
          std::clamp<int64_t>(lengths_[static_cast<size_t>(batch)], 0, k_sizes_[2]);
      if (key >= length) return kMasked;
      offset = length - q_sizes_[2];
    }
    if (!rule_.sees(query + offset, key)) return kMasked;
    if (bias_.empty()) return 0;
    const Dims at{batch, head, query, key};
    return bias_[static_cast<size_t>(broadcast_index(call_.inputs[mask_].sizes, at))];
  }

  static void soften(std::vector<double>* scores) {
    double highest = kMasked;
    for (double score : *scores) highest = larger(highest, score);
    if (highest == kMasked) {  // no key, no weight
      std::fill(scores->begin(), scores->end(), 0.0);
      return;
    }
    double sum = 0;
    for (double& score : *scores) {
      score = std::exp(score - highest);
      sum += score;
    }
    for (double& score : *scores) score /= sum;
  }

  const OracleCall& call_;
  AttentionRule rule_;
  size_t mask_;
  Dims q_sizes_;
  Dims k_sizes_;
  std::vector<double> q_;
  std::vector<double> k_;
  std::vector<double> bias_;      // empty: none
  std::vector<int64_t> lengths_;  // empty: none
};

}  // namespace

void evaluate_attention(const OracleCall& call) {
  const Scores scores(call, attention_rule(attrs<bp_attrs_attention>(call.attributes)), 3);
  const Dims& v_sizes = call.inputs[2].sizes;
  const auto v = numbers<double>(call.inputs[2]);
  OracleTensor& y = call.outputs[0];
  int64_t index = 0;
  for (Positions at({y.sizes[0], y.sizes[1], y.sizes[2]}); !at.done(); at.next()) {
    const auto weights = scores.of(at.at()[0], at.at()[1], at.at()[2], 3);
    const int64_t head = scores.kv_head(at.at()[1]);
    for (int64_t column = 0; column < v_sizes[3]; ++column, ++index) {
      double sum = 0;
      for (size_t key = 0; key < weights.size(); ++key) {
        if (weights[key] == 0) continue;  // a key that is left out may have any value
        const Dims place{at.at()[0], head, static_cast<int64_t>(key), column};
        sum += weights[key] * v[static_cast<size_t>(broadcast_index(v_sizes, place))];
      }
      put<double>(y, index, sum);
    }
  }
}

void evaluate_attention_scores(const OracleCall& call) {
  const auto& attributes = attrs<bp_attrs_attention_scores>(call.attributes);
  const Scores scores(call, attention_rule(attributes), 2);
  OracleTensor& y = call.outputs[0];
  int64_t index = 0;
  for (Positions at({y.sizes[0], y.sizes[1], y.sizes[2]}); !at.done(); at.next()) {
    for (double score : scores.of(at.at()[0], at.at()[1], at.at()[2], attributes.stage)) {
      put<double>(y, index++, score);
    }
  }
}

void evaluate_rotary_embedding(const OracleCall& call) {
  const auto& attributes = attrs<bp_attrs_rotary_embedding>(call.attributes);
  OracleTensor& y = call.outputs[0];
  const auto x = numbers<double>(call.inputs[0]);
  const auto cos = numbers<double>(call.inputs[1]);
  const auto sin = numbers<double>(call.inputs[2]);
  std::vector<int64_t> positions;
  if (call.has_input(3)) positions = numbers<int64_t>(call.inputs[3]);
  const int64_t dim = y.sizes[3];
  const int64_t turned = attributes.rotary_dim != 0 ? attributes.rotary_dim : dim;
  const int64_t pairs = turned / 2;
  int64_t index = 0;
  for (Positions at(y.sizes); !at.done(); at.next(), ++index) {
    const int64_t d = at.at()[3];
    if (d >= turned) {
      put<double>(y, index, x[static_cast<size_t>(index)]);
      continue;
    }
    const bool interleaved = attributes.interleaved != 0;
    const int64_t pair = interleaved ? d / 2 : d % pairs;
    const bool is_second = interleaved ? d % 2 != 0 : d >= pairs;
    const int64_t other = index + (is_second ? -1 : 1) * (interleaved ? 1 : pairs);
    int64_t row = broadcast_index({y.sizes[0], y.sizes[2]}, {at.at()[0], at.at()[2]});
    if (!positions.empty()) {
      const int64_t extent = call.inputs[1].sizes[0];
      row = positions[static_cast<size_t>(row)];
      row = std::clamp<int64_t>(row < 0 ? row + extent : row, 0, extent - 1);
    }
    const auto angle = static_cast<size_t>(row * pairs + pair);
    const double own = cos[angle] * x[static_cast<size_t>(index)];
    const double turn = sin[angle] * x[static_cast<size_t>(other)];
    put<double>(y, index, is_second ? turn + own : own - turn);
  }
}

}  // namespace bp::ops
