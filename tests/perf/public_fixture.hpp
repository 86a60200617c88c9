// SPDX-License-Identifier: Apache-2.0
//
// What the benchmarks of the public API share. They include backplane.hpp and link libbackplane.so
// alone, so that one program measures any build of the library: the loader's LD_LIBRARY_PATH says
// which, and the plugins are those that lie beside it.
#ifndef BACKPLANE_TESTS_PERF_PUBLIC_FIXTURE_HPP
#define BACKPLANE_TESTS_PERF_PUBLIC_FIXTURE_HPP

#include <benchmark/benchmark.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "backplane/ops.hpp"

namespace perf {

/// The environment variable, or the given text where it is not set.
inline std::string setting(const char* name, const char* otherwise) {
  const char* found = std::getenv(name);
  return found != nullptr ? found : otherwise;
}

/// The file that the loader found for libbackplane.so.
inline std::string library_path() {
  Dl_info info{};
  const int found = dladdr(reinterpret_cast<const void*>(&bpa_version), &info);
  return found != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

using Options = std::map<std::string, std::string>;

/// A Runtime whose kernels on cpu:0 use as many threads as BP_BENCH_THREADS says (default 1), as
/// the peers do.
struct Fixture {
  bp::Runtime runtime;
  bp::Device device;

  explicit Fixture(const std::string& name = "cpu:0", Options options = {})
      : runtime(create(std::move(options))), device(runtime.device(name)) {}

  bp::Tensor ones(const std::vector<int64_t>& sizes) const {
    const auto count = std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
    const std::vector<float> values(static_cast<size_t>(count), 1.0F);
    return bp::Tensor::from_host<float>(device, values, sizes);
  }

 private:
  static bp::Runtime create(Options options) {
    options.emplace("cpu.threads", setting("BP_BENCH_THREADS", "1"));
    bp::RuntimeOptions made;
    made.options = std::move(options);
    return bp::Runtime::create(made);
  }
};

/// The main function of each program. The context tells which library was measured.
inline int run_benchmarks(int argc, char** argv) {
  try {
    benchmark::AddCustomContext("library", library_path());
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 5;
  }
}

}  // namespace perf

#define PERF_MAIN() \
  int main(int argc, char** argv) { return perf::run_benchmarks(argc, argv); }

#endif
