// SPDX-License-Identifier: Apache-2.0
//
// A device that the core has abandoned gets no call any more, and the process ends without waiting
// for it. So nothing here is freed, destroyed, closed or shut down: that the child ends, and ends
// well, is what its parent looks at.
#include <condition_variable>
#include <mutex>

#include "sdk/conform/abi.hpp"
#include "sdk/conform/case.hpp"

namespace bp::conform {
namespace {

void exit_while_open(AbiContext& context) {
  bp_device* const device = context.device();
  expect_working(context, device, "of a device that is never closed");
  const bp_alloc_args args{.struct_size = sizeof(bp_alloc_args),
                           .flags = 0,
                           .bytes = 4096,
                           .alignment_bytes = 0,
                           .usage = BP_USAGE_ACTIVATIONS,
                           .reserved = 0};
  uint64_t handle = 0;
  context.expect_ok("mem_alloc", context.memory().mem_alloc(device, &args, &handle));
  context.leave();
}

/// What a host call waits for that never comes.
struct Hold {
  std::mutex mutex;
  std::condition_variable changed;
  bool reached = false;
};

void hold_for_ever(void* user, bp_status) {
  auto* const hold = static_cast<Hold*>(user);
  std::unique_lock lock(hold->mutex);
  hold->reached = true;
  hold->changed.notify_all();
  for (;;) hold->changed.wait(lock);
}

void exit_with_work_pending(AbiContext& context) {
  constexpr auto kPatience = std::chrono::seconds(5);
  const bp_stream_args args{.struct_size = sizeof(bp_stream_args), .flags = 0};
  bp_stream* stream = nullptr;
  context.require_ok("stream_create",
                     context.stream().stream_create(context.device(), &args, &stream));
  auto* const hold = new Hold;  // for ever, as the thread that waits on it
  context.require_ok("stream_host_call",
                     context.stream().stream_host_call(stream, hold_for_ever, hold));
  context.leave();
  std::unique_lock lock(hold->mutex);
  context.expect(hold->changed.wait_for(lock, kPatience, [hold] { return hold->reached; }),
                 "the host call to begin");
}

}  // namespace

void add_abandon_cases(CaseList* list) {
  list->add({.id = "L0.abandon.exit_while_open",
             .proves = "a process may end with instance, device and memory as they are",
             .abi = exit_while_open});
  list->add({.id = "L0.abandon.exit_with_work_pending",
             .proves = "a process may end while a stream has work that never ends",
             .bands = BP_FEATURE_ASYNC_BIT,
             .abi = exit_with_work_pending});
}

}  // namespace bp::conform
