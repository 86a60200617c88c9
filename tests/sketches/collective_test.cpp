// SPDX-License-Identifier: Apache-2.0
//
// The sketch of the collective table against loader, devices, streams, storages and the failure
// model: four ranks in one process, each on a device of its own.
#include "backplane/sketch/collective.h"

#include <array>
#include <chrono>
#include <thread>

#include "tests/sketches/sketch_fixture.hpp"

namespace bp {
namespace {

constexpr uint32_t kRanks = 4;
constexpr uint64_t kSecond = 1'000'000'000;
using Clock = std::chrono::steady_clock;

class CollectiveSketch : public SketchTest {
 protected:
  struct Rank {
    Device* device = nullptr;
    Stream* stream = nullptr;
    bp_comm* comm = nullptr;
    uint64_t sequence = 1;  // of the next collective
    Ref<Tensor> send;
    Ref<Tensor> recv;
  };

  void SetUp() override {
    open("link_npu", {{"link_npu.devices", "4"}});
    ASSERT_NE(find_table(*device_, "bp.sketch.collective", BP_SKETCH_COLLECTIVE, &api_), nullptr);
    for (uint32_t r = 0; r < kRanks; ++r) {
      ranks_[r].device = *runtime_->find_device("link_npu:" + std::to_string(r));
      ranks_[r].stream = *ranks_[r].device->acquire_stream();
      const float base = static_cast<float>(r) * 10;
      ranks_[r].send = tensor(r, {base, base + 1, base + 2});
      ranks_[r].recv = tensor(r, std::vector<float>(12));
    }
  }
  void TearDown() override {
    abort_all();
    for (Rank& rank : ranks_) {
      [[maybe_unused]] const Status idle = rank.stream->sync();
      if (rank.comm == nullptr) continue;
      EXPECT_EQ(api_.comm_destroy(rank.comm), BP_OK);
    }
  }

  Ref<Tensor> tensor(uint32_t rank, const std::vector<float>& values) {
    return *copy_from_host(ranks_[rank].device->default_stream(), BP_DTYPE_F32,
                           {static_cast<int64_t>(values.size())}, values.data(), MemoryTag::kIo);
  }
  using Uid = std::array<uint64_t, 4>;
  Uid new_uid() {
    Uid uid{};
    bp_uid_space space{sizeof(space), 0, uid.data(), sizeof(uid)};
    EXPECT_EQ(api_.uid_create(device_->table().device, &space), BP_OK);
    return uid;
  }
  bp_status init(uint32_t rank, const Uid& uid) {
    const bp_comm_args args{.struct_size = sizeof(args),
                            .flags = 0,
                            .uids = uid.data(),
                            .uid_bytes = sizeof(uid),
                            .uid_count = 1,
                            .rank = rank,
                            .rank_count = kRanks,
                            .reserved = 0,
                            .timeout_hint_ns = 0,
                            .name = {"sketch", 6}};
    return api_.comm_init(ranks_[rank].device->table().device, &args, &ranks_[rank].comm);
  }
  bp_comm_state poll(uint32_t rank) {
    bp_comm_state state{};
    state.struct_size = sizeof(state);
    EXPECT_EQ(api_.comm_poll(ranks_[rank].comm, &state), BP_OK);
    return state;
  }
  void join_all() {
    const Uid uid = new_uid();
    for (uint32_t r = 0; r < kRanks; ++r) ASSERT_EQ(init(r, uid), BP_OK);
    for (uint32_t r = 0; r < kRanks; ++r) ASSERT_EQ(poll(r).state, BP_COMM_READY);
  }
  void abort_all() {
    std::vector<bp_comm*> comms;
    for (const Rank& rank : ranks_) {
      if (rank.comm != nullptr) comms.push_back(rank.comm);
    }
    const bp_comm_abort_args args{sizeof(args), 0, comms.data(), comms.size()};
    EXPECT_EQ(api_.comm_abort(device_->table().device, &args), BP_OK);
  }
  void leave_all() {
    for (Rank& rank : ranks_) {
      ASSERT_EQ(api_.comm_destroy(rank.comm), BP_OK);
      rank.comm = nullptr;
      rank.sequence = 1;
    }
  }

  static bp_mem place(const Ref<Tensor>& tensor, uint64_t element = 0) {
    return {tensor->abi().handle, tensor->abi().offset_bytes + element * sizeof(float)};
  }
  bp_collective_op operation(uint32_t rank, uint32_t kind, uint32_t peer = 0,
                             uint64_t count = 3) const {
    return {.struct_size = sizeof(bp_collective_op),
            .flags = 0,
            .kind = kind,
            .dtype = BP_DTYPE_F32,
            .reduction = BP_REDUCTION_SUM,
            .peer = peer,
            .count = count,
            .send = place(ranks_[rank].send),
            .recv = place(ranks_[rank].recv)};
  }
  /// As the core would: order, lock, numbers, enqueue, marks.
  Status enqueue(uint32_t r, const std::vector<bp_collective_op>& operations) {
    Rank& rank = ranks_[r];
    BP_TRY(rank.send->storage().order_before(*rank.stream, Access::kRead));
    BP_TRY(rank.recv->order_before_write(*rank.stream));
    uint64_t seq = 0;
    bp_status code = BP_OK;
    {
      TimedLock lock;
      BP_TRY(rank.stream->hold(lock));
      BP_TRY(rank.stream->check_healthy());
      seq = rank.stream->next_seq();
      const bp_collective_batch batch{.struct_size = sizeof(batch),
                                      .flags = 0,
                                      .comm = rank.comm,
                                      .stream = rank.stream->handle(),
                                      .operations = operations.data(),
                                      .operation_count = static_cast<uint32_t>(operations.size()),
                                      .operation_stride_bytes = sizeof(bp_collective_op),
                                      .sequence = rank.sequence,
                                      .op_seq = rank.stream->op_seq(seq)};
      const bp_collective_args args{.struct_size = sizeof(args),
                                    .flags = 0,
                                    .batches = &batch,
                                    .batch_count = 1,
                                    .batch_stride_bytes = sizeof(batch)};
      for (size_t i = 1; i < operations.size(); ++i) seq = rank.stream->next_seq();
      code = api_.collective_enqueue(rank.device->table().device, &args);
    }
    if (code != BP_OK) return rank.stream->failure(code, "collective_enqueue");
    for (const bp_collective_op& what : operations) {
      const bool is_of_two = what.kind == BP_COLLECTIVE_SEND || what.kind == BP_COLLECTIVE_RECV;
      if (!is_of_two) ++rank.sequence;
    }
    rank.send->storage().note_use(*rank.stream, seq, false);
    rank.recv->storage().note_use(*rank.stream, seq, true);
    return {};
  }
  void enqueue_all(uint32_t kind, uint32_t peer = 0) {
    for (uint32_t r = 0; r < kRanks; ++r) {
      const Status status = enqueue(r, {operation(r, kind, peer)});
      ASSERT_TRUE(status.ok()) << status.to_string();
    }
  }
  std::vector<float> received(uint32_t rank, size_t count) {
    std::vector<float> all = values(ranks_[rank].recv);
    all.resize(count);
    return all;
  }
  /// Every rank's stream fails with this code and these words, and can be used after a reset.
  void expect_all_fail(bp_status code, std::initializer_list<const char*> words) {
    for (const Rank& rank : ranks_) {
      const Status status = rank.stream->sync();
      EXPECT_EQ(status.code(), code) << status.to_string();
      expect_words(status, words);
      EXPECT_TRUE(rank.stream->reset().ok());
      EXPECT_TRUE(rank.stream->sync().ok());
    }
  }

  bp_collective_api api_;
  std::array<Rank, kRanks> ranks_;
};

TEST_F(CollectiveSketch, Plan_Init_DoesNotBlockAndIsPolled) {
  const Uid uid = new_uid();
  const auto begin = Clock::now();
  ASSERT_EQ(init(0, uid), BP_OK);
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(1));
  EXPECT_EQ(poll(0).state, BP_COMM_JOINING);
  EXPECT_EQ(enqueue(0, {operation(0, BP_COLLECTIVE_ALL_REDUCE)}).code(), BP_PENDING);
  for (uint32_t r = 1; r < kRanks; ++r) ASSERT_EQ(init(r, uid), BP_OK);
  for (uint32_t r = 0; r < kRanks; ++r) EXPECT_EQ(poll(r).state, BP_COMM_READY);
}

TEST_F(CollectiveSketch, Launch_AllKinds_GiveWhatTheyShould) {
  join_all();
  enqueue_all(BP_COLLECTIVE_ALL_REDUCE);
  for (uint32_t r = 0; r < kRanks; ++r) {
    EXPECT_EQ(received(r, 3), (std::vector<float>{60, 64, 68})) << r;
  }
  enqueue_all(BP_COLLECTIVE_BROADCAST, 2);
  for (uint32_t r = 0; r < kRanks; ++r) {
    EXPECT_EQ(received(r, 3), (std::vector<float>{20, 21, 22})) << r;
  }
  enqueue_all(BP_COLLECTIVE_ALL_GATHER);
  const std::vector<float> all{0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32};
  for (uint32_t r = 0; r < kRanks; ++r) EXPECT_EQ(received(r, 12), all) << r;
  for (uint32_t r = 0; r < kRanks; ++r) {  // a ring: one array sends and receives
    const Status status = enqueue(r, {operation(r, BP_COLLECTIVE_SEND, (r + 1) % kRanks),
                                      operation(r, BP_COLLECTIVE_RECV, (r + 3) % kRanks)});
    ASSERT_TRUE(status.ok()) << status.to_string();
  }
  for (uint32_t r = 0; r < kRanks; ++r) {
    const auto base = static_cast<float>((r + 3) % kRanks) * 10;
    EXPECT_EQ(received(r, 3), (std::vector<float>{base, base + 1, base + 2})) << r;
  }
}

TEST_F(CollectiveSketch, Launch_Array_IsOneMeeting) {
  join_all();
  for (uint32_t r = 0; r < kRanks; ++r) {
    bp_collective_op sum = operation(r, BP_COLLECTIVE_ALL_REDUCE);
    bp_collective_op max = sum;
    max.reduction = BP_REDUCTION_MAX;
    max.recv = place(ranks_[r].recv, 3);
    ASSERT_TRUE(enqueue(r, {sum, max}).ok());
  }
  for (uint32_t r = 0; r < kRanks; ++r) {
    EXPECT_EQ(received(r, 6), (std::vector<float>{60, 64, 68, 30, 31, 32}));
  }
}

TEST_F(CollectiveSketch, RunContext_FourThreads_ManyArraysInOrder) {
  join_all();
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < kRanks; ++r) {
    threads.emplace_back([this, r] {
      for (int i = 0; i < 50; ++i) {
        ASSERT_TRUE(enqueue(r, {operation(r, BP_COLLECTIVE_ALL_REDUCE)}).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (uint32_t r = 0; r < kRanks; ++r) {
    EXPECT_EQ(received(r, 3), (std::vector<float>{60, 64, 68}));
  }
}

TEST_F(CollectiveSketch, Events_InputOfAnotherStream_IsWaitedFor) {
  join_all();
  const OpId add = *runtime_->registry().find("add");
  for (uint32_t r = 0; r < kRanks; ++r) {
    Tensor* const inputs[] = {ranks_[r].send.get(), ranks_[r].send.get()};
    Ref<Tensor> doubled;  // on the default stream, perhaps still in the making
    ASSERT_TRUE(call(*runtime_, {.op = add, .inputs = inputs}, {&doubled, 1}).ok());
    ranks_[r].send = doubled;
  }
  enqueue_all(BP_COLLECTIVE_ALL_REDUCE);
  for (uint32_t r = 0; r < kRanks; ++r) {
    Tensor* const inputs[] = {ranks_[r].recv.get(), ranks_[r].recv.get()};
    Ref<Tensor> after;  // waits for the collective in turn
    ASSERT_TRUE(call(*runtime_, {.op = add, .inputs = inputs}, {&after, 1}).ok());
    EXPECT_EQ(values(after)[1], 256) << r;
    EXPECT_EQ(ranks_[r].device->counters().host_waits, 0u);
  }
}

TEST_F(CollectiveSketch, Memory_InPlaceAndOutOfRange) {
  join_all();
  for (uint32_t r = 0; r < kRanks; ++r) {
    bp_collective_op in_place = operation(r, BP_COLLECTIVE_ALL_REDUCE);
    in_place.recv = in_place.send;
    ASSERT_TRUE(enqueue(r, {in_place}).ok());
  }
  for (uint32_t r = 0; r < kRanks; ++r) {
    ASSERT_TRUE(ranks_[r].stream->sync().ok());
    EXPECT_EQ(values(ranks_[r].send), (std::vector<float>{60, 64, 68}));
  }
  bp_collective_op bad = operation(0, BP_COLLECTIVE_ALL_REDUCE, 0, uint64_t{1} << 40);
  EXPECT_EQ(enqueue(0, {bad}).code(), BP_INVALID_ARGUMENT) << "a call error, by this rank alone";
  bad = operation(0, 99);
  EXPECT_EQ(enqueue(0, {bad}).code(), BP_UNSUPPORTED);
  ranks_[0].sequence = ranks_[1].sequence;  // neither call had an effect
  enqueue_all(BP_COLLECTIVE_BROADCAST, 1);
  EXPECT_EQ(received(0, 3), (std::vector<float>{60, 64, 68}));
}

TEST_F(CollectiveSketch, Errors_CountsDiffer_AllRanksAreTold) {
  join_all();
  for (uint32_t r = 0; r < kRanks; ++r) {
    ASSERT_TRUE(enqueue(r, {operation(r, BP_COLLECTIVE_ALL_REDUCE, 0, r == 2 ? 2 : 3)}).ok());
  }
  expect_all_fail(BP_INVALID_ARGUMENT, {"rank 2", "2 elements", "3 elements"});
  EXPECT_EQ(poll(0).state, BP_COMM_FAILED);
}

// Deadlines are the core's: a wait that ends before the work is its cue to abort.
TEST_F(CollectiveSketch, Errors_MissingRank_WaitsEndAndTheOthersAreAborted) {
  join_all();
  for (uint32_t r = 0; r < kRanks - 1; ++r) {
    ASSERT_TRUE(enqueue(r, {operation(r, BP_COLLECTIVE_ALL_REDUCE)}).ok());
  }
  EXPECT_EQ(device_->table().stream_sync(ranks_[0].stream->handle(), kSecond / 20), BP_TIMEOUT);
  abort_all();
  for (uint32_t r = 0; r < kRanks - 1; ++r) {
    EXPECT_EQ(ranks_[r].stream->sync().code(), BP_CANCELLED);
    EXPECT_TRUE(ranks_[r].stream->reset().ok());
  }
}

TEST_F(CollectiveSketch, Errors_Abort_EndsWaitsWithinASecondAndAGroupCanBeRebuilt) {
  join_all();
  for (uint32_t r = 1; r < kRanks; ++r) {
    ASSERT_TRUE(enqueue(r, {operation(r, BP_COLLECTIVE_ALL_REDUCE)}).ok());
  }
  EXPECT_EQ(api_.comm_destroy(ranks_[1].comm), BP_BUSY);
  const auto begin = Clock::now();
  abort_all();
  for (uint32_t r = 1; r < kRanks; ++r) {
    EXPECT_EQ(ranks_[r].stream->sync().code(), BP_CANCELLED);
    EXPECT_TRUE(ranks_[r].stream->reset().ok());
  }
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(1));
  EXPECT_EQ(enqueue(0, {operation(0, BP_COLLECTIVE_ALL_REDUCE)}).code(), BP_CANCELLED);
  leave_all();
  join_all();
  enqueue_all(BP_COLLECTIVE_ALL_REDUCE);
  for (uint32_t r = 0; r < kRanks; ++r) {
    EXPECT_EQ(received(r, 3), (std::vector<float>{60, 64, 68}));
  }
}

}  // namespace
}  // namespace bp
