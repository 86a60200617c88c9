// SPDX-License-Identifier: Apache-2.0
//
// Groups of one rank and their operations. A group that has met a fault has failed for good, so
// each call makes its own: what follows a failure is another group, which has to work.
#include "tests/fault_injection/calls/support.hpp"

namespace bp::faults {
namespace {

void prepare_blocks(World& world) {
  prepare_two(world);
  world.inputs[2] = upload(world.device, kB);
}

void drop_group(World& world) {
  drop_tensors(world);
  bpa_ccl_work_release(std::exchange(world.work, nullptr));
  bpa_ccl_group_release(std::exchange(world.group, nullptr));
  bpa_ccl_store_release(std::exchange(world.store, nullptr));
}

bpa_status make_group(World& world) {
  bpa_status status = bpa_ccl_store_create_memory(&world.store);
  if (status != BP_OK) return status;
  bpa_ccl_group_args args{};
  args.struct_size = sizeof(args);
  args.store = world.store;
  args.rank_count = 1;
  status = bpa_ccl_group_create(world.device, &args, &world.group);
  if (status != BP_OK && world.group != nullptr) world.misuse = "a group is set beside an error";
  return status;
}

/// The work of the latest call is over, and let go.
bpa_status finish(World& world, bpa_status status) {
  if (status != BP_OK) {
    if (world.work != nullptr) world.misuse = "work is set beside an error";
    return status;
  }
  uint32_t done = 0;
  status = bpa_ccl_work_test(world.work, &done);
  if (status == BP_OK) status = bpa_ccl_work_wait(world.work, 0);
  bpa_ccl_error error{};
  error.struct_size = sizeof(error);
  if (bpa_ccl_work_get_error(world.work, &error) == BP_OK && error.code != BP_OK &&
      status == BP_OK) {
    world.misuse = "work that was waited for has failed";
  }
  bpa_ccl_work_release(std::exchange(world.work, nullptr));
  return status;
}

bpa_status act_ask(World& world) {
  bpa_status status = make_group(world);
  if (status != BP_OK) return status;
  bpa_ccl_group_info info{};
  info.struct_size = sizeof(info);
  status = bpa_ccl_group_get_info(world.group, &info);
  if (status == BP_OK && info.rank_count != 1) world.misuse = "the group has another size";
  bpa_ccl_error error{};
  error.struct_size = sizeof(error);
  if (status == BP_OK) status = bpa_ccl_group_get_error(world.group, &error);
  uint64_t bytes = 0;
  if (status == BP_OK) status = bpa_ccl_group_get_trace(world.group, nullptr, 0, &bytes);
  return status;
}

bpa_status act_abort(World& world) {
  bpa_status status = make_group(world);
  if (status == BP_OK) status = bpa_ccl_group_abort(world.group, "by the sweep");
  return status;
}

/// The group that is made from another takes its place.
bpa_status take_next(World& world, bpa_status status, bpa_ccl_group* next) {
  if (status != BP_OK) {
    if (next != nullptr) world.misuse = "a group is set beside an error";
    return status;
  }
  bpa_ccl_group_release(std::exchange(world.group, next));
  return bpa_ccl_barrier(world.group, nullptr, nullptr);
}

bpa_status act_rebuild(World& world) {
  const uint32_t members[] = {0};
  bpa_ccl_rebuild_args args{};
  args.struct_size = sizeof(args);
  args.epoch = 1;
  args.members = members;
  args.member_count = 1;
  bpa_ccl_group* next = nullptr;
  bpa_status status = make_group(world);
  if (status == BP_OK) status = bpa_ccl_group_abort(world.group, "by the sweep");
  if (status != BP_OK) return status;
  status = bpa_ccl_group_rebuild(world.group, &args, &next);
  return take_next(world, status, next);
}

bpa_status act_split(World& world) {
  bpa_ccl_split_args args{};
  args.struct_size = sizeof(args);
  bpa_ccl_group* next = nullptr;
  bpa_status status = make_group(world);
  if (status != BP_OK) return status;
  status = bpa_ccl_group_split(world.group, &args, &next);
  return take_next(world, status, next);
}

bpa_status act_all_reduce(World& world) {
  bpa_status status = make_group(world);
  if (status == BP_OK) {
    status = bpa_ccl_all_reduce(world.group, world.inputs[0], world.inputs[1], BPA_CCL_SUM, nullptr,
                                nullptr);
  }
  if (status != BP_OK) return status;
  return bpa_tensor_to_host(world.inputs[1], world.values.data(), kBytes);
}

/// As many as the inputs have.
constexpr uint64_t kCounts[] = {kBytes / sizeof(float)};

using Collective = bpa_status (*)(World& world);
constexpr Collective kCollectives[] = {
    [](World& w) {
      return bpa_ccl_all_gather(w.group, w.inputs[0], w.inputs[1], nullptr, &w.work);
    },
    [](World& w) {
      return bpa_ccl_reduce_scatter(w.group, w.inputs[0], w.inputs[1], BPA_CCL_SUM, nullptr,
                                    &w.work);
    },
    [](World& w) {
      return bpa_ccl_broadcast(w.group, w.inputs[0], w.inputs[1], 0, nullptr, &w.work);
    },
    [](World& w) {
      return bpa_ccl_reduce(w.group, w.inputs[0], w.inputs[1], BPA_CCL_SUM, 0, nullptr, &w.work);
    },
    [](World& w) { return bpa_ccl_gather(w.group, w.inputs[0], w.inputs[1], 0, nullptr, &w.work); },
    [](World& w) {
      return bpa_ccl_scatter(w.group, w.inputs[0], w.inputs[1], 0, nullptr, &w.work);
    },
    [](World& w) {
      return bpa_ccl_all_to_all(w.group, w.inputs[0], w.inputs[1], nullptr, &w.work);
    },
    [](World& w) { return bpa_ccl_barrier(w.group, nullptr, &w.work); },
};
constexpr Collective kCollectivesWithCounts[] = {
    [](World& w) {
      return bpa_ccl_all_gather_v(w.group, w.inputs[0], w.inputs[1], kCounts, nullptr, &w.work);
    },
    [](World& w) {
      return bpa_ccl_reduce_scatter_v(w.group, w.inputs[0], w.inputs[1], kCounts, BPA_CCL_SUM,
                                      nullptr, &w.work);
    },
    [](World& w) {
      return bpa_ccl_gather_v(w.group, w.inputs[0], w.inputs[1], kCounts, 0, nullptr, &w.work);
    },
    [](World& w) {
      return bpa_ccl_scatter_v(w.group, w.inputs[0], w.inputs[1], kCounts, 0, nullptr, &w.work);
    },
    [](World& w) {
      return bpa_ccl_all_to_all_v(w.group, w.inputs[0], kCounts, w.inputs[1], kCounts, nullptr,
                                  &w.work);
    },
};

bpa_status run_all(World& world, std::span<const Collective> collectives) {
  bpa_status status = make_group(world);
  for (const Collective collective : collectives) {
    if (status == BP_OK) status = finish(world, collective(world));
  }
  if (status != BP_OK) return status;
  return bpa_tensor_to_host(world.inputs[1], world.values.data(), kBytes);
}

bpa_status act_collectives(World& world) { return run_all(world, kCollectives); }
bpa_status act_with_counts(World& world) { return run_all(world, kCollectivesWithCounts); }

/// To itself: a send and a recv beside each other, then both in one call.
bpa_status act_exchange(World& world) {
  bpa_ccl_work* received = nullptr;
  bpa_status status = make_group(world);
  if (status == BP_OK) {
    status = bpa_ccl_recv(world.group, world.inputs[1], 0, nullptr, &received);
  }
  if (status == BP_OK) {
    bpa_ccl_options options{};
    options.struct_size = sizeof(options);
    options.stream = world.stream;
    status = finish(world, bpa_ccl_send(world.group, world.inputs[0], 0, &options, &world.work));
    // Its other end will not come.
    if (status != BP_OK) bpa_ccl_group_abort(world.group, "the send was refused");
  }
  if (status == BP_OK) status = bpa_ccl_work_order_before(received, world.stream);
  if (status == BP_OK) status = bpa_ccl_work_wait(received, 0);
  bpa_ccl_work_release(received);
  if (status != BP_OK) return status;
  bpa_ccl_call calls[2] = {};
  for (bpa_ccl_call& call : calls) call.struct_size = sizeof(call);
  calls[0].kind = BPA_CCL_SEND;
  calls[0].send = world.inputs[1];
  calls[1].kind = BPA_CCL_RECV;
  calls[1].recv = world.inputs[2];
  status =
      finish(world, bpa_ccl_batch(world.group, calls, 2, sizeof(calls[0]), nullptr, &world.work));
  if (status != BP_OK) return status;
  return bpa_tensor_to_host(world.inputs[2], world.values.data(), kBytes);
}

void prepare_exchange(World& world) {
  prepare_blocks(world);
  World::must(bpa_stream_create(world.device, &world.stream), "stream_create");
}

constexpr Call kCalls[] = {
    {"ccl_group_create", false, false, prepare_nothing, act_ask, check_nothing, drop_group},
    {"ccl_group_abort", false, false, prepare_nothing, act_abort, check_nothing, drop_group},
    {"ccl_group_rebuild", false, false, prepare_nothing, act_rebuild, check_nothing, drop_group,
     false, false, false, true},
    {"ccl_group_split", false, false, prepare_nothing, act_split, check_nothing, drop_group, false,
     false, false, true},
    {"ccl_all_reduce", false, false, prepare_blocks, act_all_reduce, check_input, drop_group, false,
     false, false, true},
    {"ccl collectives", false, false, prepare_blocks, act_collectives, check_input, drop_group,
     false, false, false, true},
    {"ccl collectives with counts", false, false, prepare_blocks, act_with_counts, check_input,
     drop_group, false, false, false, true},
    {"ccl_batch", false, false, prepare_exchange, act_exchange, check_input, drop_group, false,
     false, false, true},
};

}  // namespace

std::span<const Call> ccl_calls() { return kCalls; }

}  // namespace bp::faults
