// SPDX-License-Identifier: Apache-2.0
//
// What ordering costs on each device: a hop of one small operator to another stream and back, and
// the record and wait of an event, native and emulated. Figures to read, without a target.
#include "tests/perf/support.hpp"

namespace bp {
namespace {

void stream_hop(benchmark::State& state, const char* device,
                const std::vector<OptionSetting>& options) {
  const Fixture f(device, options);
  Stream& first = *must(f.device->acquire_stream());
  Stream& second = *must(f.device->acquire_stream());
  const Ref<Tensor> x = f.ones({16});
  const OpId relu = f.op("relu");
  const auto hop = [&] {
    Tensor* inputs[] = {x.get()};
    const Ref<Tensor> there = f.call(relu, inputs, nullptr, &first);
    Tensor* made[] = {there.get()};
    const Ref<Tensor> back = f.call(relu, made, nullptr, &second);
    must(back->storage().wait_on_host(false));
  };
  hop();  // compiles, where the device does
  for (auto _ : state) hop();
  f.device->release_stream(&first);
  f.device->release_stream(&second);
}

void event_record_wait(benchmark::State& state, const char* device,
                       const std::vector<OptionSetting>& options) {
  const Fixture f(device, options);
  Stream& first = *must(f.device->acquire_stream());
  Stream& second = *must(f.device->acquire_stream());
  for (auto _ : state) must(f.device->insert_wait(second, first));
  must(first.sync());
  must(second.sync());
  f.device->release_stream(&first);
  f.device->release_stream(&second);
}

const std::vector<OptionSetting> kEmulated{{"npu.async", "false"}};

void hop_cpu_emulated(benchmark::State& state) { stream_hop(state, "cpu:0", {}); }
void hop_npu_native(benchmark::State& state) { stream_hop(state, "npu:0", {}); }
void hop_npu_emulated(benchmark::State& state) { stream_hop(state, "npu:0", kEmulated); }
void hop_xpu_native(benchmark::State& state) { stream_hop(state, "xpu:0", {}); }
void event_cpu_emulated(benchmark::State& state) { event_record_wait(state, "cpu:0", {}); }
void event_npu_native(benchmark::State& state) { event_record_wait(state, "npu:0", {}); }
void event_npu_emulated(benchmark::State& state) { event_record_wait(state, "npu:0", kEmulated); }
void event_xpu_native(benchmark::State& state) { event_record_wait(state, "xpu:0", {}); }
BENCHMARK(hop_cpu_emulated)->UseRealTime();
BENCHMARK(hop_npu_native)->UseRealTime();
BENCHMARK(hop_npu_emulated)->UseRealTime();
BENCHMARK(hop_xpu_native)->UseRealTime();
BENCHMARK(event_cpu_emulated)->UseRealTime()->Iterations(20000);
BENCHMARK(event_npu_native)->UseRealTime()->Iterations(20000);
BENCHMARK(event_npu_emulated)->UseRealTime()->Iterations(20000);
BENCHMARK(event_xpu_native)->UseRealTime()->Iterations(5000);

}  // namespace
}  // namespace bp

BENCHMARK_MAIN();
