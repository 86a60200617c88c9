// SPDX-License-Identifier: Apache-2.0
//
// What the core's launch path adds to a kernel: the same kernel called bare through the loaded
// library, which is the unit, and through bp::launch; and what it costs to select a kernel. These
// are inside the core, where no public function ends; eager_cost.cpp has the calls as users make
// them.
#include <span>
#include <vector>

#include "core/dispatch/dispatcher.hpp"
#include "core/dispatch/launch.hpp"
#include "tests/perf/core_fixture.hpp"
#include "tests/perf/thread_clock.hpp"

namespace bp {
namespace {

std::shared_ptr<PlannedKernel> plan_add(const Fixture& f) {
  const ArgType type{
      .dtype = BP_DTYPE_F32, .sizes = {1}, .strides = {1}, .offset_bytes = 0, .host_data = nullptr};
  const ArgType inputs[] = {type, type};
  const TensorType output{.dtype = BP_DTYPE_F32, .has_rank = true, .sizes = {1}};
  return must(Dispatcher::of(*f.device).plan_kernel(f.op("add"), inputs, {&output, 1}, nullptr));
}

void bare_kernel(benchmark::State& state) {
  const Fixture f;
  const auto kernel = plan_add(f);
  const Ref<Tensor> a = f.ones({1});
  const Ref<Tensor> b = f.ones({1});
  const bp_tensor tensors[] = {a->abi(), b->abi(), a->abi()};
  bp_launch_args args{};
  args.struct_size = sizeof(args);
  args.device = f.device->table().device;
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
  const auto kernel = plan_add(f);
  const Ref<Tensor> a = f.ones({1});
  const Ref<Tensor> b = f.ones({1});
  const bp_tensor tensors[] = {a->abi(), b->abi(), a->abi()};
  const LaunchRequest request{.kernel = *kernel,
                              .tensors = tensors,
                              .input_count = 2,
                              .output_count = 1,
                              .keep_alive = kernel};
  Stream& stream = f.device->default_stream();
  for (auto _ : state) benchmark::DoNotOptimize(launch(stream, request));
}
BENCHMARK(core_launch);

// One Runtime caches its selections, so each round takes a new one, whose making and end are not
// counted, and selects a kernel for each of a few operators: what one takes, on average.
// `warm_up`: another operator is selected before.
void select_anew(benchmark::State& state, bool warm_up, std::span<const char* const> names) {
  const ArgType input{.dtype = BP_DTYPE_F32,
                      .sizes = {2, 3},
                      .strides = {3, 1},
                      .offset_bytes = 0,
                      .host_data = nullptr};
  const TensorType output{.dtype = BP_DTYPE_F32, .has_rank = true, .sizes = {2, 3}};
  for (auto _ : state) {
    const Fixture fresh;
    Dispatcher& dispatcher = Dispatcher::of(*fresh.device);
    const auto plan = [&](OpId op) {
      return must(dispatcher.plan_kernel(op, {&input, 1}, {&output, 1}, nullptr));
    };
    if (warm_up) plan(fresh.op("relu"));
    std::vector<OpId> ops;
    for (const char* name : names) ops.push_back(fresh.op(name));
    const double start = perf::thread_seconds();
    for (const OpId op : ops) benchmark::DoNotOptimize(plan(op));
    state.SetIterationTime((perf::thread_seconds() - start) / static_cast<double>(ops.size()));
  }
}
constexpr const char* kUnary[] = {"exp", "sqrt", "reciprocal", "softmax"};
void cold_selection(benchmark::State& state) { select_anew(state, true, kUnary); }
void first_selection(benchmark::State& state) { select_anew(state, false, {kUnary, 1}); }
BENCHMARK(first_selection)->Iterations(20)->UseManualTime();
BENCHMARK(cold_selection)->Iterations(20)->UseManualTime();

}  // namespace
}  // namespace bp

BENCHMARK_MAIN();
