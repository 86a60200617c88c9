// SPDX-License-Identifier: Apache-2.0
//
// The collective table of the hostile fake, for groups of one rank: what it sends comes back.
// fake_plugin.cpp includes it behind its bands. Nothing here is right for more ranks.
#ifndef BACKPLANE_TESTS_FAKES_FAKE_COLLECTIVES_HPP
#define BACKPLANE_TESTS_FAKES_FAKE_COLLECTIVES_HPP

struct bp_comm {
  bp_device* device = nullptr;
  std::atomic<bp_status> failure{BP_OK};
  uint64_t enqueued_sequence = 0;
};

namespace {

using FakeId = uint64_t;

constexpr bp_collective_row fake_row(uint32_t kind, uint64_t reductions) {
  return {sizeof(bp_collective_row), 0, kind, 0, reductions, BP_DTYPE_BIT(BP_DTYPE_F32)};
}
constexpr bp_collective_row kFakeRows[] = {
    fake_row(BP_COLLECTIVE_ALL_REDUCE, BP_REDUCTION_BIT(BP_REDUCTION_SUM)),
    fake_row(BP_COLLECTIVE_ALL_GATHER, 0),
    fake_row(BP_COLLECTIVE_REDUCE_SCATTER, BP_REDUCTION_BIT(BP_REDUCTION_SUM)),
    fake_row(BP_COLLECTIVE_BROADCAST, 0),
    fake_row(BP_COLLECTIVE_SEND, 0),
    fake_row(BP_COLLECTIVE_RECV, 0)};

bp_status collective_caps(bp_device* device, bp_collective_caps* out_caps) {
  if (!device || !out_caps) return BP_INVALID_ARGUMENT;
  static constexpr std::string_view kDomain = "fake";
  const bp_collective_caps caps = {sizeof(caps),
                                   0,
                                   kDomain.data(),
                                   kDomain.size(),
                                   sizeof(FakeId),
                                   1,
                                   1,
                                   kFakeRows,
                                   std::size(kFakeRows),
                                   sizeof(bp_collective_row)};
  bp::sdk::write_out(out_caps, caps);
  return BP_OK;
}

bp_status uid_create(bp_device* device, bp_uid_space* out_uid) {
  if (!device || !out_uid) return BP_INVALID_ARGUMENT;
  static std::atomic<FakeId> last{0};
  const bp_uid_space space = bp::sdk::read_args(out_uid);
  if (space.data == nullptr || space.bytes != sizeof(FakeId)) return BP_INVALID_ARGUMENT;
  const FakeId id = ++last;
  std::memcpy(space.data, &id, sizeof(id));
  return BP_OK;
}

bp_status comm_init(bp_device* device, const bp_comm_args* their_args, bp_comm** out_comm) {
  if (!device || !their_args || !out_comm) return BP_INVALID_ARGUMENT;
  return driver_call(device, [&] {
    const bp_comm_args args = bp::sdk::read_args(their_args, 0);
    if (args.uids == nullptr || args.rank_count != 1 || args.rank != 0) {
      throw Failure{BP_INVALID_ARGUMENT, "a group of the fake has one rank"};
    }
    auto comm = std::make_unique<bp_comm>();
    comm->device = device;
    *out_comm = comm.release();
  });
}

bp_status comm_poll(bp_comm* comm, bp_comm_state* out_state) {
  if (!comm || !out_state) return BP_INVALID_ARGUMENT;
  const bp_status failure = comm->failure;
  bp_comm_state state{};
  state.state = failure == BP_OK ? BP_COMM_READY : BP_COMM_FAILED;
  state.status = failure;
  state.enqueued_sequence = comm->enqueued_sequence;
  bp::sdk::write_out(out_state, state);
  return BP_OK;
}

bp_status comm_abort(bp_device* device, const bp_comm_abort_args* their_args) {
  if (!device || !their_args) return BP_INVALID_ARGUMENT;
  return bp::sdk::guard(device->instance->host, [&]() -> bp_status {
    const bp_comm_abort_args args = bp::sdk::read_args(their_args, 0);
    for (uint64_t i = 0; i < args.comm_count; ++i) args.comms[i]->failure = BP_CANCELLED;
    return BP_OK;
  });
}

bp_status comm_destroy(bp_comm* comm) {
  if (comm == nullptr) return BP_INVALID_ARGUMENT;
  delete comm;
  return BP_OK;
}

/// What this rank receives is what it sends.
void enqueue_operation(const bp_collective_batch& batch, const bp_collective_op& op) {
  if (op.dtype != BP_DTYPE_F32) throw Failure{BP_UNSUPPORTED, "collectives of f32 only"};
  bp_device* const device = batch.comm->device;
  const auto copy = [device, op](StreamState* state) {
    const uint64_t bytes = op.count * sizeof(float);
    if (state->failure != BP_OK || bytes == 0) return true;
    std::memmove(device_end(device, op.recv, bytes), device_end(device, op.send, bytes), bytes);
    return true;
  };
  enqueue(batch.stream, copy, batch.op_seq);
}

template <class Row>
Row row_at(const Row* rows, uint32_t index, uint32_t stride_bytes) {
  const auto* const at = reinterpret_cast<const std::byte*>(rows) + size_t{index} * stride_bytes;
  return bp::sdk::read_args(reinterpret_cast<const Row*>(at), 0);
}

bp_status collective_enqueue(bp_device* device, const bp_collective_args* their_args) {
  if (!device || !their_args) return BP_INVALID_ARGUMENT;
  return driver_call(device, [&] {
    const bp_collective_args args = bp::sdk::read_args(their_args, 0);
    for (uint32_t i = 0; i < args.batch_count; ++i) {
      const bp_collective_batch batch = row_at(args.batches, i, args.batch_stride_bytes);
      if (batch.comm->failure != BP_OK) throw Failure{batch.comm->failure, "the group has failed"};
      for (uint32_t j = 0; j < batch.operation_count; ++j) {
        enqueue_operation(batch, row_at(batch.operations, j, batch.operation_stride_bytes));
      }
      batch.comm->enqueued_sequence = batch.sequence + batch.operation_count - 1;
    }
  });
}

constexpr bp_collective_api kCollective = {sizeof(bp_collective_api),    0,
                                           FAKE_SLOT(collective_caps),   FAKE_SLOT(uid_create),
                                           FAKE_SLOT(comm_init),         FAKE_SLOT(comm_poll),
                                           FAKE_SLOT(comm_abort),        FAKE_SLOT(comm_destroy),
                                           FAKE_SLOT(collective_enqueue)};

}  // namespace

#endif
