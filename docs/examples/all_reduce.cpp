// SPDX-License-Identifier: Apache-2.0
//
// The first collective: each rank has a tensor on its own device, and all get the sum. Ranks are
// threads, which meet in a store in memory; or processes, where a launcher has started them.
//   all_reduce [DEVICE...]      a rank on each; cpu:0 twice if none is named
//   backplane launch -n 2 --devices npu:0,cpu:0 -- ./all_reduce
#include <cstdio>
#include <thread>

#include "backplane/backplane.hpp"

// What a rank does, be it a thread or a process.
static void run(const bp::ccl::Group& group, bp::Device device) {
  const auto rank = group.rank();
  const std::vector<float> own = {static_cast<float>(rank + 1), 10};
  auto x = bp::Tensor::from_host<float>(device, own, {2});
  group.all_reduce(x);  // waits for the others
  const std::vector<float> sum = x.to_vector<float>();
  std::printf("rank %u of %u on %s: %g %g\n", rank, group.rank_count(), device.name().c_str(),
              sum[0], sum[1]);
}

int main(int argc, char** argv) try {
  std::vector<std::string> names(argv + 1, argv + argc);
  auto rt = bp::Runtime::create();
  const auto job = bp::ccl::Job::from_environment();  // without a launcher: of this process alone
  if (job.rank_count() > 1) {
    if (!names.empty()) throw std::invalid_argument(names[0] + ": the launcher says the device");
    const bp::Device device = rt.device(job.device("cpu:0"));
    run(job.create_group(device), device);
    return 0;
  }
  if (names.empty()) names = {"cpu:0", "cpu:0"};
  std::vector<bp::Device> devices;
  for (const std::string& name : names) devices.push_back(rt.device(name));

  const auto store = bp::ccl::Store::memory();
  const auto rank_count = static_cast<uint32_t>(devices.size());
  std::vector<int> failed(rank_count, 0);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < rank_count; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        run(bp::ccl::Group::create(devices[rank],
                                   {.store = store, .rank = rank, .rank_count = rank_count}),
            devices[rank]);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %u: %s\n", rank, error.what());
        failed[rank] = 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int one : failed) {
    if (one != 0) return 1;
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "all_reduce: %s\n", error.what());
  return 1;
}
