// SPDX-License-Identifier: Apache-2.0
//
// Lets go of a Runtime, a session, tensors and a leased stream in every order, with work pending,
// on one thread, on a thread each, or on all threads at once; with and without an explicit close
// at every place in the order. The core is linked in: the C API has no streams.
//   teardown_scenario MODE DEVICE DEVICE_FOLDER HOST_FOLDER EVERY
// Only each EVERY-th order is taken.
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <cstdio>
#include <functional>
#include <numeric>
#include <thread>

#include "core/base/log.hpp"
#include "core/dispatch/call.hpp"
#include "core/execute/session.hpp"
#include "core/runtime/runtime.hpp"
#include "ops/register.hpp"

namespace bp {
namespace {

constexpr int kExitWanted = 7;
constexpr int64_t kSize = 1 << 12;

[[noreturn]] void fail(const std::string& words) {
  std::fprintf(stderr, "%s\n", words.c_str());
  std::fflush(nullptr);
  _exit(99);
}

template <class T>
T must(Result<T> result) {
  if (!result.ok()) fail(result.status().to_string());
  return std::move(result).value();
}

RuntimeArgs runtime_args(char** argv) {
  RuntimeArgs args;
  args.register_ops = register_ops;
  args.plugin_path = {argv[3]};
  args.install_directory = argv[4];
  args.options = {{"BACKPLANE_FALLBACK", "allow"}};
  return args;
}

Ref<Tensor> call_on(Runtime& runtime, std::string_view op, const std::vector<Ref<Tensor>>& inputs,
                    Stream* stream) {
  std::vector<Tensor*> pointers;
  for (const Ref<Tensor>& input : inputs) pointers.push_back(input.get());
  Ref<Tensor> output;
  const CallArgs args{.op = *runtime.registry().find(op),
                      .inputs = pointers,
                      .attributes = nullptr,
                      .stream = stream,
                      .device = nullptr};
  const Status status = call(runtime, args, {&output, 1});
  if (!status.ok()) fail(status.to_string());
  return output;
}

/// y = relu(x + x + ... + x): enough nodes to be under way for a while.
Ref<Session> make_session(Runtime& runtime, Device& device) {
  Graph graph(runtime.registry());
  const ValueId x = must(graph.add_input("x", {BP_DTYPE_F32, true, {kSize}}));
  ValueId y = x;
  for (int i = 0; i < 16; ++i) {
    const ValueId both[] = {y, x};
    y = must(graph.op("add", both));
  }
  const ValueId sum[] = {y};
  y = must(graph.op("relu", sum));
  if (const Status status = graph.set_outputs({y}, {"y"}); !status.ok()) fail(status.to_string());
  SessionArgs args;
  args.device = &device;
  return must(Session::create(runtime, std::move(graph), args));
}

/// A user's stream. The device owns it, so the lease keeps the Runtime.
class Lease {
 public:
  Lease(Ref<Runtime> runtime, Device& device)
      : runtime_(std::move(runtime)), device_(&device), stream_(must(device.acquire_stream())) {}
  Stream& stream() const { return *stream_; }
  void release() {
    device_->release_stream(stream_);
    runtime_ = nullptr;
  }

 private:
  Ref<Runtime> runtime_;
  Device* device_;
  Stream* stream_;
};

/// One set of objects, all with work in the queue.
struct World {
  explicit World(char** argv) : runtime(must(Runtime::create(runtime_args(argv)))) {
    Device& device = *must(runtime->find_device(argv[2]));
    const std::vector<float> ones(kSize, 1.0f);
    input = must(copy_from_host(device.default_stream(), BP_DTYPE_F32, {kSize}, ones.data(),
                                MemoryTag::kIo));
    session = make_session(*runtime, device);
    lease.emplace(runtime, device);
    const NamedTensor named[] = {{"x", input}};
    outputs = must(session->run(named));
    eager = input;
    for (int i = 0; i < 16; ++i) eager = call_on(*runtime, "add", {eager, input}, &lease->stream());
    mixed = call_on(*runtime, "add", {outputs[0], eager}, nullptr);
  }

  Ref<Runtime> runtime;
  Ref<Tensor> input;
  Ref<Session> session;
  std::optional<Lease> lease;
  std::vector<Ref<Tensor>> outputs;
  Ref<Tensor> eager;
  Ref<Tensor> mixed;
};

using Step = std::function<void(World&)>;
// close() comes last: modes without it take the others only. It needs no other owner to be alive.
const std::array<Step, 6> kSteps = {
    [](World& world) { world.runtime = nullptr; },
    [](World& world) { world.session = nullptr; },
    [](World& world) { world.lease->release(); },
    [](World& world) { world.outputs.clear(); },
    [](World& world) {
      world.eager = nullptr;
      world.input = nullptr;
      world.mixed = nullptr;
    },
    [](World& world) {
      if (world.runtime) world.runtime->close();
    },
};

size_t take_orders(char** argv, size_t step_count, size_t every,
                   const std::function<void(const Step&, World&)>& take) {
  std::array<size_t, kSteps.size()> order{};
  std::iota(order.begin(), order.end(), size_t{0});
  size_t index = 0;
  size_t taken = 0;
  do {
    if (index++ % every != 0) continue;
    World world(argv);
    for (size_t i = 0; i < step_count; ++i) take(kSteps[order[i]], world);
    ++taken;
  } while (std::next_permutation(order.begin(), order.begin() + step_count));
  return taken;
}

void on_this_thread(const Step& step, World& world) { step(world); }
void on_its_own_thread(const Step& step, World& world) {
  std::thread([&] { step(world); }).join();
}

size_t all_at_once(char** argv, size_t rounds) {
  for (size_t round = 0; round < rounds; ++round) {
    World world(argv);
    constexpr size_t kThreads = kSteps.size() - 1;  // no close: no other call may be in progress
    std::barrier start(kThreads);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        start.arrive_and_wait();
        kSteps[i](world);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  return rounds;
}

/// exit() on the thread that calls host functions for a stream, while work is behind it.
[[noreturn]] void exit_in_host_call(World* world) {
  Stream& stream = world->lease->stream();
  const DeviceTable& table = stream.device().table();
  const auto leave = [](void*, bp_status) { exit(kExitWanted); };
  if (table.stream_host_call(stream.handle(), leave, nullptr) != BP_OK) fail("host_call");
  for (;;) pause();
}

size_t run(const std::string& mode, char** argv, size_t every) {
  const size_t all = kSteps.size();
  if (mode == "orders") return take_orders(argv, all - 1, every, on_this_thread);
  if (mode == "orders_with_close") return take_orders(argv, all, every, on_this_thread);
  if (mode == "orders_on_threads") return take_orders(argv, all, every, on_its_own_thread);
  if (mode == "at_once") return all_at_once(argv, 120 / every);
  if (mode == "exit_in_host_call") exit_in_host_call(new World(argv));
  fail("no mode is called " + mode);
}

}  // namespace
}  // namespace bp

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fputs("usage: teardown_scenario MODE DEVICE DEVICE_FOLDER HOST_FOLDER EVERY\n", stderr);
    return 2;
  }
  int warnings = 0;
  bp::set_log_sink([&](uint32_t level, std::string_view line) {
    // The fake lists a kernel that cannot be; that is said once per load, and meant.
    const bool is_left_out = line.find("left out") != std::string_view::npos;
    if (level <= BP_LOG_WARNING && !is_left_out) ++warnings;
    std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
  });
  const size_t taken = bp::run(argv[1], argv, static_cast<size_t>(std::atoi(argv[5])));
  // Plugins warn about memory, streams and devices that were left behind.
  if (warnings != 0) bp::fail("there were warnings");
  std::printf("%zu orders\n", taken);
  return 0;
}
