// SPDX-License-Identifier: Apache-2.0
//
// The collective table of the mock: what operations compute.
#include <cmath>
#include <limits>
#include <numeric>

#include "plugins/npu/collective/harness_test.hpp"

namespace bp::npu_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint32_t kRanks = 3;
constexpr uint64_t kCount = 4;

/// What rank `rank` sends at place i: different everywhere.
int32_t sent(uint32_t rank, uint64_t i) { return static_cast<int32_t>(100 * (rank + 1) + i); }

/// One operation of every rank: what a rank must have received, by the words of the header.
struct Expected {
  uint32_t kind;
  uint32_t peer;
  uint64_t send_blocks;  // 0: nothing on ranks other than the peer
  std::vector<int32_t> (*of)(uint32_t rank, uint32_t peer);
};

std::vector<int32_t> block(uint32_t from, uint64_t index) {
  std::vector<int32_t> values(kCount);
  for (uint64_t i = 0; i < kCount; ++i) values[i] = sent(from, index * kCount + i);
  return values;
}
void append(std::vector<int32_t>* all, const std::vector<int32_t>& more) {
  all->insert(all->end(), more.begin(), more.end());
}
std::vector<int32_t> summed(uint64_t index) {
  std::vector<int32_t> total(kCount);
  for (uint32_t from = 0; from < kRanks; ++from) {
    const std::vector<int32_t> values = block(from, index);
    for (uint64_t i = 0; i < kCount; ++i) total[i] += values[i];
  }
  return total;
}
std::vector<int32_t> gathered(uint64_t index) {
  std::vector<int32_t> all;
  for (uint32_t from = 0; from < kRanks; ++from) append(&all, block(from, index));
  return all;
}
std::vector<int32_t> none() { return {}; }

const Expected kExpected[] = {
    {BP_COLLECTIVE_ALL_REDUCE, 0, 1, [](uint32_t, uint32_t) { return summed(0); }},
    {BP_COLLECTIVE_ALL_GATHER, 0, 1, [](uint32_t, uint32_t) { return gathered(0); }},
    {BP_COLLECTIVE_REDUCE_SCATTER, 0, kRanks, [](uint32_t rank, uint32_t) { return summed(rank); }},
    {BP_COLLECTIVE_ALL_TO_ALL, 0, kRanks, [](uint32_t rank, uint32_t) { return gathered(rank); }},
    {BP_COLLECTIVE_BROADCAST, 1, 1, [](uint32_t, uint32_t peer) { return block(peer, 0); }},
    {BP_COLLECTIVE_REDUCE, 1, 1,
     [](uint32_t rank, uint32_t peer) { return rank == peer ? summed(0) : none(); }},
    {BP_COLLECTIVE_GATHER, 1, 1,
     [](uint32_t rank, uint32_t peer) { return rank == peer ? gathered(0) : none(); }},
    {BP_COLLECTIVE_SCATTER, 1, kRanks,
     [](uint32_t rank, uint32_t peer) { return block(peer, rank); }},
};

TEST(NpuCollective, EveryKind_FromEveryRoot_IsAsTheHeaderSays) {
  for (const Expected& expected : kExpected) {
    for (uint32_t peer = 0; peer < (expected.peer == 0 ? 1 : kRanks); ++peer) {
      Ranks ranks(kRanks);
      std::vector<bp_mem> received;
      for (uint32_t rank = 0; rank < kRanks; ++rank) {
        std::vector<int32_t> values;
        for (uint64_t b = 0; b < expected.send_blocks; ++b) append(&values, block(rank, b));
        const bool is_from_peer =
            expected.kind == BP_COLLECTIVE_BROADCAST || expected.kind == BP_COLLECTIVE_SCATTER;
        const bp_mem nothing{};
        const bp_mem send = is_from_peer && rank != peer ? nothing : ranks.put(rank, values);
        received.push_back(ranks.put(rank, std::vector<int32_t>(kRanks * kCount, -1)));
        const auto what = operation(expected.kind, BP_DTYPE_I32, kCount, send, received.back(),
                                    BP_REDUCTION_SUM, peer);
        ASSERT_EQ(ranks.run(rank, {what}), BP_OK) << ranks.host().last_message();
      }
      for (uint32_t rank = 0; rank < kRanks; ++rank) {
        ASSERT_EQ(ranks.sync(rank), BP_OK) << ranks.host().last_message();
        std::vector<int32_t> wanted = expected.of(rank, peer);
        wanted.resize(kRanks * kCount, -1);
        EXPECT_EQ(ranks.get<int32_t>(rank, received[rank], kRanks * kCount), wanted)
            << "kind " << expected.kind << ", rank " << rank << ", peer " << peer;
      }
    }
  }
}

TEST(NpuCollective, InPlace_EveryForm_IsAsOutOfPlace) {
  Ranks ranks(kRanks);
  constexpr uint64_t kBlockBytes = kCount * sizeof(int32_t);
  struct Buffers {
    bp_mem whole;
    bp_mem blocks;
    bp_mem scattered;
  };
  std::vector<Buffers> buffers;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    std::vector<int32_t> all(kRanks * kCount, -1);
    for (uint64_t i = 0; i < kCount; ++i) all[rank * kCount + i] = sent(rank, i);
    std::vector<int32_t> parts;
    for (uint64_t b = 0; b < kRanks; ++b) append(&parts, block(rank, b));
    const Buffers own = {ranks.put(rank, block(rank, 0)), ranks.put(rank, all),
                         ranks.put(rank, parts)};
    buffers.push_back(own);
    const bp_mem own_block{own.blocks.handle, rank * kBlockBytes};
    const bp_mem own_part{own.scattered.handle, rank * kBlockBytes};
    ASSERT_EQ(ranks.run(rank, {operation(BP_COLLECTIVE_ALL_REDUCE, BP_DTYPE_I32, kCount, own.whole,
                                         own.whole, BP_REDUCTION_SUM),
                               operation(BP_COLLECTIVE_ALL_GATHER, BP_DTYPE_I32, kCount, own_block,
                                         own.blocks),
                               operation(BP_COLLECTIVE_REDUCE_SCATTER, BP_DTYPE_I32, kCount,
                                         own.scattered, own_part, BP_REDUCTION_SUM)}),
              BP_OK);
  }
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    ASSERT_EQ(ranks.sync(rank), BP_OK);
    EXPECT_EQ(ranks.get<int32_t>(rank, buffers[rank].whole, kCount), summed(0));
    EXPECT_EQ(ranks.get<int32_t>(rank, buffers[rank].blocks, kRanks * kCount), gathered(0));
    const bp_mem own_part{buffers[rank].scattered.handle, rank * kBlockBytes};
    EXPECT_EQ(ranks.get<int32_t>(rank, own_part, kCount), summed(rank));
  }
}

/// What two ranks get of one value each.
template <class T>
T reduced(uint32_t dtype, uint32_t reduction, T a, T b) {
  Ranks ranks(2);
  const T values[] = {a, b};
  bp_mem received[2];
  for (size_t rank = 0; rank < 2; ++rank) {
    received[rank] = ranks.put(rank, std::vector<T>(1));
    const bp_mem send = ranks.put(rank, std::vector<T>{values[rank]});
    EXPECT_EQ(ranks.run(rank, {operation(BP_COLLECTIVE_ALL_REDUCE, dtype, 1, send, received[rank],
                                         reduction)}),
              BP_OK)
        << ranks.host().last_message();
  }
  EXPECT_EQ(ranks.sync(0), BP_OK);
  EXPECT_EQ(ranks.sync(1), BP_OK);
  const std::vector<T> first = ranks.get<T>(0, received[0], 1);
  const std::vector<T> second = ranks.get<T>(1, received[1], 1);
  EXPECT_EQ(std::memcmp(first.data(), second.data(), sizeof(T)), 0) << "ranks have other bits";
  return first[0];
}

TEST(NpuCollective, Reductions_OfEachType_CombineAsTheTypeDoes) {
  EXPECT_EQ(reduced<int8_t>(BP_DTYPE_I8, BP_REDUCTION_SUM, 100, 100), -56) << "wraps";
  EXPECT_EQ(reduced<int8_t>(BP_DTYPE_I8, BP_REDUCTION_MIN, -3, 5), -3);
  EXPECT_EQ(reduced<int8_t>(BP_DTYPE_I8, BP_REDUCTION_MAX, -3, 5), 5);
  EXPECT_EQ(reduced<uint8_t>(BP_DTYPE_U8, BP_REDUCTION_MAX, 200, 5), 200);
  EXPECT_EQ(reduced<int64_t>(BP_DTYPE_I64, BP_REDUCTION_MIN, INT64_MIN, INT64_MAX), INT64_MIN);
  EXPECT_EQ(reduced<uint64_t>(BP_DTYPE_U64, BP_REDUCTION_PROD, UINT64_MAX, 3), UINT64_MAX - 2);
  EXPECT_EQ(reduced<double>(BP_DTYPE_F64, BP_REDUCTION_AVG, 1.0, 2.0), 1.5);
  EXPECT_EQ(reduced<float>(BP_DTYPE_F32, BP_REDUCTION_PROD, 1.5f, -2.0f), -3.0f);
  // f16: 2048 + 1 rounds to even; bf16: 1 + 2^-9 is 1.
  EXPECT_EQ(reduced<uint16_t>(BP_DTYPE_F16, BP_REDUCTION_SUM, 0x6800, 0x3c00), 0x6800);
  EXPECT_EQ(reduced<uint16_t>(BP_DTYPE_BF16, BP_REDUCTION_SUM, 0x3f80, 0x3b00), 0x3f80);
  // The average of two largest f16 does not overflow: sums are kept in f32.
  EXPECT_EQ(reduced<uint16_t>(BP_DTYPE_F16, BP_REDUCTION_AVG, 0x7bff, 0x7bff), 0x7bff);
}

TEST(NpuCollective, MinAndMax_OfNaN_AreNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const uint32_t reduction : {BP_REDUCTION_MIN, BP_REDUCTION_MAX}) {
    EXPECT_TRUE(std::isnan(reduced<float>(BP_DTYPE_F32, reduction, nan, 1.0f)));
    EXPECT_TRUE(std::isnan(reduced<float>(BP_DTYPE_F32, reduction, 1.0f, nan)));
  }
}

TEST(NpuCollective, SendAndRecv_InOneArray_DoNotWaitForEachOther) {
  Ranks ranks(kRanks);
  std::vector<bp_mem> received;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    const bp_mem send = ranks.put(rank, block(rank, 0));
    received.push_back(ranks.put(rank, std::vector<int32_t>(kCount, -1)));
    const uint32_t next = (rank + 1) % kRanks, before = (rank + kRanks - 1) % kRanks;
    ASSERT_EQ(
        ranks.run(rank, {operation(BP_COLLECTIVE_RECV, BP_DTYPE_I32, kCount, {}, received[rank], 0,
                                   before),
                         operation(BP_COLLECTIVE_SEND, BP_DTYPE_I32, kCount, send, {}, 0, next)}),
        BP_OK);
  }
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    ASSERT_EQ(ranks.sync(rank), BP_OK);
    EXPECT_EQ(ranks.get<int32_t>(rank, received[rank], kCount), block((rank + 2) % kRanks, 0));
  }
}

TEST(NpuCollective, SendAndRecv_OfTwoRanks_TakeNoThird) {
  Ranks ranks(kRanks);
  const bp_mem received = ranks.put(2, std::vector<int32_t>(2 * kCount, -1));
  const bp_mem behind{received.handle, kCount * sizeof(int32_t)};
  // The second send meets the second recv, whatever their arrays.
  ASSERT_EQ(ranks.run(0, {operation(BP_COLLECTIVE_SEND, BP_DTYPE_I32, kCount,
                                    ranks.put(0, block(0, 0)), {}, 0, 2)}),
            BP_OK);
  ASSERT_EQ(ranks.run(0, {operation(BP_COLLECTIVE_SEND, BP_DTYPE_I32, kCount,
                                    ranks.put(0, block(0, 1)), {}, 0, 2)}),
            BP_OK);
  ASSERT_EQ(ranks.run(2, {operation(BP_COLLECTIVE_RECV, BP_DTYPE_I32, kCount, {}, received, 0, 0),
                          operation(BP_COLLECTIVE_RECV, BP_DTYPE_I32, kCount, {}, behind, 0, 0)}),
            BP_OK);
  ASSERT_EQ(ranks.sync(0), BP_OK);
  ASSERT_EQ(ranks.sync(2), BP_OK);
  std::vector<int32_t> both = block(0, 0);
  append(&both, block(0, 1));
  EXPECT_EQ(ranks.get<int32_t>(2, received, 2 * kCount), both);
  EXPECT_EQ(ranks.poll(0).enqueued_sequence, 0u) << "sends count by themselves";
}

TEST(NpuCollective, SendToItself_MeetsItsOwnRecv) {
  Ranks ranks(1);
  const bp_mem received = ranks.put(0, std::vector<int32_t>(kCount, -1));
  ASSERT_EQ(ranks.run(0, {operation(BP_COLLECTIVE_SEND, BP_DTYPE_I32, kCount,
                                    ranks.put(0, block(0, 0)), {}, 0, 0),
                          operation(BP_COLLECTIVE_RECV, BP_DTYPE_I32, kCount, {}, received, 0, 0)}),
            BP_OK);
  ASSERT_EQ(ranks.sync(0), BP_OK);
  EXPECT_EQ(ranks.get<int32_t>(0, received, kCount), block(0, 0));
}

TEST(NpuCollective, CountZero_TakesPart) {
  Ranks ranks(2);
  const auto nothing = operation(BP_COLLECTIVE_ALL_REDUCE, BP_DTYPE_F32, 0, {}, {});
  ASSERT_EQ(ranks.run(0, {nothing}), BP_OK);
  EXPECT_EQ(ranks.sync(0, kAMoment), BP_TIMEOUT) << "rank 1 has not come";
  ASSERT_EQ(ranks.run(1, {nothing}), BP_OK);
  EXPECT_EQ(ranks.sync(0), BP_OK);
  EXPECT_EQ(ranks.poll(0).enqueued_sequence, 1u);
}

// One thread drives all ranks by one call.
TEST(NpuCollective, Array_OfAllRanks_IsOneCall) {
  Ranks ranks(2);
  std::vector<std::vector<bp_collective_op>> operations;
  std::vector<bp_mem> received;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    received.push_back(ranks.put(rank, std::vector<int32_t>(kCount, -1)));
    operations.push_back({operation(BP_COLLECTIVE_BROADCAST, BP_DTYPE_I32, kCount,
                                    ranks.put(rank, block(rank, 0)), received[rank], 0, 1)});
  }
  ASSERT_EQ(
      enqueue(ranks[0].device, {ranks[0].batch(operations[0]), ranks[1].batch(operations[1])}),
      BP_OK);
  EXPECT_EQ(ranks.sync(0), BP_OK);
  EXPECT_EQ(ranks.sync(1), BP_OK);
  EXPECT_EQ(ranks.get<int32_t>(0, received[0], kCount), block(1, 0));
}

// Two groups over the same two devices, on one stream of each, in opposite orders: without arrays
// this would hang.
TEST(NpuCollective, Array_OfTwoGroupsOnOneStream_HasNoOrder) {
  Ranks ranks(2);
  bp_comm* second[2] = {};
  const Uid uid = ranks.new_uid();
  for (uint32_t rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(ranks.init(rank, uid, rank, 2, &second[rank]), BP_OK);
  }
  const std::vector<bp_collective_op> nothing = {
      operation(BP_COLLECTIVE_ALL_REDUCE, BP_DTYPE_F32, 0, {}, {})};
  for (uint32_t rank = 0; rank < 2; ++rank) {
    std::vector<bp_collective_batch> batches(2, ranks[rank].batch(nothing));
    batches[rank].comm = second[rank];
    ASSERT_EQ(enqueue(ranks[rank].device, batches), BP_OK) << ranks.host().last_message();
  }
  EXPECT_EQ(ranks.sync(0), BP_OK);
  EXPECT_EQ(ranks.sync(1), BP_OK);
  for (bp_comm* const comm : second) EXPECT_EQ(collective().comm_destroy(comm), BP_OK);
}

/// Of int32_t, from a rank to another: value i of `mem` in the i-th, each on another stream than
/// the one before.
void enqueue_one_by_one(Ranks& ranks, uint32_t rank, uint32_t kind, bp_mem mem, uint64_t count,
                        bp_stream* second) {
  for (uint64_t i = 0; i < count; ++i) {
    const bp_mem value{mem.handle, i * sizeof(int32_t)};
    const bool sends = kind == BP_COLLECTIVE_SEND;
    const std::vector<bp_collective_op> own = {operation(
        kind, BP_DTYPE_I32, 1, sends ? value : bp_mem{}, sends ? bp_mem{} : value, 0, 1 - rank)};
    bp_collective_batch batch = ranks[rank].batch(own);
    if (i % 2 == 1) batch.stream = second;
    ASSERT_EQ(enqueue(ranks[rank].device, {batch}), BP_OK) << ranks.host().last_message();
  }
}

// A send on one stream puts as soon as its peer has read the one before, which the other stream may
// not have seen.
TEST(NpuCollective, SendsOfTwoStreams_DoNotTakeBackWhatTheNextHasPut) {
  constexpr uint64_t kSends = 1000;
  Ranks ranks(2);
  std::vector<int32_t> sent_values(kSends);
  std::iota(sent_values.begin(), sent_values.end(), 1);
  const bp_mem from = ranks.put(0, sent_values);
  const bp_mem into = ranks.put(1, std::vector<int32_t>(kSends, -1));
  bp_stream* const second[] = {ranks.another_stream(0), ranks.another_stream(1)};
  enqueue_one_by_one(ranks, 0, BP_COLLECTIVE_SEND, from, kSends, second[0]);
  enqueue_one_by_one(ranks, 1, BP_COLLECTIVE_RECV, into, kSends, second[1]);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(ranks.sync(rank), BP_OK) << rank;
    EXPECT_EQ(plugin().stream->stream_sync(second[rank], 30 * kSecond), BP_OK) << rank;
  }
  EXPECT_EQ(ranks.get<int32_t>(1, into, kSends), sent_values);
}

TEST(NpuCollective, Stream_KeepsTheOrderOfOperationsAndCopies) {
  Ranks ranks(2);
  std::vector<bp_mem> places;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    places.push_back(ranks.put(rank, std::vector<int32_t>{1}));
    for (int i = 0; i < 20; ++i) {
      ASSERT_EQ(ranks.run(rank, {operation(BP_COLLECTIVE_ALL_REDUCE, BP_DTYPE_I32, 1, places[rank],
                                           places[rank], BP_REDUCTION_SUM)}),
                BP_OK);
    }
  }
  EXPECT_EQ(ranks.sync(0), BP_OK);
  EXPECT_EQ(ranks.sync(1), BP_OK);
  EXPECT_THAT(ranks.get<int32_t>(0, places[0], 1), ElementsAre(1 << 20));
}

}  // namespace
}  // namespace bp::npu_test
