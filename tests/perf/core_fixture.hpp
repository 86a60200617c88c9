// SPDX-License-Identifier: Apache-2.0
//
// What the benchmarks of the core's inside share: a Runtime over the plugins of this build, and
// ends for what fails.
#ifndef BACKPLANE_TESTS_PERF_CORE_FIXTURE_HPP
#define BACKPLANE_TESTS_PERF_CORE_FIXTURE_HPP

#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/runtime/runtime.hpp"
#include "core/transfer/transfer.hpp"
#include "ops/register.hpp"

namespace bp {

[[noreturn]] inline void give_up(const Status& status) {
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  std::exit(5);
}
template <class T>
T must(Result<T> result) {
  if (!result.ok()) give_up(result.status());
  return std::move(*result);
}
inline void must(const Status& status) {
  if (!status.ok()) give_up(status);
}

struct Fixture {
  Ref<Runtime> runtime;
  Device* device;

  explicit Fixture(const char* device_name = "cpu:0",
                   const std::vector<OptionSetting>& plugin_options = {}) {
    RuntimeArgs args;
    args.register_ops = register_ops;
    args.install_directory = BP_PLUGIN_DIR;
    args.plugin_options = plugin_options;
    runtime = must(Runtime::create(args));
    device = must(runtime->find_device(device_name));
  }

  OpId op(std::string_view name) const { return *runtime->registry().find(name); }

  Ref<Tensor> ones(const Dims& sizes) const {
    const std::vector<float> values(static_cast<size_t>(element_count(sizes)), 1.0f);
    return must(copy_from_host(device->default_stream(), BP_DTYPE_F32, sizes, values.data(),
                               MemoryTag::kActivations));
  }
};

}  // namespace bp

#endif
