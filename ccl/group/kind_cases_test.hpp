// SPDX-License-Identifier: Apache-2.0
//
// Runs cases of every kind on one rank, and compares with what was worked out here.
#ifndef BACKPLANE_CCL_GROUP_KIND_CASES_TEST_HPP
#define BACKPLANE_CCL_GROUP_KIND_CASES_TEST_HPP

#include <bit>
#include <iterator>

#include "ccl/group/group_harness_test.hpp"

namespace bp::ccl {

inline const Kind kAllKinds[] = {Kind::kAllReduce, Kind::kAllGather, Kind::kReduceScatter,
                                 Kind::kBroadcast, Kind::kReduce,    Kind::kGather,
                                 Kind::kScatter,   Kind::kAllToAll};

class GroupKinds : public GroupTest {
 protected:
  /// Runs the case on one rank and compares bytes: every value is exact.
  void run_case(const KindCase& what, uint32_t rank, ProcessGroup& group) {
    const uint32_t rank_count = group.place().rank_count;
    Device& on = group.device();
    const std::vector<double> input = what.input(rank, rank_count);
    const std::vector<double> output = what.output(rank, rank_count);
    const KindInfo& kind = kind_info(what.kind);
    const bool is_root = rank == what.root;
    Call call{.kind = what.kind,
              .reduction = what.reduction,
              .root = what.root,
              .is_deterministic = what.is_deterministic};
    const auto takes = [&](Extent extent) {
      if (extent == Extent::kCountAtRoot || extent == Extent::kBlocksAtRoot) return is_root;
      return extent != Extent::kNone;
    };
    if (takes(kind.send)) call.send = upload(on, what.dtype, input);
    if (takes(kind.recv)) call.recv = room(on, what.dtype, output.size());
    if (what.is_in_place && call.send && call.recv) put_in_place(what, rank, &call);
    const bool waits = rank % 2 == 0;
    const auto work = group.enqueue(call, {.waits = waits});
    ASSERT_TRUE(work.ok()) << what.words() << " on " << on.name() << ": "
                           << work.status().to_string();
    if (!call.recv) {
      ASSERT_TRUE(waits || (*work)->wait(Clock::now() + std::chrono::seconds(60)).ok());
      return;
    }
    EXPECT_EQ(bytes_of(call.recv), bytes_of(what.dtype, output))
        << what.words() << " of " << rank_count << " on " << on.name() << ", rank " << rank;
    if (!what.is_in_place && call.send) {
      EXPECT_EQ(bytes_of(call.send), bytes_of(what.dtype, input)) << "send was written";
    }
  }
  static void put_in_place(const KindCase& what, uint32_t rank, Call* call) {
    const auto count = static_cast<int64_t>(what.count);
    const auto own = static_cast<int64_t>(rank) * count;
    if (call->send->element_count() == call->recv->element_count()) {
      call->recv = call->send;
    } else if (call->send->element_count() < call->recv->element_count()) {
      const auto values = call->send;
      call->send = call->recv->view({count}, {1}, own);
      ASSERT_TRUE(copy_into(values, call->send, false, values->device()->default_stream()).ok());
    } else {
      call->recv = call->send->view({count}, {1}, own);
    }
  }
  void run_all(const Devices& devices, const std::vector<KindCase>& cases, bool is_native) {
    run(devices, [&](uint32_t rank, ProcessGroup& group) {
      EXPECT_EQ(group.is_native(), is_native) << group.why_not_native();
      for (const KindCase& what : cases) run_case(what, rank, group);
      const uint64_t native = group.counters().native_operations;
      EXPECT_EQ(native, is_native ? cases.size() : 0);
    });
  }
  /// What rank `rank` has at element `index`: a sum of several depends on their order.
  static float rounded_at(uint32_t rank, uint64_t index) {
    constexpr float kValues[] = {1e8F, 1.F, -1e8F, 0.1F, 3e7F, 1.F / 3, -3e7F};
    return kValues[(rank * (1 + index % 3) + index / 3) % std::size(kValues)];
  }
  /// The sum of all ranks' values, each in its turn.
  static float sum_in_rank_order(uint64_t index, uint32_t rank_count) {
    float sum = rounded_at(0, index);
    for (uint32_t rank = 1; rank < rank_count; ++rank) sum += rounded_at(rank, index);
    return sum;
  }
  /// ... the last rank's first.
  static float sum_backwards(uint64_t index, uint32_t rank_count) {
    float sum = rounded_at(rank_count - 1, index);
    for (uint32_t rank = rank_count - 1; rank-- > 0;) sum += rounded_at(rank, index);
    return sum;
  }
  /// Deterministic sums of `count` elements for each rank, compared bit for bit.
  void expect_rank_order(Kind kind, uint64_t count, uint32_t rank, ProcessGroup& group) {
    const uint32_t rank_count = group.place().rank_count;
    const bool is_scattered = kind == Kind::kReduceScatter;
    std::vector<double> values(is_scattered ? count * rank_count : count);
    for (uint64_t i = 0; i < values.size(); ++i) values[i] = rounded_at(rank, i);
    Call call{.kind = kind,
              .root = kind == Kind::kReduce ? 1u : 0u,
              .is_deterministic = true,
              .send = upload(group.device(), BP_DTYPE_F32, values)};
    if (kind != Kind::kReduce || rank == 1) call.recv = room(group.device(), BP_DTYPE_F32, count);
    const auto work = group.enqueue(call, {.waits = true});
    ASSERT_TRUE(work.ok()) << work.status().to_string();
    if (!call.recv) return;
    const std::vector<float> sums = floats(call.recv);
    uint64_t backwards = 0;
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t index = is_scattered ? rank * count + i : i;
      const float expected = sum_in_rank_order(index, rank_count);
      ASSERT_EQ(std::bit_cast<uint32_t>(sums[i]), std::bit_cast<uint32_t>(expected))
          << kind_info(kind).name << " of " << count << ", element " << i << " is " << sums[i]
          << ", in rank order " << expected;
      if (sum_backwards(index, rank_count) == expected) ++backwards;
    }
    EXPECT_LT(backwards, count) << "the values do not show an order";
  }
  static std::vector<KindCase> cases_of(uint32_t rank_count) {
    std::vector<KindCase> cases;
    uint32_t turn = 0;
    for (const Kind kind : kAllKinds) {
      for (const uint64_t count :
           {uint64_t{0}, uint64_t{1}, uint64_t{3}, uint64_t{1000}, uint64_t{65537 / rank_count}}) {
        for (const bool is_in_place : {false, true}) {
          if (is_in_place && kind == Kind::kAllToAll) continue;
          constexpr uint32_t kDtypes[] = {BP_DTYPE_F32,  BP_DTYPE_I32, BP_DTYPE_F16, BP_DTYPE_F64,
                                          BP_DTYPE_BF16, BP_DTYPE_I64, BP_DTYPE_U8};
          constexpr Reduction kReductions[] = {Reduction::kSum, Reduction::kMax, Reduction::kMin,
                                               Reduction::kProd};
          cases.push_back({.kind = kind,
                           .dtype = kDtypes[turn % 7],
                           .reduction = kReductions[turn % 4],
                           .root = kind_info(kind).has_root ? turn % rank_count : 0,
                           .count = count,
                           .is_in_place = is_in_place,
                           .is_deterministic = turn % 5 == 0});
          ++turn;
        }
      }
    }
    return cases;
  }
};

}  // namespace bp::ccl

#endif
