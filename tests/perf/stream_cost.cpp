// SPDX-License-Identifier: Apache-2.0
//
// What ordering costs on each device: a hop of one small operator to another stream and back, and
// the order of an application's own work on two streams (bpa_stream_release_tensor on one, then
// bpa_stream_acquire_tensor on the other: one event and one wait), native and emulated. Figures to
// read, without a target.
#include "tests/perf/public_fixture.hpp"

namespace perf {
namespace {

void stream_hop(benchmark::State& state, const char* device, const Options& options) {
  const Fixture f(device, options);
  const bp::Stream first = bp::Stream::create(f.device);
  const bp::Stream second = bp::Stream::create(f.device);
  const bp::Tensor x = f.ones({16});
  const auto hop = [&] {
    const bp::Tensor there = bp::relu(x, first);
    const bp::Tensor back = bp::relu(there, second);
    second.sync();
  };
  hop();  // compiles, where the device does
  for (auto _ : state) hop();
}

void own_work_order(benchmark::State& state, const char* device, const Options& options) {
  const Fixture f(device, options);
  const bp::Stream first = bp::Stream::create(f.device);
  const bp::Stream second = bp::Stream::create(f.device);
  const bp::Tensor x = f.ones({16});
  for (auto _ : state) {
    first.acquire(x, BPA_ACCESS_WRITE_BIT);
    first.release(x, BPA_ACCESS_WRITE_BIT);
    second.acquire(x, BPA_ACCESS_READ_BIT);
    second.release(x, BPA_ACCESS_READ_BIT);
  }
  first.sync();
  second.sync();
}

const Options kEmulated{{"npu.async", "false"}};

void hop_cpu_emulated(benchmark::State& state) { stream_hop(state, "cpu:0", {}); }
void hop_npu_native(benchmark::State& state) { stream_hop(state, "npu:0", {}); }
void hop_npu_emulated(benchmark::State& state) { stream_hop(state, "npu:0", kEmulated); }
void hop_xpu_native(benchmark::State& state) { stream_hop(state, "xpu:0", {}); }
void order_cpu_emulated(benchmark::State& state) { own_work_order(state, "cpu:0", {}); }
void order_npu_native(benchmark::State& state) { own_work_order(state, "npu:0", {}); }
void order_npu_emulated(benchmark::State& state) { own_work_order(state, "npu:0", kEmulated); }
void order_xpu_native(benchmark::State& state) { own_work_order(state, "xpu:0", {}); }
BENCHMARK(hop_cpu_emulated)->UseRealTime();
BENCHMARK(hop_npu_native)->UseRealTime();
BENCHMARK(hop_npu_emulated)->UseRealTime();
BENCHMARK(hop_xpu_native)->UseRealTime();
BENCHMARK(order_cpu_emulated)->UseRealTime()->Iterations(5000);
BENCHMARK(order_npu_native)->UseRealTime()->Iterations(5000);
BENCHMARK(order_npu_emulated)->UseRealTime()->Iterations(5000);
BENCHMARK(order_xpu_native)->UseRealTime()->Iterations(2000);

}  // namespace
}  // namespace perf

PERF_MAIN()
