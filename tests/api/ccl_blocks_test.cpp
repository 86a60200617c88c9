// SPDX-License-Identifier: Apache-2.0
//
// Operations whose blocks differ in size, on ranks of one vendor and of several, against values
// worked out here.
#include <gmock/gmock.h>

#include "tests/api/ccl_fixture.hpp"

namespace bp {
namespace {

using ccl::Group;
using ccl::Kind;
using testing::AllOf;
using testing::HasSubstr;

using Counts = std::vector<uint64_t>;

class CclBlocks : public CclTest, public testing::WithParamInterface<DeviceNames> {
 protected:
  void SetUp() override {
    if (!has_all(GetParam())) GTEST_SKIP() << "a device is not on this machine";
  }
  void run_all(const Body& body) { run(GetParam(), body); }
  /// Rank r has r * 3 elements: none on rank 0.
  static Counts counts_of(const Group& group) {
    Counts counts;
    for (uint32_t rank = 0; rank < group.rank_count(); ++rank) counts.push_back(rank * 3);
    return counts;
  }
  static size_t total_of(const Counts& counts, size_t end) {
    size_t total = 0;
    for (size_t i = 0; i < end; ++i) total += counts[i];
    return total;
  }
  /// `first`, and so on by ones.
  static Floats counted(size_t first, size_t size) {
    Floats values(size);
    for (size_t i = 0; i < size; ++i) values[i] = static_cast<float>(first + i);
    return values;
  }
  static Tensor values(Device device, const Floats& all) {
    return all.empty() ? Tensor::create(device, BP_DTYPE_F32, {0}) : upload(device, all);
  }
  static Tensor space(Device device, size_t count) { return values(device, Floats(count, -99)); }
  static Floats read(const Tensor& tensor) { return tensor.to_vector<float>(); }
};

TEST_P(CclBlocks, GatherScatterAndAllGather_KeepTheBlocksApart) {
  run_all([&](const Group& group, Device device) {
    const Counts counts = counts_of(group);
    const size_t total = total_of(counts, counts.size());
    const size_t first = total_of(counts, group.rank());
    const size_t own = counts[group.rank()];
    const Tensor mine = values(device, counted(first, own));
    const Tensor all = space(device, total);
    group.all_gather_v(mine, all, counts);
    EXPECT_EQ(read(all), counted(0, total));
    const bool is_root = group.rank() == 1;
    const Tensor gathered = is_root ? space(device, total) : Tensor();
    group.gather_v(mine, gathered, counts, 1);
    if (is_root) EXPECT_EQ(read(gathered), counted(0, total));
    const Tensor back = space(device, own);
    group.scatter_v(gathered, back, counts, 1);
    EXPECT_EQ(read(back), counted(first, own));
  });
}

TEST_P(CclBlocks, ReduceScatter_GivesEachRankItsBlock) {
  run_all([&](const Group& group, Device device) {
    const Counts counts = counts_of(group);
    const size_t total = total_of(counts, counts.size());
    const Tensor sums = space(device, counts[group.rank()]);
    group.reduce_scatter_v(values(device, counted(0, total)), sums, counts);
    Floats expected = counted(total_of(counts, group.rank()), counts[group.rank()]);
    for (float& value : expected) value *= static_cast<float>(group.rank_count());
    EXPECT_EQ(read(sums), expected);
  });
}

TEST_P(CclBlocks, AllToAll_EachPairHasACount) {
  run_all([&](const Group& group, Device device) {
    // Rank r sends r + t elements to rank t, of its own hundred.
    Counts counts;
    Floats received;
    for (uint32_t other = 0; other < group.rank_count(); ++other) {
      counts.push_back(group.rank() + other);
      size_t before = 0;
      for (uint32_t rank = 0; rank < group.rank(); ++rank) before += other + rank;
      const Floats part = counted(100 * other + before, other + group.rank());
      received.insert(received.end(), part.begin(), part.end());
    }
    const size_t total = total_of(counts, counts.size());
    const Tensor out = space(device, total);
    const auto work = group.async().all_to_all_v(values(device, counted(100 * group.rank(), total)),
                                                 counts, out, counts);
    work.wait();
    EXPECT_EQ(read(out), received);
  });
}

TEST_P(CclBlocks, InABatch_ByTheirCounts) {
  run_all([&](const Group& group, Device device) {
    const Counts counts = counts_of(group);
    const size_t total = total_of(counts, counts.size());
    const Tensor all = space(device, total);
    const Tensor out = space(device, group.rank_count());
    const Counts ones(group.rank_count(), 1);
    group.batch(
        {{.kind = Kind::all_gather,
          .send = values(device, counted(total_of(counts, group.rank()), counts[group.rank()])),
          .recv = all,
          .counts = counts},
         {.kind = Kind::all_to_all,
          .send = values(device, Floats(group.rank_count(), 7)),
          .recv = out,
          .counts = ones,
          .send_counts = ones}});
    EXPECT_EQ(read(all), counted(0, total));
    EXPECT_EQ(read(out), Floats(group.rank_count(), 7));
  });
}

INSTANTIATE_TEST_SUITE_P(Groups, CclBlocks, testing::ValuesIn(pairs_all_and_linked()),
                         name_of_group);

using CclBlocksErrors = CclTest;
using CclBlocksPage = CclTest;

TEST_F(CclBlocksPage, WhatItShows_Runs) {
  run({"cpu:0", "npu:0", "cpu:0"}, [&](const Group& group, Device device) {
    const uint32_t rank = group.rank();
    const std::vector<uint64_t> counts = {3, 0, 5};  // alike on all ranks
    auto own = bp::Tensor::create(device, BP_DTYPE_F32, {static_cast<int64_t>(counts[rank])});
    if (counts[rank] > 0) own = upload(device, Floats(counts[rank], static_cast<float>(rank)));
    auto all = bp::Tensor::create(device, BP_DTYPE_F32, {8});
    group.all_gather_v(own, all, counts);  // own: 3, no or 5 elements
    EXPECT_EQ(all.to_vector<float>(), (Floats{0, 0, 0, 2, 2, 2, 2, 2}));
    const std::vector<uint64_t> send_counts(3, rank + 1);
    const std::vector<uint64_t> recv_counts = {1, 2, 3};
    const Tensor send = upload(device, Floats(3 * (rank + 1), static_cast<float>(rank)));
    const Tensor recv = room(device, 6);
    group.all_to_all_v(send, send_counts, recv, recv_counts);  // each rank has its own
    EXPECT_EQ(recv.to_vector<float>(), (Floats{0, 1, 1, 2, 2, 2}));
  });
}

TEST_F(CclBlocksErrors, CountsThatCannotBe_AreNamed) {
  run({"cpu:0", "npu:0"}, [&](const Group& group, Device device) {
    const auto refusal = [](const auto& call) {
      std::string words;
      EXPECT_EQ(status_of(call, &words), BP_INVALID_ARGUMENT) << words;
      return words;
    };
    const Tensor x = upload(device, {1, 2});
    const Tensor y = room(device, 5);
    const Counts three{1, 2, 3};
    const Counts wrong{2, 4};
    EXPECT_THAT(refusal([&] { group.all_gather_v(x, y, three); }),
                HasSubstr("counts: expected 2, one for each rank, found 3"));
    EXPECT_THAT(refusal([&] { group.all_gather_v(x, y, {}); }),
                HasSubstr("counts: expected 2, one for each rank, found 0"));
    EXPECT_THAT(refusal([&] { group.all_gather_v(x, y, wrong); }),
                AllOf(HasSubstr("all_gather_v:"), HasSubstr("elements by the counts")));
    EXPECT_THAT(refusal([&] {
                  group.batch({{.send = x, .recv = x, .counts = {1, 1}}});
                }),
                HasSubstr("this kind has no blocks"));
    EXPECT_THAT(refusal([&] {
                  group.batch({{.kind = Kind::all_to_all, .send = x, .recv = x, .counts = {1, 1}}});
                }),
                HasSubstr("expected 2 send_counts"));
    EXPECT_FALSE(group.failure());
    group.barrier();
  });
}

TEST_F(CclBlocksErrors, RanksThatSayOtherCounts_AreTold) {
  run({"cpu:0", "npu:0"}, [&](const Group& group, Device device) {
    const bool is_first = group.rank() == 0;
    const Counts counts = is_first ? Counts{2, 3} : Counts{3, 2};
    const auto failure = failure_of([&] {
      group.all_gather_v(room(device, 2), room(device, 5), counts);
      group.barrier();
    });
    EXPECT_EQ(failure.code, BP_INVALID_ARGUMENT);
    EXPECT_THAT(failure.words, AllOf(HasSubstr("disagree"), HasSubstr("all_gather_v f32 5")));
  });
}

}  // namespace
}  // namespace bp
