// SPDX-License-Identifier: Apache-2.0
//
// The structs of collectives at every size, to each plugin that has the table: a group of one rank
// joins, computes and is aborted. Elements of arrays end at the end of the memory.
#include <array>

#include "plugin_fixture.hpp"

namespace bp::abi {
namespace {

constexpr uint64_t kSumCount = 3;
constexpr uint64_t kSumBytes = kSumCount * sizeof(float);
constexpr uint64_t kPatienceNs = 60'000'000'000;

/// Bytes from one element of an array to the next where each ends after so many.
uint32_t stride_of(uint32_t bytes) { return std::max((bytes + 7) / 8 * 8, 8u); }

class TruncatedGroup : public PluginTest {
 protected:
  void SetUp() override {
    PluginTest::SetUp();
    if (HasFatalFailure()) return;
    if (!has_collectives()) GTEST_SKIP() << "the plugin has no collectives";
    caps_.struct_size = sizeof(caps_);
    ASSERT_EQ(collective().collective_caps(device(), &caps_), BP_OK);
    const bp_stream_args args{.struct_size = sizeof(bp_stream_args), .flags = 0};
    ASSERT_EQ(stream().stream_create(device(), &args, &stream_), BP_OK);
    send_ = alloc(kSumBytes);
    recv_ = alloc(kSumBytes);
    copy(BP_COPY_HOST_TO_DEVICE, {send_, 0}, tests::host_mem(kSent.data()));
  }
  void TearDown() override {
    if (comm_ != nullptr) end(comm_);
    if (stream_ != nullptr) {
      EXPECT_EQ(stream().stream_destroy(stream_), BP_OK);
    }
    if (send_ != 0) free(send_);
    if (recv_ != 0) free(recv_);
    PluginTest::TearDown();
  }

  std::vector<std::byte> new_id() const {
    std::vector<std::byte> id(caps_.uid_bytes);
    bp_uid_space space{
        .struct_size = sizeof(space), .flags = 0, .data = id.data(), .bytes = id.size()};
    EXPECT_EQ(collective().uid_create(device(), &space), BP_OK);
    return id;
  }
  /// The arguments of a rank that is alone; they point to the id.
  static bp_comm_args alone(const std::vector<std::byte>& id) {
    bp_comm_args args{};
    args.struct_size = sizeof(args);
    args.uids = id.data();
    args.uid_bytes = id.size();
    args.uid_count = 1;
    args.rank_count = 1;
    args.name = {"alone", 5};
    return args;
  }
  bp_comm* new_comm() const {
    const std::vector<std::byte> id = new_id();
    const bp_comm_args args = alone(id);
    bp_comm* comm = nullptr;
    EXPECT_EQ(collective().comm_init(device(), &args, &comm), BP_OK);
    EXPECT_EQ(poll(comm).state, BP_COMM_READY);
    return comm;
  }
  bp_comm_state poll(bp_comm* comm) const {
    bp_comm_state state{};
    state.struct_size = sizeof(state);
    EXPECT_EQ(collective().comm_poll(comm, &state), BP_OK);
    return state;
  }
  void end(bp_comm* comm) const { EXPECT_EQ(collective().comm_destroy(comm), BP_OK); }
  void copy(uint32_t kind, bp_mem dst, bp_mem src) const {
    const bp_copy_args args = tests::copy_args(kind, dst, src, kSumBytes);
    EXPECT_EQ(memory().mem_copy(device(), &args), BP_OK);
  }

  // --- an all_reduce, of which one struct is cut ---

  bp_collective_op whole_op() const {
    bp_collective_op op{};
    op.struct_size = sizeof(op);
    op.kind = BP_COLLECTIVE_ALL_REDUCE;
    op.dtype = BP_DTYPE_F32;
    op.reduction = BP_REDUCTION_SUM;
    op.count = kSumCount;
    op.send = {send_, 0};
    op.recv = {recv_, 0};
    return op;
  }
  bp_collective_batch whole_batch(const bp_collective_op* op) const {
    bp_collective_batch batch{};
    batch.struct_size = sizeof(batch);
    batch.comm = comm_;
    batch.stream = stream_;
    batch.operations = op;
    batch.operation_count = 1;
    batch.operation_stride_bytes = sizeof(*op);
    batch.sequence = poll(comm_).enqueued_sequence + 1;
    return batch;
  }
  static bp_collective_args whole_args(const bp_collective_batch* batch) {
    bp_collective_args args{};
    args.struct_size = sizeof(args);
    args.batches = batch;
    args.batch_count = 1;
    args.batch_stride_bytes = sizeof(*batch);
    return args;
  }
  /// The operation is enqueued and computes where the cut struct has its required part.
  void expect_sum(const bp_collective_args* args, uint32_t bytes, uint32_t required) const {
    constexpr std::array<float, kSumCount> kBefore = {7, 7, 7};
    copy(BP_COPY_HOST_TO_DEVICE, {recv_, 0}, tests::host_mem(kBefore.data()));
    expect_status(collective().collective_enqueue(device(), args), bytes, required);
    EXPECT_EQ(stream().stream_sync(stream_, kPatienceNs), BP_OK) << bytes;
    if (bytes < required) return;
    std::array<float, kSumCount> found{};
    copy(BP_COPY_DEVICE_TO_HOST, tests::host_mem(found.data()), {recv_, 0});
    EXPECT_EQ(found, kSent) << bytes;
  }

  static constexpr std::array<float, kSumCount> kSent = {1, -2, 3.5F};
  bp_collective_caps caps_{};
  bp_stream* stream_ = nullptr;
  bp_comm* comm_ = nullptr;
  uint64_t send_ = 0;
  uint64_t recv_ = 0;
};

TEST_P(TruncatedGroup, Caps_OfEverySize_AreFilledToTheirEnd) {
  for_each_size<bp_collective_caps>([&](uint32_t bytes) {
    Truncated<bp_collective_caps> out({}, bytes);
    EXPECT_EQ(collective().collective_caps(device(), out.get()), BP_OK) << bytes;
    EXPECT_EQ(out.struct_size(), bytes);
    const bp_collective_caps found = out.whole();
    const size_t compared = bytes < 8 ? 0 : bytes - bytes % 8 - sizeof(found.struct_size);
    EXPECT_EQ(std::memcmp(&found.flags, &caps_.flags, compared), 0) << bytes;
  });
}

TEST_P(TruncatedGroup, UidSpace_OfEverySize_IsReadToItsEnd) {
  for_each_size<bp_uid_space>([&](uint32_t bytes) {
    std::vector<std::byte> id(caps_.uid_bytes);
    bp_uid_space whole{};
    whole.data = id.data();
    whole.bytes = id.size();
    Truncated<bp_uid_space> out(whole, bytes);
    const bp_status status = collective().uid_create(device(), out.get());
    expect_status(status, bytes, BP_UP_TO(bp_uid_space, bytes));
    EXPECT_EQ(out.struct_size(), bytes);
    const bool is_written = id != std::vector<std::byte>(caps_.uid_bytes);
    EXPECT_EQ(is_written, status == BP_OK) << bytes;
  });
}

TEST_P(TruncatedGroup, CommInit_ArgsOfEverySize_AreReadToTheirEnd) {
  for_each_size<bp_comm_args>([&](uint32_t bytes) {
    const std::vector<std::byte> id = new_id();
    Truncated<bp_comm_args> args(alone(id), bytes);
    bp_comm* comm = nullptr;
    const bp_status status = collective().comm_init(device(), args.get(), &comm);
    expect_status(status, bytes, BP_UP_TO(bp_comm_args, name));
    EXPECT_EQ(comm != nullptr, status == BP_OK) << bytes;
    if (comm != nullptr) end(comm);
  });
}

TEST_P(TruncatedGroup, CommState_OfEverySize_IsFilledToItsEnd) {
  comm_ = new_comm();
  const bp_collective_op op = whole_op();
  const bp_collective_batch batch = whole_batch(&op);
  const bp_collective_args args = whole_args(&batch);
  expect_sum(&args, sizeof(args), sizeof(args));
  const bp_comm_state full = poll(comm_);
  EXPECT_EQ(full.enqueued_sequence, 1u) << "a number that can be lost";
  for_each_size<bp_comm_state>([&](uint32_t bytes) {
    Truncated<bp_comm_state> out({}, bytes);
    EXPECT_EQ(collective().comm_poll(comm_, out.get()), BP_OK) << bytes;
    EXPECT_EQ(out.struct_size(), bytes);
    const bp_comm_state found = out.whole();
    const size_t compared = bytes < 8 ? 0 : bytes - bytes % 8 - sizeof(found.struct_size);
    EXPECT_EQ(std::memcmp(&found.flags, &full.flags, compared), 0) << bytes;
  });
}

TEST_P(TruncatedGroup, CommAbort_ArgsOfEverySize_AreReadToTheirEnd) {
  for_each_size<bp_comm_abort_args>([&](uint32_t bytes) {
    bp_comm* const comm = new_comm();
    bp_comm* const comms[] = {comm};
    bp_comm_abort_args whole{};
    whole.comms = comms;
    whole.comm_count = 1;
    Truncated<bp_comm_abort_args> args(whole, bytes);
    const uint32_t required = BP_UP_TO(bp_comm_abort_args, comm_count);
    expect_status(collective().comm_abort(device(), args.get()), bytes, required);
    if (bytes >= required) {
      EXPECT_EQ(poll(comm).state, BP_COMM_FAILED) << bytes;
    }
    end(comm);
  });
}

TEST_P(TruncatedGroup, Enqueue_OperationOfEverySize_ComputesOrIsRefused) {
  comm_ = new_comm();
  for_each_size<bp_collective_op>([&](uint32_t bytes) {
    Truncated<bp_collective_op> op(whole_op(), bytes);
    bp_collective_batch batch = whole_batch(op.get());
    batch.operation_stride_bytes = stride_of(bytes);
    const bp_collective_args args = whole_args(&batch);
    expect_sum(&args, bytes, BP_UP_TO(bp_collective_op, recv));
  });
}

TEST_P(TruncatedGroup, Enqueue_BatchOfEverySize_ComputesOrIsRefused) {
  comm_ = new_comm();
  const bp_collective_op op = whole_op();
  for_each_size<bp_collective_batch>([&](uint32_t bytes) {
    Truncated<bp_collective_batch> batch(whole_batch(&op), bytes);
    bp_collective_args args = whole_args(batch.get());
    args.batch_stride_bytes = stride_of(bytes);
    expect_sum(&args, bytes, BP_UP_TO(bp_collective_batch, op_seq));
  });
}

TEST_P(TruncatedGroup, Enqueue_ArgsOfEverySize_ComputeOrAreRefused) {
  comm_ = new_comm();
  const bp_collective_op op = whole_op();
  for_each_size<bp_collective_args>([&](uint32_t bytes) {
    const bp_collective_batch batch = whole_batch(&op);
    Truncated<bp_collective_args> args(whole_args(&batch), bytes);
    expect_sum(args.get(), bytes, BP_UP_TO(bp_collective_args, batch_stride_bytes));
  });
}

INSTANTIATE_TEST_SUITE_P(Plugins, TruncatedGroup, testing::ValuesIn(plugin_folders()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace bp::abi
