// SPDX-License-Identifier: Apache-2.0
#include "ccl/schedule/select.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bp::ccl {
namespace {

using testing::HasSubstr;

constexpr CostModel kModel = {10'000, 1, 0.2, 500, 0.1};
constexpr uint64_t kKi = 1024;

ChooseArgs of(Kind kind, uint64_t count, uint32_t rank_count) {
  ChooseArgs args;
  args.operation = {kind, BP_DTYPE_U8, Reduction::kSum, 0, count, false};
  if (kind == Kind::kBarrier) args.operation.dtype = BP_DTYPE_NONE;
  args.rank_count = rank_count;
  return args;
}

std::string_view chosen(const ChooseArgs& args, std::string_view rules = "") {
  return choose(args, kModel, AlgorithmRules::parse(rules).value()).algorithm->name;
}

std::string error_of(std::string_view rules) {
  const auto parsed = AlgorithmRules::parse(rules);
  return parsed.ok() ? "fine" : parsed.status().to_string();
}

TEST(Select, AllReduce_GrowingSizes_GoesFromFewMessagesToFewBytes) {
  EXPECT_EQ(chosen(of(Kind::kAllReduce, 8, 8)), "recursive_doubling");
  EXPECT_EQ(chosen(of(Kind::kAllReduce, 1024 * kKi, 8)), "rabenseifner");
  EXPECT_EQ(chosen(of(Kind::kAllReduce, 1024 * kKi, 6)), "ring");  // nothing to fold
}

TEST(Select, OtherKinds_GrowingSizes_GoFromFewMessagesToFewBytes) {
  EXPECT_EQ(chosen(of(Kind::kAllGather, 8, 6)), "bruck");
  EXPECT_EQ(chosen(of(Kind::kAllGather, 1024 * kKi, 6)), "ring");
  EXPECT_EQ(chosen(of(Kind::kAllGather, 1024 * kKi, 8)), "recursive_doubling");
  EXPECT_EQ(chosen(of(Kind::kReduceScatter, 8, 8)), "recursive_halving");
  EXPECT_EQ(chosen(of(Kind::kReduceScatter, 8, 6)), "ring");
  EXPECT_EQ(chosen(of(Kind::kBroadcast, 8, 8)), "binomial");
  EXPECT_EQ(chosen(of(Kind::kBroadcast, 4096 * kKi, 8)), "scatter_allgather");
  EXPECT_EQ(chosen(of(Kind::kReduce, 8, 8)), "binomial");
  EXPECT_EQ(chosen(of(Kind::kReduce, 4096 * kKi, 8)), "reduce_scatter_gather");
  EXPECT_EQ(chosen(of(Kind::kGather, 8, 8)), "binomial");
  EXPECT_EQ(chosen(of(Kind::kAllToAll, 8, 8)), "bruck");
  EXPECT_EQ(chosen(of(Kind::kAllToAll, 1024 * kKi, 8)), "pairwise");
  EXPECT_EQ(chosen(of(Kind::kBarrier, 0, 8)), "dissemination");
  EXPECT_EQ(chosen(of(Kind::kSend, 8, 2)), "direct");
}

TEST(Select, EveryKindAndGroup_AnyNeeds_HasAnAlgorithmThatServes) {
  const std::vector<uint32_t> hosts(130, 0);
  for (uint32_t kind = 0; kind < kKindCount; ++kind) {
    for (uint32_t rank_count = 1; rank_count <= 130; ++rank_count) {
      for (uint32_t bits = 0; bits < 8; ++bits) {
        ChooseArgs args = of(static_cast<Kind>(kind), kind < 10 ? 100 : 0, rank_count);
        args.operation.is_deterministic = (bits & 1) != 0;
        args.has_blocks = (bits & 2) != 0;
        if ((bits & 4) != 0) args.hosts = std::span(hosts).first(rank_count);
        const Choice choice = choose(args, kModel, {});
        ASSERT_NE(choice.algorithm, nullptr);
        EXPECT_TRUE(serves(*choice.algorithm, {rank_count, args.operation.is_deterministic,
                                               args.has_blocks, !args.hosts.empty()}));
      }
    }
  }
}

TEST(Select, Deterministic_WhateverTheRules_IsInRankOrder) {
  for (const Kind kind : {Kind::kAllReduce, Kind::kReduce, Kind::kReduceScatter}) {
    for (const uint64_t count : {uint64_t{1}, 4096 * kKi}) {
      ChooseArgs args = of(kind, count, 8);
      args.operation.is_deterministic = true;
      const auto rules = AlgorithmRules::parse("all_reduce:ring,reduce:binomial").value();
      const Choice choice = choose(args, kModel, rules);
      EXPECT_TRUE(choice.algorithm->is_in_rank_order) << choice.algorithm->name;
      EXPECT_EQ(choice.unfit_wish != nullptr, kind != Kind::kReduceScatter);
    }
  }
  ChooseArgs args = of(Kind::kAllReduce, 1, 64);
  args.operation.is_deterministic = true;
  EXPECT_EQ(chosen(args), "gathered_rank_order");
  args.operation.count = 4096 * kKi;
  EXPECT_EQ(chosen(args), "rank_order");
}

TEST(Select, KnownHosts_SlowNetwork_GoThroughHosts) {
  std::vector<uint32_t> hosts(32);
  for (uint32_t i = 0; i < 32; ++i) hosts[i] = i / 8;
  ChooseArgs args = of(Kind::kAllReduce, 1024 * kKi, 32);
  EXPECT_EQ(chosen(args), "rabenseifner");
  args.hosts = hosts;
  EXPECT_EQ(chosen(args), "hierarchical");
}

TEST(Select, UnequalBlocks_WishForEqualOnes_IsTold) {
  ChooseArgs args = of(Kind::kAllGather, 8, 8);
  args.has_blocks = true;
  const auto rules = AlgorithmRules::parse("all_gather:recursive_doubling").value();
  const Choice choice = choose(args, kModel, rules);
  EXPECT_EQ(choice.algorithm->name, "bruck");
  ASSERT_NE(choice.unfit_wish, nullptr);
  EXPECT_EQ(choice.unfit_wish->name, "recursive_doubling");
}

TEST(Select, Estimate_AWishOrNone_IsThatOfTheFormula) {
  // 3 rounds and 7 blocks of 4 bytes by messages; 9 blocks are copied.
  ChooseArgs args = of(Kind::kAllGather, 100, 8);
  args.operation.dtype = BP_DTYPE_F32;
  const auto rules = AlgorithmRules::parse("all_gather:bruck").value();
  EXPECT_DOUBLE_EQ(choose(args, kModel, rules).estimated_ns, 3 * 10'000 + 2800 + 0.2 * 3600);
}

TEST(Select, Rules_Sizes_AreThoseOfTheLargerBuffer) {
  constexpr std::string_view kRules =
      "all_reduce:0-8K=recursive_doubling;8K-1M=rabenseifner;1M-=ring,all_gather:64-=ring,"
      "gather:64-=direct";
  EXPECT_EQ(chosen(of(Kind::kAllReduce, 8 * kKi - 1, 8), kRules), "recursive_doubling");
  EXPECT_EQ(chosen(of(Kind::kAllReduce, 8 * kKi, 8), kRules), "rabenseifner");
  EXPECT_EQ(chosen(of(Kind::kAllReduce, 1024 * kKi - 1, 8), kRules), "rabenseifner");
  EXPECT_EQ(chosen(of(Kind::kAllReduce, 1024 * kKi, 8), kRules), "ring");
  EXPECT_EQ(chosen(of(Kind::kAllGather, 8, 8), kRules), "ring");  // 64 bytes of all ranks
  EXPECT_EQ(chosen(of(Kind::kAllGather, 7, 8), kRules), "recursive_doubling");
  ChooseArgs gather = of(Kind::kGather, 8, 8);
  gather.operation.root = 3;
  EXPECT_EQ(chosen(gather, kRules), "direct");
  EXPECT_EQ(chosen(of(Kind::kBroadcast, 8, 8), "broadcast:scatter_allgather"), "scatter_allgather");
  EXPECT_EQ(chosen(of(Kind::kBroadcast, 8, 8), "broadcast:1G-2G=scatter_allgather"), "binomial");
}

TEST(Select, Rules_BadText_NamesWhatWasExpectedAndFound) {
  EXPECT_EQ(error_of(""), "fine");
  EXPECT_EQ(error_of("all_reduce:ring,"), "fine");
  EXPECT_EQ(error_of("all_reduce:spiral"),
            "INVALID_ARGUMENT: all_reduce has no algorithm 'spiral'; expected one of "
            "recursive_doubling, rabenseifner, ring, rank_order, gathered_rank_order, "
            "hierarchical");
  EXPECT_EQ(error_of("all_gather"),
            "INVALID_ARGUMENT: algorithm rules: expected KIND:ALGORITHM or "
            "KIND:FIRST-END=ALGORITHM, found 'all_gather'");
  EXPECT_THAT(error_of("allreduce:ring"), HasSubstr("expected one of all_reduce, all_gather,"));
  EXPECT_THAT(error_of("allreduce:ring"), HasSubstr("barrier, found 'allreduce'"));
  for (const std::string range : {"8K", "K-1M", "1T-", "-", "0-x", "0-1K-2K", "-5", "8 -9",
                                  "99999999999999999999-", "99999999999999G-", ""}) {
    EXPECT_EQ(
        error_of("all_reduce:" + range + "=ring"),
        "INVALID_ARGUMENT: algorithm rules: expected sizes as 0-8K or 1M-, found '" + range + "'");
  }
  EXPECT_THAT(error_of("all_reduce:8K-8K=ring"), HasSubstr("a range whose end is above its begin"));
  EXPECT_THAT(error_of("all_reduce:0-8K=ring;4K-=ring"),
              HasSubstr("sizes that no other rule of all_reduce is for, found '4K-=ring'"));
  EXPECT_THAT(error_of("all_reduce:ring,all_reduce:ring"), HasSubstr("no other rule"));
  EXPECT_THAT(error_of("all_reduce:;ring"), HasSubstr("no algorithm ''"));
  EXPECT_THAT(error_of(":"), HasSubstr("expected KIND:ALGORITHM"));
}

}  // namespace
}  // namespace bp::ccl
