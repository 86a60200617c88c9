// SPDX-License-Identifier: Apache-2.0
//
// Streams of the caller, and what joins a vendor's own work in.
#include "backplane/ops.h"
#include "tests/fault_injection/calls/support.hpp"

namespace bp::faults {
namespace {

void prepare_stream(World& world) {
  prepare_two(world);
  World::must(bpa_stream_create(world.device, &world.stream), "stream_create");
}
/// With work on it that nobody has waited for.
void prepare_busy_stream(World& world) {
  prepare_stream(world);
  World::must(bpa_op_call_on(world.stream, BP_OP_ADD, world.inputs.data(), 2, nullptr, 0,
                             world.outputs.data(), 1),
              "op_call_on");
}
void drop_other_stream(World& world) {
  bpa_stream_release(std::exchange(world.other_stream, nullptr));
}

bpa_status act_create(World& world) { return bpa_stream_create(world.device, &world.other_stream); }
bpa_status act_get_default(World& world) {
  return bpa_stream_get_default(world.device, &world.other_stream);
}
bpa_status act_sync(World& world) { return bpa_stream_sync(world.stream); }
bpa_status act_query(World& world) { return bpa_stream_query(world.stream); }
bpa_status act_reset(World& world) { return bpa_stream_reset(world.stream); }
bpa_status act_release(World& world) {
  bpa_stream_release(std::exchange(world.stream, nullptr));
  return BP_OK;
}

/// The queue behind a stream, as a stream of its own.
bpa_status act_wrap(World& world) {
  const char* kind = nullptr;
  uint64_t queue = 0;
  const bpa_status status = bpa_stream_native_handle(world.stream, &kind, &queue);
  if (status != BP_OK) return status;
  return bpa_stream_wrap(world.device, kind, queue, &world.other_stream);
}

/// Work of the caller's would stand between the two calls for each tensor. What it was to write is
/// lost where the stream fails, and may be written again.
bpa_status act_acquire(World& world) {
  constexpr uint32_t kAccesses[] = {BPA_ACCESS_READ_BIT, BPA_ACCESS_WRITE_BIT};
  bpa_status status = BP_OK;
  for (size_t i = 0; i < 2 && status == BP_OK; ++i) {
    status = bpa_stream_acquire_tensor(world.stream, world.inputs[i], kAccesses[i]);
  }
  for (size_t i = 0; i < 2 && status == BP_OK; ++i) {
    status = bpa_stream_release_tensor(world.stream, world.inputs[i], kAccesses[i]);
  }
  if (status == BP_OK) status = bpa_stream_sync(world.stream);
  if (status != BP_OK) return status;
  return bpa_tensor_to_host(world.inputs[0], world.values.data(), kBytes);
}

constexpr Call kCalls[] = {
    {"stream_create first", true, false, prepare_nothing, act_create, check_nothing,
     drop_other_stream},
    {"stream_create warm", false, false, prepare_nothing, act_create, check_nothing,
     drop_other_stream},
    {"stream_get_default", false, false, prepare_nothing, act_get_default, check_nothing,
     drop_other_stream},
    {"stream_sync", true, false, prepare_busy_stream, act_sync, check_nothing, drop_tensors},
    {"stream_query", false, false, prepare_stream, act_query, check_nothing, drop_tensors},
    {"stream_reset", false, false, prepare_stream, act_reset, check_nothing, drop_tensors},
    {"stream_reset busy", true, false, prepare_busy_stream, act_reset, check_nothing, drop_tensors},
    {"stream_release", true, false, prepare_busy_stream, act_release, check_nothing, drop_tensors,
     false, true},
    {"stream_acquire_tensor", false, false, prepare_stream, act_acquire, check_input, drop_tensors},
    {"stream_wrap", false, false, prepare_stream, act_wrap, check_nothing, drop_other_stream, true},
};

}  // namespace

std::span<const Call> stream_calls() { return kCalls; }

}  // namespace bp::faults
