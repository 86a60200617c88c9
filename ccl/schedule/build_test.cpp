// SPDX-License-Identifier: Apache-2.0
#include "ccl/schedule/build.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bp::ccl {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

BuildArgs args_of(Kind kind, uint64_t count, RankPlace place, uint32_t root = 0) {
  BuildArgs args;
  args.operation = {kind, BP_DTYPE_F32, Reduction::kSum, root, count, false};
  if (kind == Kind::kBarrier) args.operation.dtype = BP_DTYPE_NONE;
  args.place = place;
  return args;
}

std::string refusal(std::string_view algorithm, const BuildArgs& args) {
  const auto schedule = build(algorithm, args);
  return schedule.ok() ? "fine" : schedule.status().to_string();
}

TEST(Build, SendAndRecv_AnyPeer_AreOneMessage) {
  const Schedule send = build("direct", args_of(Kind::kSend, 5, {1, 4}, 3)).value();
  ASSERT_EQ(send.steps.size(), 1u);
  EXPECT_EQ(send.steps[0].kind, StepKind::kSend);
  EXPECT_EQ(send.steps[0].peer, 3u);
  EXPECT_EQ(send.steps[0].from.count, 5u);
  // To itself too: the other end is another operation of the same rank.
  const Schedule recv = build("direct", args_of(Kind::kRecv, 5, {0, 1}, 0)).value();
  ASSERT_EQ(recv.steps.size(), 1u);
  EXPECT_EQ(recv.steps[0].kind, StepKind::kRecv);
  EXPECT_EQ(recv.steps[0].to.count, 5u);
  EXPECT_TRUE(build("direct", args_of(Kind::kSend, 0, {1, 4}, 3)).value().steps.empty());
}

TEST(Build, OneRank_EveryAlgorithm_IsACopyOrNothing) {
  for (uint32_t i = 0; i < kKindCount; ++i) {
    const auto kind = static_cast<Kind>(i);
    if (kind_info(kind).is_of_two) continue;
    for (const Algorithm& algorithm : algorithms_of(kind)) {
      if (algorithm.needs_hosts) continue;
      BuildArgs args = args_of(kind, kind == Kind::kBarrier ? 0 : 5, {0, 1});
      args.operation.is_deterministic = algorithm.is_in_rank_order;
      const Schedule schedule = build(algorithm.name, args).value();
      EXPECT_EQ(schedule.algorithm, algorithm.name);
      EXPECT_EQ(schedule.steps.size(), kind == Kind::kBarrier ? 0u : 1u);
      if (kind == Kind::kBarrier || kind == Kind::kAllToAll) continue;
      EXPECT_EQ(schedule.steps[0].kind, StepKind::kCopy);
      args.is_in_place = true;
      EXPECT_TRUE(build(algorithm.name, args).value().steps.empty());
    }
  }
}

TEST(Build, UnknownOrUnfitAlgorithm_ErrorNamesWhatThereIs) {
  EXPECT_EQ(refusal("tree", args_of(Kind::kAllGather, 5, {0, 4})),
            "INVALID_ARGUMENT: all_gather has no algorithm 'tree'; expected one of "
            "recursive_doubling, ring, bruck");
  EXPECT_EQ(refusal("recursive_doubling", args_of(Kind::kAllGather, 5, {0, 6})),
            "INVALID_ARGUMENT: all_gather f32 5: recursive_doubling needs a power of two of "
            "ranks, blocks of equal size");
  EXPECT_THAT(refusal("hierarchical", args_of(Kind::kAllReduce, 5, {0, 6})),
              EndsWith("hierarchical needs known hosts, an operation that need not be "
                       "deterministic"));
  BuildArgs args = args_of(Kind::kAllReduce, 5, {0, 6});
  args.operation.is_deterministic = true;
  EXPECT_THAT(refusal("ring", args),
              EndsWith("ring needs an operation that need not be deterministic"));
  EXPECT_EQ(refusal("rank_order", args), "fine");
}

TEST(Build, BadArguments_ErrorNamesThem) {
  const auto equal = BlockLayout::even_parts(30, 6);
  const auto fewer = BlockLayout::even_parts(30, 5);
  BuildArgs args = args_of(Kind::kAllReduce, 5, {0, 6});
  args.blocks = &equal;
  EXPECT_THAT(refusal("ring", args), HasSubstr("this kind has no such blocks"));
  args = args_of(Kind::kAllGather, 5, {0, 6});
  args.blocks = &fewer;
  EXPECT_THAT(refusal("ring", args), HasSubstr("a block for each of 6 ranks, found 5"));
  args.blocks = nullptr;
  args.send_blocks = &equal;
  EXPECT_THAT(refusal("ring", args), HasSubstr("this kind has no such blocks"));
  args = args_of(Kind::kAllToAll, 5, {0, 6});
  args.blocks = &equal;
  EXPECT_THAT(refusal("pairwise", args), HasSubstr("blocks of both buffers, or of none"));
  const auto larger = BlockLayout::even_parts(60, 6);
  args.send_blocks = &larger;
  EXPECT_THAT(refusal("pairwise", args), HasSubstr("sends itself 10 elements, and receives 5"));
  args = args_of(Kind::kAllToAll, 5, {0, 6});
  args.is_in_place = true;
  EXPECT_THAT(refusal("pairwise", args), HasSubstr("does not work in place"));
  args = args_of(Kind::kAllReduce, 5, {0, 6});
  const std::vector<uint32_t> hosts(5, 0);
  args.hosts = hosts;
  EXPECT_THAT(refusal("hierarchical", args), HasSubstr("the hosts of 6 ranks, found 5"));
  EXPECT_THAT(refusal("ring", args_of(Kind::kAllReduce, 5, {6, 6})), HasSubstr("no rank 6"));
  EXPECT_THAT(refusal("ring", args_of(Kind::kAllReduce, 5, {0, 1u << 30})),
              HasSubstr("too many elements for a group"));
}

TEST(Build, BufferCounts_EqualAndListedBlocks_AreWhatIsUsed) {
  BuildArgs args = args_of(Kind::kGather, 5, {1, 3}, 1);
  EXPECT_EQ(buffer_counts(args).send, 5u);
  EXPECT_EQ(buffer_counts(args).recv, 15u);
  const BlockLayout blocks = BlockLayout::listed({{10, 2}, {0, 3}, {50, 0}}).value();
  args.blocks = &blocks;
  EXPECT_EQ(buffer_counts(args).send, 3u);
  EXPECT_EQ(buffer_counts(args).recv, 12u);
  args.place.rank = 0;
  EXPECT_EQ(buffer_counts(args).send, 2u);
  EXPECT_EQ(buffer_counts(args).recv, 0u);
}

TEST(BlockLayout, EvenParts_RestOfDivision_GoesToTheFirst) {
  const BlockLayout parts = BlockLayout::even_parts(11, 4);
  const uint64_t firsts[] = {0, 3, 6, 9};
  for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(parts.first(i), firsts[i]);
  EXPECT_EQ(parts.count(2), 3u);
  EXPECT_EQ(parts.count(3), 2u);
  EXPECT_EQ(parts.end(), 11u);
  EXPECT_EQ(parts.largest_count(), 3u);
}

TEST(BlockLayout, Listed_OverlapOrNoEnd_IsRefused) {
  const auto words = [](std::vector<Block> blocks) {
    return BlockLayout::listed(std::move(blocks)).status().to_string();
  };
  EXPECT_EQ(
      words({{0, 3}, {9, 1}, {2, 2}}),
      "INVALID_ARGUMENT: block 0 (3 elements from 0) and block 2 (2 elements from 2) overlap");
  EXPECT_THAT(words({{UINT64_MAX, 1}}), HasSubstr("reaches beyond what any device has"));
  EXPECT_THAT(words({{0, uint64_t{1} << 47}}), HasSubstr("reaches beyond what any device has"));
  const BlockLayout blocks = BlockLayout::listed({{2, 0}, {0, 3}, {5, 2}}).value();
  EXPECT_EQ(blocks.end(), 7u);
  EXPECT_EQ(blocks.largest_count(), 3u);
}

}  // namespace
}  // namespace bp::ccl
