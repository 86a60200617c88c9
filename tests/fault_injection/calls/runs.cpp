// SPDX-License-Identifier: Apache-2.0
//
// Runs with options, runs on a worker, tokens.
#include <chrono>
#include <cstring>

#include "tests/fault_injection/calls/support.hpp"

namespace bp::faults {
namespace {

constexpr uint64_t kTimeoutNs = 30'000'000'000;

/// An output to be bound, a token and a stream beside the session.
void prepare_bound(World& world) {
  prepare_warm_session(world);
  World::must(bpa_tensor_create(world.device, BP_DTYPE_F32, kSizes, 2, &world.inputs[1]),
              "tensor_create");
  World::must(bpa_cancel_create(&world.cancel), "cancel_create");
  World::must(bpa_stream_create(world.device, &world.stream), "stream_create");
}

bpa_run_args run_args(const World& world) {
  bpa_run_args args{};
  args.struct_size = sizeof(args);
  args.input_names = kInputNames;
  args.inputs = world.inputs.data();
  args.input_count = 1;
  args.timeout_ns = kTimeoutNs;
  return args;
}
bpa_status act_run_with(World& world) {
  bpa_run_args args = run_args(world);
  args.bound_outputs = &world.inputs[1];
  args.bound_output_count = 1;
  args.cancel = world.cancel;
  args.stream = world.stream;
  return read_back(world, bpa_session_run_with(world.session, &args, world.outputs.data(), 1));
}

// --- asynchronous: the end comes through the callback, once, unless the call itself failed ---

void take_end(void* user, bpa_status status, const char* message, bpa_tensor** outputs, uint64_t) {
  auto& world = *static_cast<World*>(user);
  const std::lock_guard lock(world.async.mutex);
  ++world.async.calls;
  world.async.status = status;
  std::strncpy(world.words.data(), message, world.words.size() - 1);
  world.outputs[0] = outputs[0];
  world.async.ended.notify_one();
}

bpa_status act_run_async(World& world) {
  world.async.calls = 0;
  world.words.fill(0);
  const bpa_run_args args = run_args(world);
  const bpa_status status = bpa_session_run_async(world.session, &args, take_end, &world);
  std::unique_lock lock(world.async.mutex);
  if (status != BP_OK) {
    if (world.async.calls != 0) world.misuse = "a callback beside an error";
    return status;
  }
  const bool came = world.async.ended.wait_for(lock, std::chrono::nanoseconds(2 * kTimeoutNs),
                                               [&] { return world.async.calls > 0; });
  if (!came) world.misuse = "the callback was not called";
  return read_back(world, came ? world.async.status : BP_TIMEOUT);
}
const char* check_async(World& world) {
  return world.async.calls == 1 ? check_run(world) : "the callback was called again";
}

bpa_status act_cancel(World& world) {
  bpa_status status = bpa_cancel_create(&world.cancel);
  if (status == BP_OK) status = bpa_cancel_request(world.cancel);
  return status == BP_OK ? bpa_cancel_reset(world.cancel) : status;
}
void drop_cancel(World& world) { bpa_cancel_release(std::exchange(world.cancel, nullptr)); }

constexpr Call kCalls[] = {
    {"session_run_with first", true, false, prepare_bound, act_run_with, check_run, drop_tensors},
    {"session_run_with warm", false, false, prepare_bound, act_run_with, check_run, drop_tensors},
    {"session_run_async first", true, false, prepare_warm_session, act_run_async, check_async,
     drop_tensors},
    {"session_run_async warm", false, false, prepare_warm_session, act_run_async, check_async,
     drop_tensors},
    {"cancel_create", false, false, prepare_nothing, act_cancel, check_nothing, drop_cancel, false,
     true},
};

}  // namespace

std::span<const Call> run_calls() { return kCalls; }

}  // namespace bp::faults
