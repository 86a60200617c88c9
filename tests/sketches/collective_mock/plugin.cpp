// SPDX-License-Identifier: Apache-2.0
//
// The NPU with links between its devices: the slots of bp.sketch.collective over groups in the
// process and the NPU's queues.
#include <atomic>
#include <cstring>
#include <iterator>
#include <utility>

#include "tests/sketches/collective_mock/group.hpp"
#include "tests/sketches/npu_entry.hpp"

struct bp_comm final {
  bp_device* device;
  std::shared_ptr<bp::sketch::Group> group;
  uint32_t rank;
  std::chrono::nanoseconds timeout;
  /// Arrays that are enqueued or running.
  std::shared_ptr<std::atomic<int>> pending = std::make_shared<std::atomic<int>>(0);

  const bp::sdk::Host& host() const { return device->host(); }
};

namespace bp::sketch {
namespace {

using sdk::read_args;
using sdk::slot;

constexpr uint64_t kKinds = 0x1f;
constexpr uint64_t kDtypes = sdk::dtypes({BP_DTYPE_F32, BP_DTYPE_I64});
constexpr uint32_t kMostRanks = 64;
constexpr std::chrono::seconds kTimeout{30};
constexpr uint64_t kUidTag = 0x42505f554944;  // what an id begins with

struct Uid {
  uint64_t tag;
  uint64_t id;
};

bp_status collective_caps(bp_device* device, bp_collective_caps* out_caps) {
  return slot("collective_caps", device, {out_caps}, [&] {
    bp_collective_caps caps{};
    caps.kinds = kKinds;
    caps.dtypes = kDtypes;
    caps.rank_count_max = kMostRanks;
    caps.uid_bytes = sizeof(Uid);
    sdk::write_out(out_caps, caps);
  });
}

bp_status uid_create(bp_device* device, bp_uid_space* out_uid) {
  return slot("uid_create", device, {out_uid}, [&] {
    const bp_uid_space space = read_args(out_uid);
    if (space.data == nullptr || space.capacity_bytes < sizeof(Uid)) {
      sdk::refuse("uid_create: room for ", space.capacity_bytes, " bytes; expected ", sizeof(Uid));
    }
    const Uid uid{kUidTag, new_group_id()};
    std::memcpy(space.data, &uid, sizeof(uid));
  });
}

bp_status comm_init(bp_device* device, const bp_comm_args* args, bp_comm** out_comm) {
  return slot("comm_init", device, {args, out_comm}, [&] {
    const bp_comm_args wanted = read_args(args, 0);
    if (wanted.rank >= wanted.rank_count || wanted.rank_count > kMostRanks) {
      sdk::refuse("comm_init: rank ", wanted.rank, " of ", wanted.rank_count);
    }
    Uid uid{};
    if (wanted.uid == nullptr || wanted.uid_bytes != sizeof(uid)) sdk::refuse("comm_init: no id");
    std::memcpy(&uid, wanted.uid, sizeof(uid));
    auto group = uid.tag == kUidTag ? find_group(uid.id, wanted.rank_count) : nullptr;
    if (group == nullptr) sdk::refuse("comm_init: the id is none of uid_create's");
    if (group->rank_count() != wanted.rank_count) {
      sdk::refuse("comm_init: ", wanted.rank_count, " ranks; the group has ", group->rank_count());
    }
    const std::chrono::nanoseconds timeout =
        wanted.timeout_ns == 0 ? kTimeout : std::chrono::nanoseconds(wanted.timeout_ns);
    auto comm = std::make_unique<bp_comm>(bp_comm{device, group, wanted.rank, timeout});
    group->join(wanted.rank, Clock::now() + timeout);
    *out_comm = comm.release();
  });
}

bp_status comm_poll(bp_comm* comm, bp_comm_state* out_state) {
  return slot("comm_poll", comm, {out_state}, [&] {
    bool ready = false;
    const npu::StreamFailure failure = comm->group->poll(&ready);
    bp_comm_state state{};
    state.status = failure.status;
    state.state = failure.status != BP_OK ? BP_COMM_FAILED
                  : ready                 ? BP_COMM_READY
                                          : BP_COMM_JOINING;
    if (failure.status != BP_OK) comm->host().report(failure.status, failure.message);
    sdk::write_out(out_state, state);
  });
}

bp_status comm_abort(const bp_comm_abort_args* args) {
  if (args == nullptr) return BP_INVALID_ARGUMENT;
  const bp_comm_abort_args wanted = read_args(args);
  if (wanted.comm_count > 0 && wanted.comms == nullptr) return BP_INVALID_ARGUMENT;
  for (uint64_t i = 0; i < wanted.comm_count; ++i) {
    if (wanted.comms[i] == nullptr) return BP_INVALID_ARGUMENT;
    const std::string who = "rank " + std::to_string(wanted.comms[i]->rank);
    wanted.comms[i]->group->fail(BP_CANCELLED, "the group was aborted by " + who);
  }
  return BP_OK;
}

bp_status comm_destroy(bp_comm* comm) {
  return slot("comm_destroy", comm, {}, [&] {
    bool ready = false;
    const bool healthy = comm->group->poll(&ready).status == BP_OK;
    if (healthy && *comm->pending > 0) {
      sdk::fail(BP_BUSY, "comm_destroy: work is pending; wait for it or abort");
    }
    if (healthy) comm->group->fail(BP_CANCELLED, "a rank left the group");
    delete comm;
  });
}

std::byte* place(const bp_device* device, bp_mem mem, uint64_t bytes) {
  if (bytes == 0) return nullptr;
  return const_cast<bp_device*>(device)->memory().translate(mem, bytes);
}

Operation read_operation(const bp_comm& comm, const bp_collective& what) {
  if (what.kind > BP_COLLECTIVE_RECV || (kDtypes & BP_DTYPE_BIT(what.dtype % 64)) == 0 ||
      what.reduction > BP_REDUCTION_MAX) {
    sdk::fail(BP_UNSUPPORTED, "collective_enqueue: kind ", what.kind, ", dtype ", what.dtype);
  }
  const uint32_t ranks = comm.group->rank_count();
  if (what.peer >= ranks || what.count > UINT64_MAX / 8 / ranks) {
    sdk::refuse("collective_enqueue: peer ", what.peer, " of ", ranks, ", count ", what.count);
  }
  const uint64_t bytes = what.count * sdk::dtype_bytes(what.dtype);
  const bool is_root = what.kind != BP_COLLECTIVE_BROADCAST || what.peer == comm.rank;
  const bool sends = what.kind != BP_COLLECTIVE_RECV && is_root;
  const bool receives = what.kind != BP_COLLECTIVE_SEND;
  const uint64_t recv_bytes = what.kind == BP_COLLECTIVE_ALL_GATHER ? bytes * ranks : bytes;
  return {what, place(comm.device, what.send, sends ? bytes : 0),
          place(comm.device, what.recv, receives ? recv_bytes : 0)};
}

/// An array, until it has run or is dropped with its stream.
class Array {
 public:
  Array(const bp_comm& comm, uint64_t sequence, std::vector<Operation> operations)
      : group_(comm.group),
        pending_(comm.pending),
        rank_(comm.rank),
        timeout_(comm.timeout),
        sequence_(sequence),
        operations_(std::move(operations)) {
    ++*pending_;
  }
  ~Array() { end(); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  void run(const std::stop_token& stop) {
    struct Ended {
      Array& array;
      ~Ended() { array.end(); }
    } const ended{*this};
    group_->meet(rank_, {sequence_, &operations_}, Clock::now() + timeout_, stop);
  }

 private:
  void end() {
    if (!ended_.exchange(true)) --*pending_;
  }

  const std::shared_ptr<Group> group_;
  const std::shared_ptr<std::atomic<int>> pending_;
  const uint32_t rank_;
  const std::chrono::nanoseconds timeout_;
  const uint64_t sequence_;
  const std::vector<Operation> operations_;
  std::atomic<bool> ended_ = false;
};

bp_status collective_enqueue(const bp_enqueue_args* args) {
  if (args == nullptr || !BP_SDK_HAS(args, op_seq)) return BP_INVALID_ARGUMENT;
  const bp_enqueue_args wanted = read_args(args);
  return slot("collective_enqueue", wanted.comm, {wanted.stream}, [&] {
    bp_comm& comm = *wanted.comm;
    bool ready = false;
    const npu::StreamFailure failure = comm.group->poll(&ready);
    if (failure.status != BP_OK) sdk::fail(failure.status, failure.message);
    if (!ready) sdk::fail(BP_PENDING, "collective_enqueue: the group is not complete yet");
    if (&wanted.stream->device() != comm.device) {
      sdk::refuse("collective_enqueue: the stream is of another device");
    }
    if (wanted.operation_count > 0 && wanted.operations == nullptr) sdk::refuse("no operations");
    std::vector<Operation> operations;
    for (uint32_t i = 0; i < wanted.operation_count; ++i) {
      const auto* const first = reinterpret_cast<const std::byte*>(wanted.operations);
      const auto* const row =
          reinterpret_cast<const bp_collective*>(first + size_t{i} * wanted.stride_bytes);
      operations.push_back(read_operation(comm, read_args(row, 0)));
    }
    auto array = std::make_shared<Array>(comm, wanted.sequence, std::move(operations));
    const auto work = [array, op_seq = wanted.op_seq](const std::stop_token& stop) {
      try {
        array->run(stop);
      } catch (npu::StreamFailure& lost) {
        lost.op_seq = op_seq;
        throw;
      }
    };
    wanted.stream->push({.work = work, .op_seq = wanted.op_seq});
  });
}

constexpr bp_collective_api kTable = {.struct_size = sizeof(bp_collective_api),
                                      .flags = 0,
                                      .collective_caps = collective_caps,
                                      .uid_create = uid_create,
                                      .comm_init = comm_init,
                                      .comm_poll = comm_poll,
                                      .comm_abort = comm_abort,
                                      .comm_destroy = comm_destroy,
                                      .collective_enqueue = collective_enqueue};

constexpr bp_extension kExtension = {.struct_size = sizeof(bp_extension),
                                     .flags = 0,
                                     .name = sdk::str("bp.sketch.collective"),
                                     .version = BP_SKETCH_COLLECTIVE,
                                     .reserved = 0,
                                     .table = &kTable};
constexpr const bp_extension* kExtensions[] = {&kExtension,
                                               &sdk::TestInjectSlots<bp_instance>::kExtension};

}  // namespace
}  // namespace bp::sketch

int32_t bp_plugin_entry(uint32_t core_abi, bp_plugin* out_plugin) {
  return bp::sketch::mock_entry(core_abi, out_plugin, bp::sketch::kExtensions, [](bp_plugin*) {});
}
