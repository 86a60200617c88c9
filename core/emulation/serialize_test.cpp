// SPDX-License-Identifier: Apache-2.0
//
// Devices that take one call at a time: whatever threads do, the plugin sees one call, and none
// that blocks.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "core/emulation/fake_device.hpp"

namespace bp::testing {
namespace {

constexpr uint32_t kOneCallAtATime = 0;

/// Everything that a thread can do with a device, over and over.
void hammer(Opened& device, int round_count, std::atomic<int>* error_count) {
  const DeviceTable& table = device.table;
  const auto expect_ok = [&](bp_status status) {
    if (status != BP_OK) ++*error_count;
  };
  bp_stream* stream = device.stream();
  bp_event* event = device.event(BP_EVENT_TIMING_BIT);
  const std::array<uint8_t, 32> source{1, 2, 3};
  for (int round = 0; round < round_count; ++round) {
    const uint64_t handle = device.alloc(64);
    expect_ok(device.copy_to_device(stream, handle, source.data(), 32));
    expect_ok(device.fill(stream, {handle, 32}, 32, 9, 1));
    expect_ok(device.launch(stream, 1));
    expect_ok(device.launch(nullptr, 2));
    expect_ok(device.host_call(stream, [](bp_status) {}));
    expect_ok(table.event_record(event, stream));
    expect_ok(table.event_wait(event, stream));
    expect_ok(table.event_sync(event, Opened::kSoonNs));
    uint64_t elapsed_ns = 0;
    expect_ok(table.event_elapsed(event, event, &elapsed_ns));
    expect_ok(device.sync(stream));
    expect_ok(device.fill(nullptr, {handle, 0}, 8, 9, 1));
    void* ptr = nullptr;
    const bp_map_args map_args{sizeof(bp_map_args), 0, {handle, 0}, 8, BP_MAP_READ_BIT, 0};
    expect_ok(table.mem_map(map_args, &ptr));
    expect_ok(table.mem_unmap(ptr));
    expect_ok(device.host_alloc(100, &ptr));
    expect_ok(table.host_free(ptr));
    expect_ok(table.mem_free(handle));
  }
  expect_ok(table.event_destroy(event));
  expect_ok(device.destroy(stream));
}

class OneCallAtATimeTest : public ::testing::TestWithParam<uint64_t> {};

INSTANTIATE_TEST_SUITE_P(Bands, OneCallAtATimeTest,
                         ::testing::Values(uint64_t{0}, uint64_t{BP_FEATURE_FILL_BIT},
                                           uint64_t{BP_FEATURE_ASYNC_BIT},
                                           BP_FEATURE_ASYNC_BIT | BP_FEATURE_TIMING_BIT,
                                           kAllFeatures & ~BP_FEATURE_ASYNC_BIT, kAllFeatures));

TEST_P(OneCallAtATimeTest, FourThreadsHammering_NoCallOverlapsAndNoneBlocks) {
  Opened device(GetParam(), kOneCallAtATime);
  std::atomic<int> error_count{0};
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] { hammer(device, 25, &error_count); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(error_count, 0);
  EXPECT_EQ(device.fake.overlap_count, 0);
  EXPECT_EQ(device.fake.blocking_count, 0);
  EXPECT_GT(device.fake.call_count, 500);
  EXPECT_EQ(device.fake.allocation_count(), 0u);
  EXPECT_EQ(device.fake.mapped_count, 0);
  EXPECT_TRUE(device.fake.streams.empty());
}

/// A launch that is in the plugin, and stays there until the gate opens.
std::thread start_launch(Opened& device, const Gate& gate) {
  device.fake.on_launch = [&gate](const bp_launch_args&) {
    gate.wait();
    return BP_OK;
  };
  std::thread launching([&device] { device.launch(nullptr, 1); });
  while (device.fake.call_count == 0) std::this_thread::yield();
  return launching;
}

TEST(OneCallAtATime, ACallInProgress_KeepsOthersOut) {
  Opened device(0, kOneCallAtATime);
  const Gate gate;
  std::thread launching = start_launch(device, gate);
  std::thread thread([&] { device.alloc(8); });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(device.fake.call_count, 1);
  gate.open();
  launching.join();
  thread.join();
  EXPECT_EQ(device.fake.call_count, 2);
}

TEST(OneCallAtATime, WhoWaitsForACallThatIsStuck_LearnsOfTheLaunch) {
  Opened device(0, kOneCallAtATime);
  device.table.gate->set_timeout(std::chrono::milliseconds(50));
  const Gate gate;
  std::thread launching = start_launch(device, gate);
  uint64_t handle = 1;
  bp_alloc_args args{};
  args.struct_size = sizeof(args);
  args.bytes = 8;
  std::vector<std::thread> others;
  std::atomic<int> lost_count{0};
  for (int i = 0; i < 3; ++i) {
    others.emplace_back([&] {
      uint64_t none = 1;
      lost_count += device.table.mem_alloc(args, &none) == BP_DEVICE_LOST && none == 0 ? 1 : 0;
    });
  }
  for (std::thread& other : others) other.join();
  EXPECT_EQ(lost_count, 3);
  EXPECT_EQ(device.table.mem_alloc(args, &handle), BP_DEVICE_LOST);
  EXPECT_EQ(device.table.gate->why_abandoned(),
            device.table.gate->name() + " is abandoned: launch did not return within 50 ms");
  EXPECT_EQ(device.fake.call_count, 1);
  gate.open();
  launching.join();
}

TEST(OneCallAtATime, Launch_GetsThePluginsStreamAndItsCallErrorComesBack) {
  Opened device(BP_FEATURE_ASYNC_BIT, kOneCallAtATime);
  bp_stream* stream = device.stream();
  bp_stream* seen = nullptr;
  device.fake.on_launch = [&](const bp_launch_args& args) {
    seen = args.stream;
    return BP_UNSUPPORTED;
  };
  EXPECT_EQ(device.launch(stream, 1), BP_UNSUPPORTED);
  ASSERT_EQ(device.fake.streams.size(), 1u);
  EXPECT_EQ(seen, reinterpret_cast<bp_stream*>(device.fake.streams[0]));
  EXPECT_EQ(seen, stream);
  EXPECT_EQ(device.launch(nullptr, 2), BP_UNSUPPORTED);
  EXPECT_EQ(seen, nullptr);
  device.destroy(stream);
}

class SerialisedStreamTest : public ::testing::Test {
 protected:
  void TearDown() override {
    device_.destroy(stream_);
    api().event_destroy(event_);
  }
  const DeviceTable& api() { return device_.table; }
  /// A task that cannot run before the test says so.
  void block(const std::atomic<bool>& free) {
    const std::lock_guard lock(device_.fake.stream_mutex);
    device_.fake.streams[0]->tasks.push_back([&free](bp_status*) { return free.load(); });
  }

  Opened device_{BP_FEATURE_ASYNC_BIT | BP_FEATURE_TIMING_BIT, kOneCallAtATime};
  bp_stream* stream_ = device_.stream();
  bp_event* event_ = device_.event(BP_EVENT_TIMING_BIT);
};

TEST_F(SerialisedStreamTest, UnfinishedWork_WaitsEndAtTheirDeadline) {
  std::atomic<bool> free{false};
  block(free);
  ASSERT_EQ(api().event_record(event_, stream_), BP_OK);
  EXPECT_EQ(api().stream_sync(stream_, 0), BP_TIMEOUT);
  EXPECT_EQ(api().stream_sync(stream_, 3'000'000), BP_TIMEOUT);
  EXPECT_EQ(api().event_sync(event_, 0), BP_TIMEOUT);
  EXPECT_EQ(api().event_sync(event_, 3'000'000), BP_TIMEOUT);
  EXPECT_EQ(api().event_query(event_), BP_PENDING);
  free = true;
  EXPECT_EQ(api().event_sync(event_, BP_TIMEOUT_FOREVER), BP_OK);
  EXPECT_EQ(api().stream_sync(stream_, BP_TIMEOUT_FOREVER), BP_OK);
  EXPECT_EQ(device_.fake.blocking_count, 0);
}

TEST_F(SerialisedStreamTest, WhileOneThreadWaits_AnotherMayCall) {
  std::atomic<bool> free{false};
  block(free);
  std::atomic<bp_status> waited{BP_INTERNAL};
  std::thread waiting([&] { waited = device_.sync(stream_); });
  EXPECT_NE(device_.alloc(8), 0u);  // would hang if the wait kept the lock
  free = true;
  waiting.join();
  EXPECT_EQ(waited, BP_OK);
}

TEST_F(SerialisedStreamTest, Destroy_WaitsByAskingAndRunsWhatIsLeft) {
  bp_stream* other = device_.stream();
  std::atomic<int> call_count{0};
  for (int i = 0; i < 3; ++i) {
    device_.host_call(other, [&](bp_status) { ++call_count; });
  }
  EXPECT_EQ(device_.destroy(other), BP_OK);
  EXPECT_EQ(call_count, 3);
  EXPECT_EQ(device_.fake.blocking_count, 0);
}

TEST_F(SerialisedStreamTest, NativeTiming_IsThePlugins) {
  uint64_t elapsed_ns = 0;
  EXPECT_EQ(device_.fake.event_flags, BP_EVENT_TIMING_BIT);
  EXPECT_EQ(api().event_elapsed(event_, event_, &elapsed_ns), BP_OK);
  EXPECT_EQ(elapsed_ns, 12345u);
}

TEST_F(SerialisedStreamTest, Failure_SticksAndReachesWaiters) {
  bp_stream* other = device_.stream();
  const uint64_t handle = device_.alloc(4);
  const uint64_t value = 0;
  device_.copy_to_device(stream_, handle, &value, 8);  // outside its memory
  ASSERT_EQ(api().event_record(event_, stream_), BP_OK);
  ASSERT_EQ(api().event_wait(event_, other), BP_OK);
  EXPECT_EQ(device_.sync(other), BP_INVALID_ARGUMENT);
  EXPECT_EQ(device_.sync(stream_), BP_INVALID_ARGUMENT);
  EXPECT_EQ(device_.fill(stream_, {handle, 0}, 4, 1, 1), BP_POISONED);
  device_.destroy(other);
}

}  // namespace
}  // namespace bp::testing
