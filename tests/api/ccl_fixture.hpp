// SPDX-License-Identifier: Apache-2.0
//
// For tests of collectives through the library: a Runtime, and a thread for each rank of a group.
#ifndef BACKPLANE_TESTS_API_CCL_FIXTURE_HPP
#define BACKPLANE_TESTS_API_CCL_FIXTURE_HPP

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/api/api_fixture.hpp"

namespace bp {

using DeviceNames = std::vector<std::string>;  // by rank
using Floats = std::vector<float>;

class CclTest : public testing::Test {
 protected:
  CclTest() { open({}); }

  void open(std::map<std::string, std::string> options) {
    options.emplace("BACKPLANE_FALLBACK", "deny");
    options.emplace("BACKPLANE_TIMEOUT", "60");
    options.emplace("npu.devices", "2");
    options.emplace("npu.memory", "16MiB");
    RuntimeOptions args;
    args.install_dir = BP_PLUGIN_DIR;
    args.options = std::move(options);
    runtime_ = Runtime::create(args);
  }

  /// False where this machine has none of that name.
  bool has(const std::string& name) const {
    try {
      runtime_->device(name);
      return true;
    } catch (const Error& error) {
      if (!tests::is_absent(name, error.status())) throw;
      return false;
    }
  }
  bool has_all(const DeviceNames& names) const {
    return std::all_of(names.begin(), names.end(), [&](const auto& name) { return has(name); });
  }

  ccl::GroupOptions group_options(uint32_t rank, uint32_t rank_count) const {
    return {.store = store_,
            .name = name_,
            .rank = rank,
            .rank_count = rank_count,
            .timeout = timeout_};
  }

  using Body = std::function<void(const ccl::Group&, Device)>;
  /// Each rank on a thread of its own, once all have joined. What a body throws is a failure. The
  /// group is the body's alone.
  void run_owners(const DeviceNames& devices, const std::function<void(ccl::Group, Device)>& body) {
    const auto rank_count = static_cast<uint32_t>(devices.size());
    store_ = ccl::Store::memory();
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < rank_count; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          const Device device = runtime_->device(devices[rank]);
          body(ccl::Group::create(device, group_options(rank, rank_count)), device);
        } catch (const std::exception& error) {
          ADD_FAILURE() << "rank " << rank << " on " << devices[rank] << ": " << error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  /// ... and has an owner until the body has returned.
  void run(const DeviceNames& devices, const Body& body) {
    run_owners(devices, [&](const ccl::Group& group, Device device) { body(group, device); });
  }

  static Tensor upload(Device device, const Floats& values) {
    return Tensor::from_host<float>(device, values, {static_cast<int64_t>(values.size())});
  }
  /// Space for results, with other values in it.
  static Tensor room(Device device, size_t count) { return upload(device, Floats(count, -99)); }

  std::optional<Runtime> runtime_;
  ccl::Store store_;
  std::string name_ = "test";
  std::chrono::nanoseconds timeout_ = std::chrono::seconds(30);
};

/// Two ranks on the first device of every plugin, and one on each of them.
inline std::vector<DeviceNames> pairs_and_all() {
  std::vector<DeviceNames> all;
  for (const std::string& name : tests::device_names()) all.push_back({name, name});
  all.push_back(tests::device_names());
  return all;
}

/// ... and one whose devices have collectives of their own.
inline std::vector<DeviceNames> pairs_all_and_linked() {
  std::vector<DeviceNames> all = pairs_and_all();
  all.push_back({"npu:0", "npu:1"});
  return all;
}

inline std::string name_of_group(const testing::TestParamInfo<DeviceNames>& info) {
  std::string name;
  for (const std::string& device : info.param) {
    name += (name.empty() ? "" : "_") + device.substr(0, device.find(':')) + device.back();
  }
  return name;
}

/// Returns when `count` threads have come, or there is no hope that they will.
inline void meet(std::atomic<uint32_t>* come, uint32_t count) {
  ++*come;
  const auto deadline = std::chrono::steady_clock::now() + kTestDeadline;
  while (*come < count && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// What the function throws because the group has failed; code BP_OK: nothing.
template <class Function>
ccl::Failure failure_of(Function function) {
  try {
    function();
  } catch (const ccl::GroupError& error) {
    EXPECT_EQ(error.status(), error.failure().code);
    return error.failure();
  } catch (const Error& error) {
    ADD_FAILURE() << "not the group's failure: " << error.what();
  }
  return {};
}

}  // namespace bp

#endif
