// SPDX-License-Identifier: Apache-2.0
//
// The NPUs of a user's processes are linked: the slots of the collective table over meetings and
// the NPU's queues; collective_enqueue is in enqueue.cpp.
#include "collective/communicator.hpp"

#include <cstring>

#include "collective/enqueue.hpp"

namespace bp::npu {

namespace {

bp_status collective_caps(bp_device* device, bp_collective_caps* out_caps) {
  return slot("collective_caps", device, {out_caps}, [&] {
    const auto& options = device->options();
    if (!options.concurrent || (options.features & BP_FEATURE_ASYNC_BIT) == 0) {
      fail(BP_UNSUPPORTED, "an option of the device has switched off what collectives need");
    }
    static const std::string kDomain = link_domain(kLayoutVersion);
    const auto rows = collective_rows(options.collective_averages);
    const bp_collective_caps caps = {
        .struct_size = sizeof(bp_collective_caps),
        .flags = BP_CAPS_SHARED_DEVICE_BIT | BP_CAPS_NAN_BIT |
                 (options.communicators_at_once ? BP_CAPS_CONCURRENT_BIT : 0),
        .domain = kDomain.data(),
        .domain_bytes = kDomain.size(),
        .uid_bytes = sizeof(GroupId),
        .uid_count_max = options.collective_ids,
        .rank_count_max = kMostRanks,
        .rows = rows.data(),
        .row_count = static_cast<uint32_t>(rows.size()),
        .row_stride_bytes = sizeof(bp_collective_row),
    };
    sdk::write_out(out_caps, caps);
  });
}

bp_status uid_create(bp_device* device, bp_uid_space* out_uid) {
  return slot("uid_create", device, {out_uid}, [&] {
    const bp_uid_space space = read_args(out_uid);
    if (space.data == nullptr || space.bytes != sizeof(GroupId)) {
      refuse("uid_create: room for ", space.bytes, " bytes, expected ", sizeof(GroupId));
    }
    device->driver_call();
    const GroupId id = new_group_id();
    std::memcpy(space.data, &id, sizeof(id));
  });
}

/// The first of them: all ranks have the same ones.
GroupId read_id(const bp_comm_args& args, uint32_t most) {
  GroupId id{};
  const bool has_ids = args.uids != nullptr && args.uid_count > 0 && args.uid_count <= most;
  if (!has_ids || args.uid_bytes != sizeof(id)) {
    refuse("comm_init: ", args.uid_count, " ids of ", args.uid_bytes, " bytes, expected 1 to ",
           most, " of ", sizeof(id));
  }
  std::memcpy(&id, args.uids, sizeof(id));
  return id;
}

bp_status comm_init(bp_device* device, const bp_comm_args* args, bp_comm** out_comm) {
  return slot("comm_init", device, {args, out_comm}, [&] {
    const bp_comm_args wanted = read_args(args, 0);
    if (wanted.rank >= wanted.rank_count || wanted.rank_count > kMostRanks) {
      refuse("comm_init: rank ", wanted.rank, " of ", wanted.rank_count, "; at most ", kMostRanks);
    }
    device->driver_call();
    const RankPlace place{wanted.rank, wanted.rank_count};
    const auto seat =
        std::make_shared<Seat>(read_id(wanted, device->options().collective_ids), place);
    auto comm = std::make_unique<bp_comm>(*device, seat);
    seat->come(!device->lies_ready());
    *out_comm = comm.release();
  });
}

bp_status comm_poll(bp_comm* comm, bp_comm_state* out_state) {
  return slot("comm_poll", comm, {out_state}, [&] {
    const RankState now = comm->state();
    const bool has_failed = now.failure.status != BP_OK;
    const uint32_t healthy = now.is_ready ? BP_COMM_READY : BP_COMM_JOINING;
    if (has_failed) comm->host().report(now.failure.status, now.failure.message);
    const bp_comm_state state = {
        .struct_size = sizeof(bp_comm_state),
        .flags = 0,
        .state = has_failed ? BP_COMM_FAILED : healthy,
        .status = now.failure.status,
        .enqueued_sequence =
            now.withheld_number != 0 ? now.withheld_number - 1 : comm->enqueued_sequence(),
        .culprit = now.culprit,
        .reserved = 0,
    };
    sdk::write_out(out_state, state);
  });
}

bp_status comm_abort(bp_device* device, const bp_comm_abort_args* args) {
  return slot("comm_abort", device, {args}, [&] {
    const bp_comm_abort_args wanted = read_args(args, 0);
    if (wanted.comm_count > 0 && wanted.comms == nullptr) refuse("comm_abort: comms is NULL");
    const std::span comms(wanted.comms, wanted.comm_count);
    for (const bp_comm* const comm : comms) {
      if (comm == nullptr) refuse("comm_abort: a communicator is NULL");
    }
    for (const bp_comm* const comm : comms) comm->seat().abort();
  });
}

bp_status comm_destroy(bp_comm* comm) {
  return slot("comm_destroy", comm, {}, [&] {
    const bool is_healthy = comm->state().failure.status == BP_OK;
    if (is_healthy && *comm->pending_count() > 0) {
      fail(BP_BUSY, "comm_destroy: operations are pending; wait for them or abort");
    }
    comm->seat().leave(BP_CANCELLED, "the communicator has ended");
    delete comm;
  });
}

bp_status collective_enqueue(bp_device* device, const bp_collective_args* args) {
  return slot("collective_enqueue", device, {args}, [&] { enqueue(*device, read_args(args, 0)); });
}

}  // namespace

const bp_collective_api kCollectiveApi = {
    .struct_size = sizeof(bp_collective_api),
    .flags = 0,
    .collective_caps = collective_caps,
    .uid_create = uid_create,
    .comm_init = comm_init,
    .comm_poll = comm_poll,
    .comm_abort = comm_abort,
    .comm_destroy = comm_destroy,
    .collective_enqueue = collective_enqueue,
};

}  // namespace bp::npu
