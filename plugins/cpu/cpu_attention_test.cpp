// SPDX-License-Identifier: Apache-2.0
//
// attention against f64 loops: sizes round the edges of blocks and vectors, masks, windows,
// lengths, shared heads, strides, and scores that are no numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "backplane/ops/attributes.h"
#include "plugins/cpu/cpu_test_support.hpp"

namespace bp::cpu_test {
namespace {

struct Attention {
  Tensor q;
  Tensor k;
  Tensor v;
  Tensor mask = {};
  Tensor lengths = {};
  bp_attrs_attention attrs = bp_attrs_attention_defaults();
};

/// The definition, one query at a time. Elements are decoded once, for that takes longest.
class Reference {
 public:
  explicit Reference(const Attention& a)
      : a_(a), q_(a.q.values()), k_(a.k.values()), v_(a.v.values()), keys_(a.k.sizes[2]) {
    if (a.mask.dtype == BP_DTYPE_NONE) return;
    Tensor mask = a.mask;
    mask.strides.insert(mask.strides.begin(), 4 - mask.sizes.size(), 0);
    mask.sizes.insert(mask.sizes.begin(), 4 - mask.sizes.size(), 1);
    mask_ = mask.expanded({a.q.sizes[0], a.q.sizes[1], a.q.sizes[2], keys_}).values();
  }

  Values row(int64_t batch, int64_t head, int64_t query) const {
    Values scores;
    double highest = -kInf;
    for (int64_t key = 0; key < keys_; ++key) {
      scores.push_back(score(batch, head, query, key));
      highest = scores.back() > highest || std::isnan(scores.back()) ? scores.back() : highest;
    }
    const auto width = static_cast<size_t>(a_.v.sizes[3]);
    Values sums(width, 0.0);
    if (highest == -kInf) return sums;
    double total = 0;
    for (size_t key = 0; key < scores.size(); ++key) {
      if (scores[key] == -kInf) continue;  // its v may be anything
      const double weight = std::exp(scores[key] - highest);
      total += weight;
      const double* const v = v_.data() + (key_row(batch, head) + key) * width;
      for (size_t i = 0; i < width; ++i) sums[i] += weight * v[i];
    }
    for (double& sum : sums) sum /= total;
    return sums;
  }

 private:
  int64_t length(int64_t batch) const {
    if (a_.lengths.dtype == BP_DTYPE_NONE) return keys_;
    return std::clamp<int64_t>(static_cast<int64_t>(a_.lengths.at({batch})), 0, keys_);
  }
  bool is_seen(int64_t batch, int64_t query, int64_t key) const {
    const bp_attrs_attention& attrs = a_.attrs;
    int64_t position = query + attrs.query_offset;
    if (attrs.query_offset < 0) position = query + keys_ - a_.q.sizes[2];
    if (a_.lengths.dtype != BP_DTYPE_NONE) position = query + length(batch) - a_.q.sizes[2];
    return key < length(batch) && (attrs.causal == 0 || key <= position) &&
           (attrs.left_window < 0 || key >= position - attrs.left_window) &&
           (attrs.right_window < 0 || key <= position + attrs.right_window);
  }
  /// Of the first key that a head of q meets.
  size_t key_row(int64_t batch, int64_t head) const {
    const int64_t kv_head = head / (a_.q.sizes[1] / a_.k.sizes[1]);
    return static_cast<size_t>((batch * a_.k.sizes[1] + kv_head) * keys_);
  }
  double score(int64_t batch, int64_t head, int64_t query, int64_t key) const {
    if (!is_seen(batch, query, key)) return -kInf;
    const int64_t row = (batch * a_.q.sizes[1] + head) * a_.q.sizes[2] + query;
    const auto dim = static_cast<size_t>(a_.q.sizes[3]);
    const double* const q = q_.data() + static_cast<size_t>(row) * dim;
    const double* const k = k_.data() + (key_row(batch, head) + static_cast<size_t>(key)) * dim;
    double sum = 0;
    for (size_t i = 0; i < dim; ++i) sum += q[i] * k[i];
    sum *= a_.attrs.scale != 0 ? a_.attrs.scale : 1 / std::sqrt(static_cast<double>(dim));
    if (a_.attrs.softcap > 0) sum = a_.attrs.softcap * std::tanh(sum / a_.attrs.softcap);
    if (mask_.empty()) return sum;
    const double bias = mask_[static_cast<size_t>(row * keys_ + key)];
    if (a_.mask.dtype == BP_DTYPE_BOOL) return bias != 0 ? sum : -kInf;
    return bias == -kInf ? -kInf : sum + bias;
  }

  const Attention& a_;
  Values q_;
  Values k_;
  Values v_;
  Values mask_;
  int64_t keys_;
};

double tolerance_of(uint32_t dtype) {
  if (dtype == BP_DTYPE_F16) return 0x1p-10;
  if (dtype == BP_DTYPE_BF16) return 0x1p-7;
  return dtype == BP_DTYPE_F32 ? 4e-6 : 1e-13;
}

void expect_attention(Device& device, const Attention& a) {
  const Tensor y = make_output(a.q.dtype, {a.q.sizes[0], a.q.sizes[1], a.q.sizes[2], a.v.sizes[3]});
  const Call call{"attention", {a.q, a.k, a.v, a.mask, a.lengths}, y, &a.attrs};
  const Outcome outcome = run(device, call);
  ASSERT_EQ(outcome.status, BP_OK);
  EXPECT_EQ(outcome.kernel, "attention_blocks");
  const Reference reference(a);
  const Values values = y.values();
  size_t flat = 0;
  for_each_index({y.sizes[0], y.sizes[1], y.sizes[2]}, [&](const Sizes& at) {
    const Values expected = reference.row(at[0], at[1], at[2]);
    for (size_t i = 0; i < expected.size(); ++i) {
      const double found = values[flat++];
      if (std::isnan(expected[i])) {
        ASSERT_TRUE(std::isnan(found)) << found << " of query " << at[2];
        continue;
      }
      ASSERT_NEAR(found, expected[i], tolerance_of(y.dtype) * (1 + std::fabs(expected[i])))
          << "dtype " << y.dtype << ", head " << at[1] << ", query " << at[2] << " of "
          << a.q.sizes[2] << ", keys " << a.k.sizes[2] << ", dim " << a.q.sizes[3] << ", i " << i;
    }
  });
}

struct Shape {
  int64_t queries;
  int64_t keys;
  int64_t dim;
  int64_t v_dim;
  int64_t q_heads = 2;
  int64_t kv_heads = 2;
  int64_t batch = 1;
};

Attention make_attention(const Shape& s, uint32_t dtype = BP_DTYPE_F32) {
  return {.q = make_random(dtype, {s.batch, s.q_heads, s.queries, s.dim}, 1),
          .k = make_random(dtype, {s.batch, s.kv_heads, s.keys, s.dim}, 2),
          .v = make_random(dtype, {s.batch, s.kv_heads, s.keys, s.v_dim}, 3)};
}

TEST(CpuAttention, SizesRoundBlocksAndVectors_MatchF64) {
  Device device;
  for (const int64_t queries : {1, 2, 7, 8, 9, 63, 64, 65, 130}) {
    for (const int64_t keys : {1, 3, 15, 17, 63, 64, 65, 129}) {
      for (const bool causal : {false, true}) {
        Attention a = make_attention({queries, keys, 24, 17});
        a.attrs.causal = causal;
        expect_attention(device, a);
      }
    }
  }
}

TEST(CpuAttention, HeadSizes_MatchF64) {
  Device device;
  for (const int64_t dim : {1, 2, 3, 4, 5, 7, 8, 12, 16, 31, 32, 33, 40, 64, 72, 80, 96, 128}) {
    for (const int64_t queries : {1, 3, 20}) {
      expect_attention(device, make_attention({queries, 70, dim, dim}));
      expect_attention(device, make_attention({queries, 70, 8, dim}));
      expect_attention(device, make_attention({queries, 70, dim, 8}, BP_DTYPE_F64));
    }
  }
}

TEST(CpuAttention, EveryDtype_MatchesF64) {
  Device device;
  for (const uint32_t dtype : {BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_F32, BP_DTYPE_F64}) {
    for (const int64_t queries : {1, 6, 70}) {
      Attention a = make_attention({queries, 140, 20, 27, 4, 2, 2}, dtype);
      expect_attention(device, a);
      a.attrs.causal = 1;
      a.attrs.query_offset = -1;
      a.attrs.softcap = 2.5;
      a.attrs.scale = 0.3;
      expect_attention(device, a);
    }
  }
}

TEST(CpuAttention, Masks_OfEveryDtypeAndStride) {
  Device device;
  for (const uint32_t dtype : {BP_DTYPE_F16, BP_DTYPE_F32, BP_DTYPE_F64}) {
    for (const uint32_t mask_dtype :
         {BP_DTYPE_BOOL, BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_F32, BP_DTYPE_F64}) {
      const bool is_bool = mask_dtype == BP_DTYPE_BOOL;
      const double low = is_bool ? 0 : -2;
      Attention a = make_attention({21, 83, 16, 16, 4, 2, 2}, dtype);
      a.mask = make_random(mask_dtype, {21, 83}, 4, low, 2);
      expect_attention(device, a);
      a.mask = make_random(mask_dtype, {83, 21}, 4, low, 2).permuted({1, 0});
      a.attrs.causal = 1;
      a.attrs.query_offset = 40;
      expect_attention(device, a);
      a.mask = make_random(mask_dtype, {2, 1, 1, 83}, 5, low, 2);
      expect_attention(device, a);
      a.mask = make_random(mask_dtype, {4, 21, 1}, 6, low, 2);
      expect_attention(device, a);
    }
  }
}

TEST(CpuAttention, WindowsAndLengths_CutTheKeys) {
  Device device;
  for (const int64_t left : {-1, 0, 5, 70}) {
    for (const int64_t right : {-1, 0, 9, 80}) {
      Attention a = make_attention({100, 150, 16, 16});
      a.attrs.left_window = left;
      a.attrs.right_window = right;
      a.attrs.query_offset = 30;
      expect_attention(device, a);
      Attention b = make_attention({9, 150, 16, 16, 6, 2, 4}, BP_DTYPE_F16);
      b.lengths = make_tensor(BP_DTYPE_I64, {4}, {0, 150, 61, 1000});
      b.attrs.left_window = left;
      b.attrs.right_window = right;
      expect_attention(device, b);
    }
  }
}

TEST(CpuAttention, SharedHeads_AreOneBlockOfQueries) {
  Device device;
  for (const int64_t queries : {1, 2, 9, 33}) {
    Attention a = make_attention({queries, 90, 32, 32, 8, 2, 2});
    a.attrs.causal = 1;
    a.attrs.query_offset = -1;
    a.mask = make_random(BP_DTYPE_F32, {8, queries, 90}, 7);
    expect_attention(device, a);
  }
}

TEST(CpuAttention, HeadsBesidePositions_AreReadAsTheyLie) {
  Device device;
  const auto heads = [](uint32_t dtype, int64_t count, uint32_t seed) {
    return make_random(dtype, {2, count, 3, 20}, seed).permuted({0, 2, 1, 3});
  };
  for (const uint32_t dtype : {BP_DTYPE_BF16, BP_DTYPE_F32, BP_DTYPE_F64}) {
    for (const int64_t queries : {2, 12}) {
      expect_attention(device, {.q = heads(dtype, queries, 1),
                                .k = heads(dtype, 75, 2).flipped(2),
                                .v = heads(dtype, 75, 3).flipped(1)});
    }
  }
}

TEST(CpuAttention, QueriesWithoutKeys_GiveZero) {
  Device device;
  for (const int64_t queries : {3, 40}) {
    Attention a = make_attention({queries, 100, 16, 19});
    Values kept(static_cast<size_t>(queries) * 100, 1.0);
    std::fill_n(kept.begin() + 100, 100, 0.0);
    a.mask = make_tensor(BP_DTYPE_BOOL, {queries, 100}, kept);
    expect_attention(device, a);
    for (double& value : kept) value = value == 0 ? -kInf : 0.5;
    a.mask = make_tensor(BP_DTYPE_F32, {queries, 100}, kept);
    expect_attention(device, a);
    a = make_attention({queries, 100, 16, 19});
    a.lengths = make_tensor(BP_DTYPE_I64, {1}, {0});
    expect_attention(device, a);
    expect_attention(device, make_attention({queries, 0, 16, 19}));
  }
}

TEST(CpuAttention, KeysThatAreNoNumbers_CountWhereTheyAreSeen) {
  Device device;
  for (const double poison : {kNan, kInf, -kInf}) {
    for (const int64_t queries : {3, 90}) {
      Attention a = make_attention({queries, 90, 4, 4, 1, 1});
      const int64_t at = 70;
      for (int64_t i = 0; i < 4; ++i) a.k.data<float>()[at * 4 + i] = static_cast<float>(poison);
      for (float* q = a.q.data<float>(); q != a.q.data<float>() + queries * 4; ++q) *q = 1;
      a.attrs.causal = 1;
      a.attrs.query_offset = -1;
      expect_attention(device, a);
      a.mask = make_tensor(BP_DTYPE_BOOL, {90}, Values(90, 1.0));
      a.mask.data<bool>()[at] = false;
      expect_attention(device, a);
    }
  }
}

TEST(CpuAttention, ValuesBeyondTheLength_MayBeAnything) {
  Device device;
  for (const int64_t queries : {1, 20}) {
    Attention a = make_attention({queries, 100, 8, 8, 1, 1});
    a.lengths = make_tensor(BP_DTYPE_I64, {1}, {37});
    for (int64_t i = 37 * 8; i < 100 * 8; ++i) {
      a.k.data<float>()[i] = static_cast<float>(kNan);
      a.v.data<float>()[i] = static_cast<float>(kInf);
    }
    expect_attention(device, a);
  }
}

TEST(CpuAttention, LargeScores_DoNotOverflow) {
  Device device;
  Attention a = make_attention({70, 200, 16, 16});
  a.attrs.scale = 60;
  const Tensor y = make_output(BP_DTYPE_F32, a.q.sizes);
  ASSERT_EQ(run(device, {"attention", {a.q, a.k, a.v}, y, &a.attrs}).status, BP_OK);
  for (const double value : y.values()) ASSERT_LE(std::fabs(value), 2.0);
  Tensor ones = a.v;
  std::fill_n(ones.data<float>(), 2 * 200 * 16, 1.0F);
  ASSERT_EQ(run(device, {"attention", {a.q, a.k, ones}, y, &a.attrs}).status, BP_OK);
  EXPECT_THAT(y.values(), ::testing::Each(::testing::DoubleNear(1, 1e-5)));
}

}  // namespace
}  // namespace bp::cpu_test
