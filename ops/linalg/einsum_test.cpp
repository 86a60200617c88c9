// SPDX-License-Identifier: Apache-2.0
//
// einsum: what equations are taken, sizes, and the oracle against values worked out by hand.
#include "ops/oracle/oracle_test_support.hpp"

namespace bp::ops {
namespace {

using ::testing::ElementsAre;

bp_attrs_einsum with_equation(std::string_view equation) {
  bp_attrs_einsum attributes = bp_attrs_einsum_defaults();
  attributes.equation = {equation.data(), equation.size()};
  return attributes;
}

std::string einsum(std::string_view equation, const std::vector<TensorType>& inputs) {
  const bp_attrs_einsum attributes = with_equation(equation);
  return inferred("einsum", inputs, &attributes);
}

TEST(InferEinsum, Sizes_AreThoseOfTheOutput) {
  EXPECT_EQ(einsum("ij,jk->ik", {f32({2, 3}), f32({3, 4})}), "f32[2, 4]");
  EXPECT_EQ(einsum(" i j , j k -> k i ", {f32({2, 3}), f32({3, 4})}), "f32[4, 2]");
  EXPECT_EQ(einsum("ij->", {f32({2, 3})}), "f32[]");
  EXPECT_EQ(einsum("->", {f32({})}), "f32[]");
  EXPECT_EQ(einsum("ii->i", {f32({3, 3})}), "f32[3]");
  EXPECT_EQ(einsum("...ii->...i", {f32({2, 4, 3, 3})}), "f32[2, 4, 3]");
  EXPECT_EQ(einsum("i...,...j->...ij", {f32({5, 2, 1}), f32({7, 6})}), "f32[2, 7, 5, 6]");
  EXPECT_EQ(einsum("ij,jk->ik", {f32({2, 1}), f32({3, 4})}), "f32[2, 4]");
  EXPECT_EQ(einsum("...i->i", {f32({3})}), "f32[3]");
}

TEST(InferEinsum, WithoutArrow_LettersThatStandOnce) {
  EXPECT_EQ(einsum("ba", {f32({2, 3})}), "f32[3, 2]");
  EXPECT_EQ(einsum("aB", {f32({2, 3})}), "f32[3, 2]");  // capitals come first
  EXPECT_EQ(einsum("ij,jk", {f32({2, 3}), f32({3, 4})}), "f32[2, 4]");
  EXPECT_EQ(einsum("ii", {f32({3, 3})}), "f32[]");
  EXPECT_EQ(einsum("b...,...a", {f32({5, 2}), f32({2, 6})}), "f32[2, 6, 5]");
}

TEST(InferEinsum, Unknowns_GoThrough) {
  EXPECT_EQ(einsum("bij,bjk->bik", {f32({kN, 2, kU}), f32({kN, 3, kM})}), "f32[s0, 2, s1]");
  EXPECT_EQ(einsum("ij,jk->ik", {no_rank(), f32({3, 4})}), "f32[?, 4]");
  EXPECT_EQ(einsum("...j,jk->...k", {no_rank(), f32({3, 4})}), "f32[...]");
  EXPECT_EQ(einsum("...j,jk->jk", {no_rank(), f32({3, 4})}), "f32[3, 4]");
}

TEST(InferEinsum, BadEquations_AreNamed) {
  const std::string words = "einsum: attribute 'equation': ";
  EXPECT_EQ(einsum("ij->iji", {f32({2, 3})}),
            words + "expected each letter once in the output, found 'i' twice");
  EXPECT_EQ(einsum("ij->ik", {f32({2, 3})}),
            words + "expected letters of operands in the output, found 'k'");
  EXPECT_EQ(einsum("i1->i", {f32({2, 3})}),
            words + "expected letters, '...' and spaces in a term, found '1'");
  EXPECT_EQ(einsum("i..->i", {f32({2, 3})}),
            words + "expected letters, '...' and spaces in a term, found '.'");
  EXPECT_EQ(einsum("i->i->i", {f32({2})}),
            words + "expected letters, '...' and spaces in a term, found '-'");
  EXPECT_EQ(einsum("i->i,i", {f32({2})}),
            words + "expected letters, '...' and spaces in a term, found ','");
  EXPECT_EQ(einsum("...i...->i", {f32({2})}),
            words + "expected '...' once in a term, found '...i...'");
  EXPECT_EQ(einsum("ij,jk->ik", {f32({2, 3})}),
            words + "expected a term for each of 1 inputs, found 2 in 'ij,jk->ik'");
  EXPECT_EQ(
      einsum("...i->i", {f32({2, 3})}),
      words + "expected '...' in the output, as those of the inputs have 1 dimensions, found none");
  Dims nine;
  nine.resize(9, 1);
  EXPECT_EQ(einsum("abcdefghi,jklmnopqr->abcdefghijklmnopqr", {f32(nine), f32(nine)}),
            words + "expected an output of rank 16 or less, found 18");
}

TEST(InferEinsum, InputsThatDoNotFit_AreNamed) {
  EXPECT_EQ(einsum("ij,jk->ik", {f32({2, 3}), f32({3})}),
            "einsum: input 'x': number 2 of sizes [3]: expected rank 2, found 1");
  EXPECT_EQ(einsum("ij->i", {f32({2, 3, 4})}),
            "einsum: input 'x': number 1 of sizes [2, 3, 4]: expected rank 2, found 3");
  EXPECT_EQ(einsum("...ij->...i", {f32({2})}),
            "einsum: input 'x': number 1 of sizes [2]: expected rank 2 or more, found 1");
  EXPECT_EQ(einsum("ij,jk->ik", {f32({2, 3}), f32({5, 4})}),
            "einsum: input 'x': number 2 of sizes [5, 4]: for 'j' expected 3, as before, found 5");
  EXPECT_EQ(
      einsum("ii->i", {f32({2, 3})}),
      "einsum: input 'x': number 1 of sizes [2, 3]: expected equal sizes for 'i', found 3 and 2");
  EXPECT_EQ(einsum("...i,...i->...", {f32({2, 3}), f32({4, 3})}),
            "einsum: input 'x': number 2 of sizes [4, 3]: for the ellipsis expected 2, as before, "
            "found 4");
}

TEST(OracleEinsum, Values_ByHand) {
  const auto values = [](std::string_view equation, const std::vector<OracleTensor>& inputs) {
    const bp_attrs_einsum attributes = with_equation(equation);
    return values_of(evaluated("einsum", inputs, &attributes));
  };
  const auto a = floats({2, 2}, {1, 2, 3, 4});
  const auto b = floats({2, 2}, {5, 6, 7, 8});
  EXPECT_THAT(values("ij,jk->ik", {a, b}), ElementsAre(19, 22, 43, 50));
  EXPECT_THAT(values("ij->ji", {a}), ElementsAre(1, 3, 2, 4));
  EXPECT_THAT(values("ii->i", {a}), ElementsAre(1, 4));
  EXPECT_THAT(values("ii", {a}), ElementsAre(5));
  EXPECT_THAT(values("ij,ij->", {a, b}), ElementsAre(70));
  EXPECT_THAT(values("ij,i,j->", {a, floats({2}, {1, 10}), floats({1}, {2})}), ElementsAre(146));
  EXPECT_THAT(values("i,j->ji", {floats({2}, {1, 2}), floats({2}, {3, 4})}),
              ElementsAre(3, 6, 4, 8));
  EXPECT_THAT(values("ij->i", {floats({2, 0}, {})}), ElementsAre(0, 0));
  EXPECT_THAT(
      values("i,i->i", {tensor(BP_DTYPE_I8, {2}, {100, -3}), tensor(BP_DTYPE_I8, {1}, {2})}),
      ElementsAre(-56, -6));
}

}  // namespace
}  // namespace bp::ops
