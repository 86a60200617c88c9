// SPDX-License-Identifier: Apache-2.0
//
// What a call through a plugin costs: the same kernel called bare through the loaded library,
// through the core's launch path, as an eager operator, and per node of a chain in a session.
// Ratios within one run are what counts; the bare call is the unit.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>

#include "core/dispatch/call.hpp"
#include "core/dispatch/dispatcher.hpp"
#include "core/dispatch/launch.hpp"
#include "core/execute/session.hpp"
#include "core/runtime/runtime.hpp"
#include "ops/onnx/import.hpp"
#include "ops/register.hpp"

namespace bp {
namespace {

template <class T>
T must(Result<T> result) {
  if (result.ok()) return std::move(*result);
  std::fprintf(stderr, "%s\n", result.status().to_string().c_str());
  std::exit(5);
}
void must(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  std::exit(5);
}

struct Fixture {
  Ref<Runtime> runtime;
  Device* device;
  OpId add;
  Ref<Tensor> a;
  Ref<Tensor> b;

  Fixture() {
    RuntimeArgs args;
    args.register_ops = register_ops;
    args.install_directory = BP_PLUGIN_DIR;
    runtime = must(Runtime::create(args));
    device = must(runtime->find_device("cpu:0"));
    add = *runtime->registry().find("add");
    const float one = 1.0f;
    a = must(Tensor::from_host(*device, BP_DTYPE_F32, {1}, &one, MemoryTag::kIo));
    b = must(Tensor::from_host(*device, BP_DTYPE_F32, {1}, &one, MemoryTag::kIo));
  }

  std::shared_ptr<PlannedKernel> kernel() const {
    const ArgType type{.dtype = BP_DTYPE_F32,
                       .sizes = {1},
                       .strides = {1},
                       .offset_bytes = 0,
                       .host_data = nullptr};
    const ArgType inputs[] = {type, type};
    const TensorType output{.dtype = BP_DTYPE_F32, .has_rank = true, .sizes = {1}};
    return must(Dispatcher::of(*device).plan_kernel(add, inputs, {&output, 1}, nullptr));
  }
};

void bare_kernel(benchmark::State& state) {
  const Fixture f;
  const auto kernel = f.kernel();
  const bp_tensor tensors[] = {f.a->abi(), f.b->abi(), f.a->abi()};
  bp_launch_args args{};
  args.struct_size = sizeof(args);
  args.device = f.device->slots().device;
  args.kernel = kernel->record().original;
  args.plan = kernel->plan();
  args.tensors = tensors;
  args.input_count = 2;
  args.output_count = 1;
  const auto launch_slot = kernel->record().kernel.launch;
  for (auto _ : state) benchmark::DoNotOptimize(launch_slot(&args));
}
BENCHMARK(bare_kernel);

void core_launch(benchmark::State& state) {
  const Fixture f;
  const auto kernel = f.kernel();
  const bp_tensor tensors[] = {f.a->abi(), f.b->abi(), f.a->abi()};
  const LaunchRequest request{.kernel = *kernel,
                              .tensors = tensors,
                              .input_count = 2,
                              .output_count = 1,
                              .state = nullptr,
                              .workspace = {},
                              .out_extents = {},
                              .keep_alive = kernel};
  Stream& stream = f.device->default_stream();
  for (auto _ : state) benchmark::DoNotOptimize(launch(stream, request));
}
BENCHMARK(core_launch);

void eager_add_one_element(benchmark::State& state) {
  const Fixture f;
  Tensor* inputs[] = {f.a.get(), f.b.get()};
  const CallArgs args{
      .op = f.add, .inputs = inputs, .attributes = nullptr, .stream = nullptr, .device = nullptr};
  for (auto _ : state) {
    Ref<Tensor> output;
    must(call(*f.runtime, args, {&output, 1}));
    benchmark::DoNotOptimize(output.get());
  }
}
BENCHMARK(eager_add_one_element);

void chain_1000_adds(benchmark::State& state) {
  const Fixture f;
  Graph graph(f.runtime->registry());
  const ValueId x = must(graph.add_input("x", {BP_DTYPE_F32, true, {1}}));
  ValueId last = x;
  for (int i = 0; i < 1000; ++i) {
    const ValueId inputs[] = {last, x};
    last = must(graph.op("add", inputs));
  }
  must(graph.set_outputs({last}, {"y"}));
  SessionArgs args;
  args.device = f.device;
  const Ref<Session> session = must(Session::create(*f.runtime, std::move(graph), args));
  const NamedTensor inputs[] = {{"x", f.a}};
  for (auto _ : state) benchmark::DoNotOptimize(must(session->run(inputs)));
  state.counters["per_node"] = benchmark::Counter(
      1000.0, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(chain_1000_adds);

void digits_batch_1(benchmark::State& state) {
  const Fixture f;
  SessionArgs args;
  args.device = f.device;
  Graph graph = must(load_onnx(BP_DIGITS_DIR "/digits.onnx", f.runtime->registry()));
  const Ref<Session> session = must(Session::create(*f.runtime, std::move(graph), args));
  const std::vector<float> pixels(64, 0.5f);
  const NamedTensor inputs[] = {
      {"image", must(Tensor::from_host(*f.device, BP_DTYPE_F32, {1, 1, 8, 8}, pixels.data(),
                                       MemoryTag::kIo))}};
  for (auto _ : state) benchmark::DoNotOptimize(must(session->run(inputs)));
}
BENCHMARK(digits_batch_1);

void allocator_hit(benchmark::State& state) {
  const Fixture f;
  Allocator& allocator = f.device->allocator();
  Allocator::Pool& pool = f.device->default_stream().pool();
  for (auto _ : state) {
    Block* block = must(allocator.allocate(1024, MemoryTag::kActivations, pool));
    benchmark::DoNotOptimize(block);
    allocator.free(block);
  }
}
BENCHMARK(allocator_hit);

void malloc_and_free(benchmark::State& state) {
  for (auto _ : state) {
    void* memory = std::malloc(1024);
    benchmark::DoNotOptimize(memory);
    std::free(memory);
  }
}
BENCHMARK(malloc_and_free);

}  // namespace
}  // namespace bp

BENCHMARK_MAIN();
