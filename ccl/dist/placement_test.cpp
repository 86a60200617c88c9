// SPDX-License-Identifier: Apache-2.0
//
// Chunks, the parts of tensors on meshes, and the steps from one placement to another.
#include "ccl/dist/placement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bp::ccl {
namespace {

using testing::HasSubstr;

TEST(Chunk, AllAreFullButTheLastOnes) {
  const std::vector<std::vector<int64_t>> expected[] = {
      {{5}, {3, 2}, {2, 2, 1}, {2, 2, 1, 0}, {1, 1, 1, 1, 1}},  // of 5
      {{2}, {1, 1}, {1, 1, 0}, {1, 1, 0, 0}, {1, 1, 0, 0, 0}},  // of 2
      {{0}, {0, 0}, {0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0, 0}}};
  const int64_t sizes[] = {5, 2, 0};
  for (size_t i = 0; i < 3; ++i) {
    for (uint32_t count = 1; count <= 5; ++count) {
      int64_t offset = 0;
      for (uint32_t index = 0; index < count; ++index) {
        const int64_t size = expected[i][count - 1][index];
        EXPECT_EQ(chunk_of(sizes[i], count, index), (Chunk{offset, size})) << count << " " << index;
        offset += size;
      }
    }
  }
}

TEST(Shard, LaterAxesSplitWhatEarlierOnesLeave) {
  const std::vector<MeshAxis> axes = {{"a", 2}, {"b", 2}};
  const Placements both = {Placement::shard(0), Placement::shard(0)};
  const int64_t offsets[] = {0, 2, 3, 4};
  const int64_t sizes[] = {2, 1, 1, 1};  // 5: 3 and 2, then 2, 1 and 1, 1
  for (uint32_t rank = 0; rank < 4; ++rank) {
    const std::vector<uint32_t> coordinates = {rank / 2, rank % 2};
    const Shard found = shard_of({5, 3}, both, axes, coordinates);
    EXPECT_EQ(found.sizes, (Dims{sizes[rank], 3}));
    EXPECT_EQ(found.offsets, (Dims{offsets[rank], 0}));
  }
  const std::vector<uint32_t> last = {1, 1};
  const Shard mixed = shard_of(
      {5, 3}, Placements{Placement::shard(1), Placement::partial(Reduction::kSum)}, axes, last);
  EXPECT_EQ(mixed.sizes, (Dims{5, 1}));
  EXPECT_EQ(mixed.offsets, (Dims{0, 2}));
}

std::string steps_text(const Placements& from, const Placements& to) {
  const std::vector<MeshAxis> axes(from.size(), {"x", 2});
  const auto steps = steps_between(from, to, axes);
  if (!steps.ok()) return steps.status().to_string();
  std::string text;
  for (const PlacementStep& step : *steps) {
    text +=
        std::to_string(step.axis) + ": " + describe(step.from) + " > " + describe(step.to) + "; ";
  }
  return text;
}

TEST(Steps, OneForEachAxisThatChanges) {
  EXPECT_EQ(steps_text({Placement(), Placement::shard(1)}, {Placement(), Placement::shard(1)}), "");
  EXPECT_EQ(steps_text({Placement::partial(Reduction::kSum), Placement::shard(1)},
                       {Placement::shard(0), Placement()}),
            "0: partial sum > shard 0; 1: shard 1 > replicate; ");
}

TEST(Steps, LaterAxisGivesUpItsChunkFirst) {
  EXPECT_EQ(
      steps_text({Placement::shard(0), Placement::shard(0)}, {Placement(), Placement::shard(0)}),
      "1: shard 0 > replicate; 0: shard 0 > replicate; 1: replicate > shard 0; ");
  EXPECT_EQ(steps_text({Placement::shard(0), Placement::shard(0)}, {Placement(), Placement()}),
            "1: shard 0 > replicate; 0: shard 0 > replicate; ");
  EXPECT_EQ(
      steps_text({Placement(), Placement::shard(1)}, {Placement::shard(1), Placement::shard(1)}),
      "1: shard 1 > replicate; 0: replicate > shard 1; 1: replicate > shard 1; ");
  EXPECT_EQ(
      steps_text({Placement::shard(0), Placement::shard(0)}, {Placement::shard(0), Placement()}),
      "1: shard 0 > replicate; ");
}

TEST(Steps, WhatNoCommunicationMakes_IsRefused) {
  EXPECT_THAT(steps_text({Placement()}, {Placement::partial(Reduction::kSum)}),
              HasSubstr("UNSUPPORTED: axis x cannot become partial sum from replicate"));
  EXPECT_THAT(
      steps_text({Placement::partial(Reduction::kMax)}, {Placement::partial(Reduction::kSum)}),
      HasSubstr("cannot become partial sum from partial max"));
  EXPECT_THAT(steps_text({Placement::partial(Reduction::kSum), Placement::partial(Reduction::kMax)},
                         {Placement(), Placement()}),
              HasSubstr("depends on which of them comes first"));
  EXPECT_EQ(steps_text({Placement::partial(Reduction::kSum), Placement::partial(Reduction::kAvg)},
                       {Placement(), Placement()}),
            "0: partial sum > replicate; 1: partial avg > replicate; ");
}

TEST(Placements, MustFitTheMeshAndTheTensor) {
  const std::vector<MeshAxis> axes = {{"data", 2}, {"model", 2}};
  EXPECT_THAT(check_placements("from", Placements{Placement()}, axes, {3}).message(),
              HasSubstr("from has 1 placements, and the mesh 2 axes"));
  EXPECT_THAT(
      check_placements("to", Placements{Placement(), Placement::shard(2)}, axes, {3, 4}).message(),
      HasSubstr("to is shard 2 on axis model"));
  EXPECT_TRUE(
      check_placements("to", Placements{Placement::shard(1), Placement::shard(1)}, axes, {3, 4})
          .ok());
}

}  // namespace
}  // namespace bp::ccl
