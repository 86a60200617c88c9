// SPDX-License-Identifier: Apache-2.0
//
// Attention: inference, and the oracle against values worked out by hand.
#include <cmath>

#include "ops/oracle/oracle_test_support.hpp"

namespace bp::ops {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsNan;

/// Thirds are not exact.
testing::Matcher<std::vector<double>> near_all(const std::vector<double>& expected) {
  return ::testing::Pointwise(::testing::DoubleNear(1e-12), expected);
}

TensorType of_bool(Dims sizes) { return typed(BP_DTYPE_BOOL, sizes); }
TensorType absent() { return {.dtype = BP_DTYPE_NONE, .has_rank = true, .sizes = {}}; }

TEST(InferAttention, Sizes_ComeFromQAndV) {
  EXPECT_EQ(inferred("attention", {f32({2, 6, 5, 8}), f32({2, 3, 9, 8}), f32({2, 3, 9, 4})}),
            "f32[2, 6, 5, 4]");
  EXPECT_EQ(inferred("attention", {f32({kN, 6, kM, 8}), f32({kN, 3, kU, 8}), f32({kN, 3, 9, 4}),
                                   of_bool({kM, 9})}),
            "f32[s0, 6, s1, 4]");
  EXPECT_EQ(inferred("attention",
                     {no_rank(), f32({2, 3, 9, 8}), no_rank(), absent(), typed(BP_DTYPE_I64, {2})}),
            "f32[2, ?, ?, ?]");
  EXPECT_EQ(inferred("attention_scores", {f32({2, 6, 5, 8}), f32({2, 3, 9, 8})}),
            "f32[2, 6, 5, 9]");
}

TEST(InferAttention, BadArguments_AreNamed) {
  const auto q = f32({2, 6, 5, 8});
  const auto k = f32({2, 3, 9, 8});
  EXPECT_EQ(inferred("attention", {f32({6, 5, 8}), k, k}),
            "attention: input 'q': expected rank 4, found [6, 5, 8]");
  EXPECT_EQ(inferred("attention", {q, f32({2, 4, 9, 8}), k}),
            "attention: input 'q': expected heads (dimension 1) that are a multiple of the 4 of k, "
            "found [2, 6, 5, 8]");
  EXPECT_EQ(inferred("attention", {q, f32({2, 0, 9, 8}), k}),
            "attention: input 'k': expected heads (dimension 1), found [2, 0, 9, 8]");
  EXPECT_EQ(inferred("attention", {q, f32({2, 3, 9, 7}), k}),
            "attention: input 'k': expected size 8 in dimension 3, as q, found [2, 3, 9, 7]");
  EXPECT_EQ(inferred("attention", {q, k, f32({2, 3, 8, 8})}),
            "attention: input 'v': expected size 9 in dimension 2, as k, found [2, 3, 8, 8]");
  EXPECT_EQ(inferred("attention", {q, k, k, of_bool({5, 8})}),
            "attention: input 'mask': expected sizes that broadcast to [2, 6, 5, 9], found [5, 8]");
  EXPECT_EQ(inferred("attention", {q, k, k, absent(), typed(BP_DTYPE_I64, {3})}),
            "attention: input 'kv_lengths': expected size 2 in dimension 0, as q, found [3]");
}

TEST(InferAttention, BadAttributes_AreNamed) {
  const auto with = [](auto set) {
    bp_attrs_attention attributes = bp_attrs_attention_defaults();
    set(&attributes);
    const auto x = f32({1, 1, 2, 2});
    return inferred("attention", {x, x, x}, &attributes);
  };
  EXPECT_EQ(with([](auto* a) { a->softcap = -1; }),
            "attention: attribute 'softcap': expected a finite number from 0, found -1.000000");
  EXPECT_EQ(with([](auto* a) { a->scale = kInf; }),
            "attention: attribute 'scale': expected a finite number, found inf");
  EXPECT_EQ(with([](auto* a) { a->query_offset = -2; }),
            "attention: attribute 'query_offset': expected -1 or more, found -2");
  EXPECT_EQ(with([](auto* a) { a->left_window = -2; }),
            "attention: attribute 'left_window': expected -1 or more, found -2");
  EXPECT_EQ(with([](auto* a) { a->right_window = -3; }),
            "attention: attribute 'right_window': expected -1 or more, found -3");
  bp_attrs_attention_scores stage = bp_attrs_attention_scores_defaults();
  stage.stage = 4;
  EXPECT_EQ(inferred("attention_scores", {f32({1, 1, 2, 2}), f32({1, 1, 2, 2})}, &stage),
            "attention_scores: attribute 'stage': expected 0 to 3, found 4");
}

/// Three keys of one number, with values 1, 10 and 100; equal scores give means of values.
struct Equal {
  OracleTensor q = doubles({1, 1, 3, 1}, {0, 0, 0});
  OracleTensor k = doubles({1, 1, 3, 1}, {1, 2, 3});
  OracleTensor v = doubles({1, 1, 3, 1}, {1, 10, 100});
  OracleTensor mask = {};
  OracleTensor lengths = {};
  bp_attrs_attention attributes = bp_attrs_attention_defaults();

  std::vector<double> run() const {
    return values_of(evaluated("attention", {q, k, v, mask, lengths}, &attributes));
  }
};

TEST(OracleAttention, Weights_AreSoftmaxOfScores) {
  // Scores 0 and ln 3: weights 1/4 and 3/4.
  const auto y =
      evaluated("attention", {doubles({1, 1, 1, 1}, {std::log(3)}), doubles({1, 1, 2, 1}, {0, 1}),
                              doubles({1, 1, 2, 2}, {4, 8, 0, 16})});
  EXPECT_NEAR(values_of(y)[0], 1, 1e-12);
  EXPECT_NEAR(values_of(y)[1], 14, 1e-12);
}

TEST(OracleAttention, Positions_TakeKeysOut) {
  Equal call;
  call.attributes.causal = 1;
  EXPECT_THAT(call.run(), near_all({1, 5.5, 37}));
  call.attributes.query_offset = 1;
  EXPECT_THAT(call.run(), near_all({5.5, 37, 37}));
  call.attributes = bp_attrs_attention_defaults();
  call.attributes.left_window = 0;
  call.attributes.right_window = 1;
  EXPECT_THAT(call.run(), ElementsAre(5.5, 55, 100));
  call.attributes.query_offset = 3;
  EXPECT_THAT(call.run(), ElementsAre(0, 0, 0));
}

TEST(OracleAttention, Masks_TakeKeysOut) {
  Equal call;
  call.mask = tensor(BP_DTYPE_BOOL, {3, 3}, {1, 0, 0, 0, 1, 1, 0, 0, 0});
  EXPECT_THAT(call.run(), ElementsAre(1, 55, 0));
  call.mask = doubles({3}, {0, -kInf, 0});
  EXPECT_THAT(call.run(), ElementsAre(50.5, 50.5, 50.5));
  call.v = doubles({1, 1, 3, 1}, {1, kNan, 3});
  call.k = doubles({1, 1, 3, 1}, {1, kNan, 3});
  EXPECT_THAT(call.run(), Each(2));
}

TEST(OracleAttention, Lengths_ArePaddingAndPosition) {
  Equal call;
  call.lengths = longs({1}, {2});
  EXPECT_THAT(call.run(), Each(5.5));
  call.attributes.causal = 1;  // the last query stands at key 1
  EXPECT_THAT(call.run(), ElementsAre(0, 1, 5.5));
  call.lengths = longs({1}, {INT64_MAX});
  EXPECT_THAT(call.run(), near_all({1, 5.5, 37}));
  call.lengths = longs({1}, {-5});
  EXPECT_THAT(call.run(), Each(0));
}

TEST(OracleAttention, HeadsOfKAndV_ServeSeveralHeadsOfQ) {
  const auto y =
      evaluated("attention", {doubles({1, 4, 1, 1}, {0, 0, 0, 0}), doubles({1, 2, 1, 1}, {1, 1}),
                              doubles({1, 2, 1, 1}, {7, 9})});
  EXPECT_THAT(values_of(y), ElementsAre(7, 7, 9, 9));
}

TEST(OracleAttention, NanOfAKeptKey_Spreads) {
  Equal call;
  call.k = doubles({1, 1, 3, 1}, {1, kNan, 3});
  EXPECT_THAT(call.run(), Each(IsNan()));
}

TEST(OracleAttentionScores, Stages_ByHand) {
  const auto q = doubles({1, 1, 1, 1}, {2});
  const auto k = doubles({1, 1, 2, 1}, {1, 3});
  const auto mask = doubles({2}, {5, -kInf});
  const auto at = [&](int64_t stage) {
    bp_attrs_attention_scores attributes = bp_attrs_attention_scores_defaults();
    attributes.scale = 0.5;
    attributes.softcap = 2;
    attributes.stage = stage;
    return values_of(evaluated("attention_scores", {q, k, mask}, &attributes));
  };
  EXPECT_THAT(at(0), ElementsAre(1, 3));
  EXPECT_THAT(at(1), ElementsAre(2 * std::tanh(0.5), 2 * std::tanh(1.5)));
  EXPECT_THAT(at(2), ElementsAre(5 + 2 * std::tanh(0.5), -kInf));
  EXPECT_THAT(at(3), ElementsAre(1, 0));
}

TEST(InferRotary, SizesAreThoseOfX_TheTablesAreChecked) {
  const auto x = f32({2, 3, 5, 8});
  EXPECT_EQ(inferred("rotary_embedding", {x, f32({2, 5, 4}), f32({2, 5, 4})}), "f32[2, 3, 5, 8]");
  EXPECT_EQ(inferred("rotary_embedding", {f32({kN, 3, kM, 8}), f32({9, 4}), f32({9, 4}),
                                          typed(BP_DTYPE_I64, {kN, kM})}),
            "f32[s0, 3, s1, 8]");
  EXPECT_EQ(inferred("rotary_embedding", {x, f32({2, 5, 3}), f32({2, 5, 4})}),
            "rotary_embedding: input 'cos': expected sizes [2, 5, 4], found [2, 5, 3]");
  EXPECT_EQ(
      inferred("rotary_embedding", {x, f32({9, 4}), f32({8, 4}), typed(BP_DTYPE_I32, {2, 5})}),
      "rotary_embedding: input 'sin': expected sizes [9, 4], found [8, 4]");
  EXPECT_EQ(
      inferred("rotary_embedding", {x, f32({9, 4}), f32({9, 4}), typed(BP_DTYPE_I64, {2, 6})}),
      "rotary_embedding: input 'positions': expected sizes [2, 5], as dimensions 0 and 2 of x, "
      "found [2, 6]");
  EXPECT_EQ(inferred("rotary_embedding", {f32({2, 3, 5, 7}), f32({2, 5, 3}), f32({2, 5, 3})}),
            "rotary_embedding: input 'x': expected an even last size, found [2, 3, 5, 7]");
  bp_attrs_rotary_embedding attributes = bp_attrs_rotary_embedding_defaults();
  attributes.rotary_dim = 4;
  EXPECT_EQ(inferred("rotary_embedding", {f32({2, 3, 5, 7}), f32({2, 5, 2}), f32({2, 5, 2})},
                     &attributes),
            "f32[2, 3, 5, 7]");
  for (const int64_t bad : {-2, 3, 10}) {
    attributes.rotary_dim = bad;
    EXPECT_EQ(
        inferred("rotary_embedding", {x, f32({2, 5, 4}), f32({2, 5, 4})}, &attributes),
        "rotary_embedding: attribute 'rotary_dim': expected an even number from 2 to the last "
        "size of [2, 3, 5, 8], or 0, found " +
            std::to_string(bad));
  }
}

TEST(OracleRotary, PairsAreTurned) {
  const auto x = floats({1, 1, 1, 4}, {1, 2, 3, 4});
  const auto cos = floats({1, 1, 2}, {0, 2});
  const auto sin = floats({1, 1, 2}, {1, 10});
  // (1, 3) by (0, 1); (2, 4) by (2, 10).
  EXPECT_THAT(values_of(evaluated("rotary_embedding", {x, cos, sin})), ElementsAre(-3, -36, 1, 28));
  bp_attrs_rotary_embedding attributes = bp_attrs_rotary_embedding_defaults();
  attributes.interleaved = 1;
  EXPECT_THAT(values_of(evaluated("rotary_embedding", {x, cos, sin}, &attributes)),
              ElementsAre(-2, 1, -34, 38));
  attributes.rotary_dim = 2;
  EXPECT_THAT(
      values_of(evaluated("rotary_embedding",
                          {x, floats({2, 1}, {7, 0}), floats({2, 1}, {7, 1}), longs({1, 1}, {-1})},
                          &attributes)),
      ElementsAre(-2, 1, 3, 4));
}

}  // namespace
}  // namespace bp::ops
