// SPDX-License-Identifier: Apache-2.0
//
// The collective table of the mock where something is wrong: bad calls, ranks that disagree, leave
// or abort.
#include "plugins/npu/collective/harness_test.hpp"

namespace bp::npu_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

bp_collective_op nothing() { return operation(BP_COLLECTIVE_ALL_REDUCE, BP_DTYPE_F32, 0, {}, {}); }

TEST(NpuCollectiveCaps, WithoutWhatTheyNeed_ThereAreNone) {
  for (const char* option : {"async", "concurrent"}) {
    const Device device({{"memory", "1048576"}, {option, "false"}});
    bp_collective_caps caps{};
    caps.struct_size = sizeof(caps);
    EXPECT_EQ(collective().collective_caps(device.get(), &caps), BP_UNSUPPORTED) << option;
  }
}

TEST(NpuCollectiveCaps, Rows_HaveEveryRequiredKind) {
  const Device device;
  bp_collective_caps caps{};
  caps.struct_size = sizeof(caps);
  ASSERT_EQ(collective().collective_caps(device.get(), &caps), BP_OK);
  EXPECT_GT(caps.domain_bytes, 0u);
  EXPECT_EQ(caps.uid_bytes, sizeof(Uid));
  uint64_t kinds = 0;
  for (uint32_t i = 0; i < caps.row_count; ++i) {
    const auto* const at = reinterpret_cast<const std::byte*>(caps.rows);
    kinds |= uint64_t{1}
             << reinterpret_cast<const bp_collective_row*>(at + i * caps.row_stride_bytes)->kind;
  }
  EXPECT_EQ(kinds, 0x3ffu);
}

TEST(NpuComm, Join_IsReadyWhenAllHaveCome) {
  Ranks ranks(2);
  const Uid uid = ranks.new_uid();
  bp_comm* first = nullptr;
  ASSERT_EQ(ranks.init(0, uid, 0, 2, &first), BP_OK);
  Rank alone = ranks[0];
  alone.comm = first;
  bp_comm_state state{};
  state.struct_size = sizeof(state);
  EXPECT_EQ(collective().comm_poll(first, &state), BP_OK);
  EXPECT_EQ(state.state, BP_COMM_JOINING);
  EXPECT_EQ(enqueue(alone.device, {alone.batch({nothing()})}), BP_PENDING);
  bp_comm* second = nullptr;
  ASSERT_EQ(ranks.init(1, uid, 1, 2, &second), BP_OK);
  EXPECT_EQ(collective().comm_poll(first, &state), BP_OK);
  EXPECT_EQ(state.state, BP_COMM_READY);
  EXPECT_EQ(collective().comm_destroy(first), BP_OK);
  EXPECT_EQ(collective().comm_destroy(second), BP_OK);
}

TEST(NpuComm, BadJoin_IsRefusedWithWords) {
  Ranks ranks(2);
  const Uid uid = ranks.new_uid();
  bp_comm* comm = nullptr;
  bp_comm* none = nullptr;
  ASSERT_EQ(ranks.init(0, uid, 0, 2, &comm), BP_OK);
  EXPECT_EQ(ranks.init(1, uid, 2, 2, &none), BP_INVALID_ARGUMENT);
  EXPECT_THAT(ranks.host().last_message(), HasSubstr("rank 2 of 2"));
  EXPECT_EQ(ranks.init(1, uid, 0, 2, &none), BP_INVALID_ARGUMENT);
  EXPECT_THAT(ranks.host().last_message(), HasSubstr("rank 0 is taken"));
  EXPECT_EQ(ranks.init(1, uid, 1, 3, &none), BP_INVALID_ARGUMENT);
  EXPECT_THAT(ranks.host().last_message(), AllOf(HasSubstr("3 ranks"), HasSubstr("said 2")));
  EXPECT_EQ(ranks.init(1, Uid{}, 0, 1, &none), BP_INVALID_ARGUMENT);
  EXPECT_THAT(ranks.host().last_message(), HasSubstr("none of the NPUs'"));
  EXPECT_EQ(ranks.init(1, uid, 0, 0, &none), BP_INVALID_ARGUMENT);
  EXPECT_EQ(none, nullptr);
  bp_uid_space small{sizeof(small), 0, &comm, 8};
  EXPECT_EQ(collective().uid_create(ranks[0].device, &small), BP_INVALID_ARGUMENT);
  EXPECT_EQ(collective().comm_destroy(comm), BP_OK);
}

TEST(NpuEnqueue, BadOperation_HasNoEffectAndWords) {
  Ranks ranks(2);
  const bp_mem mem = ranks.alloc(0, 64);
  const auto refused = [&](const bp_collective_op& what, bp_status status, const char* words) {
    EXPECT_EQ(ranks.run(0, {nothing(), what}), status);
    EXPECT_THAT(ranks.host().last_message(), HasSubstr(words));
    EXPECT_EQ(ranks.poll(0).enqueued_sequence, 0u);
  };
  const auto with = [&](uint32_t kind, uint32_t dtype, uint64_t count, uint32_t reduction,
                        uint32_t peer) {
    return operation(kind, dtype, count, mem, mem, reduction, peer);
  };
  refused(with(99, BP_DTYPE_F32, 1, 0, 0), BP_UNSUPPORTED, "kind 99");
  refused(with(BP_COLLECTIVE_ALL_REDUCE, BP_DTYPE_I4, 1, 0, 0), BP_UNSUPPORTED,
          "kind all_reduce, dtype i4, reduction sum,");
  refused(with(BP_COLLECTIVE_ALL_REDUCE, 1000, 1, 0, 0), BP_UNSUPPORTED, "dtype 1000");
  refused(with(BP_COLLECTIVE_ALL_REDUCE, BP_DTYPE_I32, 1, BP_REDUCTION_AVG, 0), BP_UNSUPPORTED,
          "dtype i32, reduction avg");
  refused(with(BP_COLLECTIVE_ALL_REDUCE, BP_DTYPE_BOOL, 1, 0, 0), BP_UNSUPPORTED, "dtype bool");
  refused(with(BP_COLLECTIVE_BROADCAST, BP_DTYPE_F32, 1, 0, 2), BP_INVALID_ARGUMENT, "peer 2");
  refused(with(BP_COLLECTIVE_SEND, BP_DTYPE_F32, 1, 0, 2), BP_INVALID_ARGUMENT, "peer 2");
  refused(with(BP_COLLECTIVE_ALL_REDUCE, BP_DTYPE_F32, 65, 0, 0), BP_INVALID_ARGUMENT, "");
  refused(with(BP_COLLECTIVE_ALL_GATHER, BP_DTYPE_F32, 9, 0, 0), BP_INVALID_ARGUMENT, "");
  refused(with(BP_COLLECTIVE_ALL_REDUCE, BP_DTYPE_F32, UINT64_MAX / 4 + 1, 0, 0),
          BP_INVALID_ARGUMENT, "more than an NPU can hold");
  bp_collective_op flagged = nothing();
  flagged.flags = 2;
  refused(flagged, BP_UNSUPPORTED, "flags 2");
}

TEST(NpuEnqueue, BadArray_HasNoEffectAndWords) {
  Ranks ranks(2);
  const std::vector<bp_collective_op> one = {nothing()};
  const bp_collective_batch good = ranks[0].batch(one);
  const auto refused = [&](const std::vector<bp_collective_batch>& batches, const char* words) {
    EXPECT_EQ(enqueue(ranks[0].device, batches), BP_INVALID_ARGUMENT);
    EXPECT_THAT(ranks.host().last_message(), HasSubstr(words));
  };
  const auto changed = [&](const auto& change) {
    bp_collective_batch batch = good;
    change(&batch);
    return std::vector<bp_collective_batch>{batch};
  };
  refused({}, "no batch");
  refused({good, good}, "two batches");
  refused(changed([](auto* b) { b->comm = nullptr; }), "without communicator");
  refused(changed([](auto* b) { b->stream = nullptr; }), "without communicator or stream");
  refused(changed([&](auto* b) { b->stream = ranks[1].stream; }), "another device");
  refused(changed([](auto* b) { b->sequence = 2; }), "sequence 2, expected 1");
  refused(changed([](auto* b) { b->operations = nullptr; }), "1 operations at");
  refused(changed([](auto* b) { b->operation_stride_bytes = 4; }), "stride of 4");
  EXPECT_EQ(enqueue(ranks[0].device, {good}), BP_OK) << "nothing of that took the number";
}

TEST(NpuEnqueue, ArrayThatOneStreamRefuses_RunsOnNone) {
  Ranks ranks(2);
  bp_comm* aborted = nullptr;
  ASSERT_EQ(ranks.init(1, ranks.new_uid(), 0, 1, &aborted), BP_OK);
  const std::vector<bp_collective_op> other = {nothing()};
  bp_collective_batch second = ranks[1].batch(other);
  second.stream = ranks.another_stream(1);
  bp_collective_batch breaking = second;
  breaking.comm = aborted;
  tests::Gate gate;
  ASSERT_EQ(gate.hold(*plugin().stream, second.stream), BP_OK);
  ASSERT_EQ(enqueue(ranks[1].device, {breaking}), BP_OK);
  ASSERT_EQ(ranks.abort({aborted}), BP_OK);
  gate.release();
  EXPECT_EQ(plugin().stream->stream_sync(second.stream, 30 * kSecond), BP_CANCELLED);

  const bp_mem received = ranks.put(0, std::vector<int32_t>{0});
  const std::vector<bp_collective_op> own = {
      operation(BP_COLLECTIVE_SEND, BP_DTYPE_I32, 1, ranks.put(0, std::vector<int32_t>{7}), {}),
      operation(BP_COLLECTIVE_RECV, BP_DTYPE_I32, 1, {}, received)};
  EXPECT_EQ(enqueue(ranks[0].device, {ranks[0].batch(own), second}), BP_POISONED);
  EXPECT_EQ(ranks.sync(0), BP_OK) << "its stream is healthy";
  EXPECT_EQ(ranks.get<int32_t>(0, received, 1)[0], 0) << "nothing ran";
  EXPECT_EQ(ranks.poll(1).enqueued_sequence, 0u);
  EXPECT_EQ(ranks.run(0, own), BP_OK);
  EXPECT_EQ(ranks.sync(0), BP_OK);
  EXPECT_EQ(ranks.get<int32_t>(0, received, 1)[0], 7);
  EXPECT_EQ(collective().comm_destroy(aborted), BP_OK);
}

TEST(NpuGroup, RanksThatDisagree_AllFailWithBothWords) {
  const auto disagree = [](const bp_collective_op& a, const bp_collective_op& b,
                           const char* words) {
    Ranks ranks(2);
    ASSERT_EQ(ranks.run(0, {a}), BP_OK);
    ASSERT_EQ(ranks.run(1, {b}), BP_OK);
    for (size_t rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(ranks.sync(rank), BP_INVALID_ARGUMENT);
      EXPECT_THAT(ranks.host().last_message(), AllOf(HasSubstr("disagree"), HasSubstr(words)));
      EXPECT_EQ(ranks.host().last_report().op_seq, 100u);
      const bp_comm_state state = ranks.poll(rank);
      EXPECT_EQ(state.state, BP_COMM_FAILED);
      EXPECT_EQ(state.status, BP_INVALID_ARGUMENT);
      EXPECT_EQ(state.culprit, 2u);
      EXPECT_EQ(ranks.run(rank, {nothing()}), BP_INVALID_ARGUMENT);
    }
  };
  auto other = nothing();
  other.reduction = BP_REDUCTION_MAX;
  disagree(nothing(), other, "rank 1 has all_reduce of 0 elements of dtype f32, reduction max");
  other = nothing();
  other.dtype = BP_DTYPE_F64;
  disagree(nothing(), other, "dtype f64");
  other = operation(BP_COLLECTIVE_BROADCAST, BP_DTYPE_F32, 0, {}, {}, 0, 1);
  disagree(nothing(), other, "broadcast");
  auto ordered = nothing();
  ordered.flags = BP_OPERATION_DETERMINISTIC_BIT;
  disagree(nothing(), ordered, "deterministic");
}

TEST(NpuGroup, SendOfAnotherSize_FailsBoth) {
  Ranks ranks(2);
  ASSERT_EQ(
      ranks.run(0, {operation(BP_COLLECTIVE_SEND, BP_DTYPE_F32, 1, ranks.alloc(0, 64), {}, 0, 1)}),
      BP_OK);
  ASSERT_EQ(
      ranks.run(1, {operation(BP_COLLECTIVE_RECV, BP_DTYPE_F32, 2, {}, ranks.alloc(1, 64), 0, 0)}),
      BP_OK);
  EXPECT_EQ(ranks.sync(0), BP_INVALID_ARGUMENT);
  EXPECT_EQ(ranks.sync(1), BP_INVALID_ARGUMENT);
}

TEST(NpuGroup, Abort_EndsItsOwnRankOnly) {
  Ranks ranks(2);
  ASSERT_EQ(ranks.run(0, {nothing()}), BP_OK);
  EXPECT_EQ(ranks.sync(0, kAMoment), BP_TIMEOUT) << "it has begun";
  ASSERT_EQ(ranks.abort({ranks[0].comm}), BP_OK);
  EXPECT_EQ(ranks.sync(0), BP_CANCELLED);
  EXPECT_EQ(ranks.poll(0).status, BP_CANCELLED);
  EXPECT_EQ(ranks.run(0, {nothing()}), BP_CANCELLED);
  EXPECT_EQ(ranks.poll(1).state, BP_COMM_READY) << "no peer is told";
  ASSERT_EQ(ranks.run(1, {nothing()}), BP_OK);
  EXPECT_EQ(ranks.sync(1, kAMoment), BP_TIMEOUT);
  EXPECT_EQ(ranks.abort({ranks[0].comm, ranks[1].comm}), BP_OK) << "again is legal";
  EXPECT_EQ(ranks.sync(1), BP_CANCELLED);
}

TEST(NpuGroup, Abort_OfWorkBehindAGate_DestroysAtOnce) {
  Ranks ranks(2);
  tests::Gate gate;
  ASSERT_EQ(gate.hold(*plugin().stream, ranks[0].stream), BP_OK);
  const bp_mem mem = ranks.put(0, std::vector<float>{1});
  ASSERT_EQ(ranks.run(0, {operation(BP_COLLECTIVE_ALL_REDUCE, BP_DTYPE_F32, 1, mem, mem)}), BP_OK);
  EXPECT_EQ(ranks.destroy(0), BP_BUSY);
  EXPECT_THAT(ranks.host().last_message(), HasSubstr("pending"));
  ASSERT_EQ(ranks.abort({ranks[0].comm}), BP_OK);
  EXPECT_EQ(ranks.destroy(0), BP_OK) << "while its work is on its way out";
  gate.release();
  EXPECT_EQ(ranks.sync(0), BP_CANCELLED);
}

TEST(NpuGroup, RankThatLeaves_IsMissedByName) {
  Ranks ranks(3);
  ASSERT_EQ(ranks.run(0, {nothing()}), BP_OK);
  ASSERT_EQ(ranks.destroy(2), BP_OK);
  EXPECT_EQ(ranks.sync(0), BP_UNAVAILABLE);
  EXPECT_THAT(ranks.host().last_message(), HasSubstr("rank 2 has left"));
  EXPECT_EQ(ranks.poll(0).culprit, 3u);
  ASSERT_EQ(ranks.run(1, {nothing()}), BP_OK);
  EXPECT_EQ(ranks.sync(1), BP_UNAVAILABLE) << "also one that comes later";
}

TEST(NpuGroup, StreamThatIsDestroyed_LeavesNothingInTheGroup) {
  Ranks ranks(2);
  const bp_mem mem = ranks.put(0, std::vector<float>{1});
  ASSERT_EQ(ranks.run(0, {operation(BP_COLLECTIVE_ALL_REDUCE, BP_DTYPE_F32, 1, mem, mem),
                          operation(BP_COLLECTIVE_SEND, BP_DTYPE_F32, 0, {}, {}, 0, 1)}),
            BP_OK);
  // What comes of it tells that it has begun.
  ASSERT_EQ(ranks.run(1, {operation(BP_COLLECTIVE_RECV, BP_DTYPE_F32, 0, {}, {}, 0, 0)}), BP_OK);
  ASSERT_EQ(ranks.sync(1), BP_OK);
  EXPECT_EQ(ranks.sync(0, kAMoment), BP_TIMEOUT);
  EXPECT_EQ(plugin().stream->stream_destroy(std::exchange(ranks[0].stream, nullptr)), BP_OK);
  EXPECT_EQ(ranks.poll(0).status, BP_CANCELLED);
  EXPECT_EQ(ranks.destroy(0), BP_OK);
}

TEST(NpuGroup, DestroyAfterASync_IsNeverBusy) {
  Ranks ranks(2);
  for (int round = 0; round < 200; ++round) {
    const Uid uid = ranks.new_uid();
    bp_comm* comms[2] = {};
    for (uint32_t rank = 0; rank < 2; ++rank) {
      ASSERT_EQ(ranks.init(rank, uid, rank, 2, &comms[rank]), BP_OK);
    }
    const std::vector<bp_collective_op> one = {nothing()};
    for (uint32_t rank = 0; rank < 2; ++rank) {
      bp_collective_batch batch = ranks[rank].batch(one);
      batch.comm = comms[rank];
      ASSERT_EQ(enqueue(ranks[rank].device, {batch}), BP_OK);
    }
    ASSERT_EQ(ranks.sync(0), BP_OK);
    ASSERT_EQ(ranks.sync(1), BP_OK);
    for (bp_comm* const comm : comms) ASSERT_EQ(collective().comm_destroy(comm), BP_OK) << round;
  }
}

// Two communicators, which begin in opposite orders on two devices: what the core must prevent. The
// third device tells when each has begun.
TEST(NpuLinks, OneCommunicatorAtATime_HangsWhereRanksTakeTurnsDifferently) {
  Ranks ranks(3, {{"communicators_at_once", "false"}});
  bp_collective_caps caps{};
  caps.struct_size = sizeof(caps);
  ASSERT_EQ(collective().collective_caps(ranks[0].device, &caps), BP_OK);
  EXPECT_EQ(caps.flags & BP_CAPS_CONCURRENT_BIT, 0u);
  std::vector<bp_comm*> second(3);
  const Uid uid = ranks.new_uid();
  std::vector<bp_stream*> others;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    ASSERT_EQ(ranks.init(rank, uid, rank, 3, &second[rank]), BP_OK);
    others.push_back(ranks.another_stream(rank));
  }
  const auto put = [&](size_t rank, bool into_first, const std::vector<bp_collective_op>& what) {
    bp_collective_batch batch = ranks[rank].batch(what);
    if (!into_first) batch.comm = second[rank];
    if (!into_first) batch.stream = others[rank];
    ASSERT_EQ(enqueue(ranks[rank].device, {batch}), BP_OK);
  };
  const auto of_two = [](uint32_t kind, uint32_t peer) {
    return operation(kind, BP_DTYPE_F32, 0, {}, {}, 0, peer);
  };
  const auto sync_other = [&](size_t rank, uint64_t timeout_ns = 30 * kSecond) {
    return plugin().stream->stream_sync(others[rank], timeout_ns);
  };
  put(0, true, {nothing(), of_two(BP_COLLECTIVE_SEND, 2)});
  put(1, false, {nothing(), of_two(BP_COLLECTIVE_SEND, 2)});
  put(2, true, {of_two(BP_COLLECTIVE_RECV, 0)});
  ASSERT_EQ(ranks.sync(2), BP_OK);
  put(2, false, {of_two(BP_COLLECTIVE_RECV, 1)});
  ASSERT_EQ(sync_other(2), BP_OK);  // both have the links of their devices now
  put(0, false, {nothing()});
  put(1, true, {nothing()});
  put(2, true, {nothing()});
  put(2, false, {nothing()});
  EXPECT_EQ(ranks.sync(0, kAMoment), BP_TIMEOUT);
  EXPECT_EQ(sync_other(1, kAMoment), BP_TIMEOUT);
  EXPECT_EQ(ranks.abort(second), BP_OK);
  EXPECT_EQ(sync_other(0), BP_CANCELLED) << "while it waits";
  EXPECT_EQ(sync_other(1), BP_CANCELLED);
  EXPECT_EQ(sync_other(2), BP_CANCELLED);
  for (size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ranks.sync(rank), BP_OK) << "the other communicator goes on, on rank " << rank;
  }
  for (bp_comm* const comm : second) EXPECT_EQ(collective().comm_destroy(comm), BP_OK);
}

}  // namespace
}  // namespace bp::npu_test
