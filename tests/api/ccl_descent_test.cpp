// SPDX-License-Identifier: Apache-2.0
//
// Groups that are made from others: by the ranks that are left, and of parts.
#include <gmock/gmock.h>

#include "tests/api/ccl_fixture.hpp"

namespace bp {
namespace {

using ccl::Group;
using testing::ElementsAre;
using testing::HasSubstr;

class CclDescent : public CclTest, public testing::WithParamInterface<DeviceNames> {
 protected:
  void SetUp() override {
    if (!has_all(GetParam())) GTEST_SKIP() << "a device is not on this machine";
  }
  static float sum_of_ones(const Group& group, Device device) {
    const Tensor x = upload(device, {1});
    group.all_reduce(x);
    return x.to_vector<float>()[0];
  }
};

TEST_P(CclDescent, RanksThatAreLeft_ComputeOn) {
  run_owners(GetParam(), [&](Group group, Device device) {
    EXPECT_EQ(group.epoch(), 0u);
    const uint32_t rank = group.rank();
    const uint32_t count = group.rank_count();
    std::vector<uint32_t> members;
    for (uint32_t other = count - 1; other > 0; --other) members.push_back(other);
    if (rank == 0) return;  // the last owner of rank 0
    const ccl::Failure failure = failure_of([&] { group.all_reduce(upload(device, {1})); });
    EXPECT_EQ(failure.code, BP_UNAVAILABLE) << failure.words;
    Stream::default_of(device).reset();
    const Group next = group.rebuild({.epoch = 3, .members = members});
    group = Group();
    EXPECT_EQ(next.epoch(), 3u);
    EXPECT_EQ(next.rank(), count - 1 - rank);
    EXPECT_EQ(next.job_ranks(), members);
    EXPECT_EQ(sum_of_ones(next, device), static_cast<float>(count - 1));
  });
}

TEST_P(CclDescent, Split_MakesAGroupOfEachColor) {
  run(GetParam(), [&](const Group& group, Device device) {
    const uint32_t rank = group.rank();
    const auto part = group.split({.color = rank == 0 ? 4 : 2, .key = -static_cast<int64_t>(rank)});
    ASSERT_TRUE(part.has_value());
    const uint32_t count = rank == 0 ? 1 : group.rank_count() - 1;
    EXPECT_EQ(part->rank_count(), count);
    EXPECT_EQ(part->rank(), rank == 0 ? 0 : group.rank_count() - 1 - rank);
    EXPECT_EQ(part->job_ranks()[part->rank()], rank);
    EXPECT_EQ(sum_of_ones(*part, device), static_cast<float>(count));
    const auto none = group.split({.color = rank == 0 ? ccl::no_color : 0});
    EXPECT_EQ(none.has_value(), rank != 0);
    EXPECT_EQ(sum_of_ones(group, device), static_cast<float>(group.rank_count()));
  });
}

INSTANTIATE_TEST_SUITE_P(Groups, CclDescent, testing::ValuesIn(pairs_and_all()), name_of_group);

class CclDescentErrors : public CclTest {};

TEST_F(CclDescentErrors, WrongArguments_AreNamed) {
  run({"cpu:0", "cpu:0"}, [&](const Group& group, Device) {
    const auto refused = [](auto call) {
      std::string words;
      EXPECT_EQ(status_of(call, &words), BP_INVALID_ARGUMENT) << words;
      return words;
    };
    EXPECT_THAT(refused([&] {
                  group.rebuild({.members = {0, 1, 1}});
                }),
                HasSubstr("rank 1 is there twice"));
    EXPECT_THAT(refused([&] {
                  group.rebuild({.epoch = 0, .members = {0, 1}});
                }),
                HasSubstr("expected an epoch above 0, found 0"));
    EXPECT_THAT(refused([&] { group.split({.color = -7}); }), HasSubstr("found -7"));
    EXPECT_EQ(group.job_ranks(), (std::vector<uint32_t>{0, 1}));
  });
}

TEST_F(CclDescentErrors, RankThatDoesNotSplit_FailsTheGroup) {
  run({"cpu:0", "cpu:0"}, [&](const Group& group, Device) {
    if (group.rank() == 1) {
      while (group.failure().code == BP_OK) std::this_thread::yield();
      return;
    }
    const ccl::Failure failure =
        failure_of([&] { group.split({.timeout = std::chrono::milliseconds(100)}); });
    EXPECT_EQ(failure.code, BP_TIMEOUT);
    EXPECT_THAT(failure.culprits, ElementsAre(1u));
  });
}

/// As docs/collectives.md shows it.
TEST_F(CclDescentErrors, LinesOfThePage_GoOnWithTheRanksThatAreLeft) {
  struct Job {
    uint32_t rank;
    uint32_t local_rank() const { return rank; }
  };
  run_owners({"cpu:0", "cpu:0", "cpu:0"}, [&](Group group, Device device) {
    if (group.rank() == 2) return;  // its end goes
    const Tensor x = upload(device, {1});
    try {
      group.all_reduce(x);
      ADD_FAILURE() << "rank 2 is gone";
    } catch (const bp::ccl::GroupError& error) {
      const auto& lost = error.failure().culprits;
      std::vector<uint32_t> left;
      for (uint32_t rank = 0; rank < group.rank_count(); ++rank) {
        if (std::find(lost.begin(), lost.end(), rank) == lost.end()) left.push_back(rank);
      }
      bp::Stream::default_of(device).reset();
      group = group.rebuild({.epoch = group.epoch() + 1, .members = left});
    }
    EXPECT_EQ(group.rank_count(), 2u);
    const Job job{group.rank()};
    const auto host = group.split({.color = job.local_rank() == 0 ? 1 : bp::ccl::no_color});
    EXPECT_EQ(host.has_value(), job.rank == 0);
    if (host) host->broadcast(x, 0);  // nullopt (in C: NULL) for no_color
  });
}

}  // namespace
}  // namespace bp
