// SPDX-License-Identifier: Apache-2.0
//
// Devices with native streams: what is complete stays untouched, what is missing is filled in.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/emulation/fake_device.hpp"
#include "core/emulation/host_call.hpp"

namespace bp::testing {
namespace {

TEST(Complete, EverythingNative_KeepsThePluginsSlotsAndDevice) {
  FakeDevice fake(BP_DEVICE_CONCURRENT_BIT, kAllFeatures);
  const DeviceTable before = fake.table();
  DeviceTable table = before;
  const EmulationPtr emulation = emulate_missing(&table);
  ASSERT_NE(emulation, nullptr);
  EXPECT_EQ(std::memcmp(&table.memory, &before.memory, sizeof(table.memory)), 0);
  EXPECT_EQ(std::memcmp(&table.stream, &before.stream, sizeof(table.stream)), 0);
  const DeviceTable none;
  EXPECT_EQ(std::memcmp(&table.emulated_memory, &none.memory, sizeof(none.memory)), 0);
  EXPECT_EQ(std::memcmp(&table.emulated_stream, &none.stream, sizeof(none.stream)), 0);
  EXPECT_EQ(table.emulated, 0u);
  EXPECT_FALSE(table.gate->one_call_at_a_time());
  EXPECT_EQ(fake.call_count, 0);
}

TEST(Complete, NothingNative_FillsEverySlot) {
  Opened device;
  EXPECT_EQ(device.table.emulated, kAllFeatures);
  // Both tables are struct_size and flags, then slots only.
  std::array<void*, (sizeof(bp_memory_api) - 8) / sizeof(void*)> memory;
  std::memcpy(memory.data(), reinterpret_cast<const char*>(&device.table.emulated_memory) + 8,
              sizeof(memory));
  constexpr size_t kRequiredSlots = (kRequiredBytes<bp_memory_api> - 8) / sizeof(void*);
  for (size_t i = 0; i < memory.size(); ++i) EXPECT_EQ(memory[i] == nullptr, i < kRequiredSlots);
  std::array<void*, (sizeof(bp_stream_api) - 8) / sizeof(void*)> stream;
  std::memcpy(stream.data(), reinterpret_cast<const char*>(&device.table.emulated_stream) + 8,
              sizeof(stream));
  for (size_t i = 0; i + 2 < stream.size(); ++i) EXPECT_NE(stream[i], nullptr) << i;
  EXPECT_EQ(device.table.emulated_stream.stream_native_handle, nullptr)
      << "nothing stands in for a queue";
  EXPECT_EQ(device.table.emulated_stream.stream_wrap, nullptr);
}

TEST(Complete, TimingWithoutStreams_IsEmulatedToo) {
  Opened device(BP_FEATURE_TIMING_BIT | BP_FEATURE_MAP_BIT);
  EXPECT_EQ(device.table.emulated, kAllFeatures & ~BP_FEATURE_MAP_BIT);
  EXPECT_FALSE(device.table.has_native(BP_FEATURE_TIMING_BIT));
  EXPECT_TRUE(device.table.has_native(BP_FEATURE_MAP_BIT));
}

/// Wraps queue 77 and asks for the queue of what that gave.
uint64_t wrapped_and_asked(Opened& device, bp_stream** out_stream) {
  const bp_stream_wrap_args args{sizeof(args), 0, 77, {"fake.queue", 10}};
  EXPECT_EQ(device.table.stream_wrap(args, out_stream), BP_OK);
  bp_native_stream native{};
  native.struct_size = sizeof(native);
  EXPECT_EQ(device.table.stream_native_handle(*out_stream, &native), BP_OK);
  EXPECT_EQ(std::string(native.kind.ptr, native.kind.len), "fake.queue");
  return native.handle;
}

TEST(NativeQueues, ConcurrentDevice_StreamsAreThePluginsOwn) {
  for (const uint64_t timing : {uint64_t{0}, uint64_t{BP_FEATURE_TIMING_BIT}}) {
    Opened device(BP_FEATURE_ASYNC_BIT | BP_FEATURE_NATIVE_BIT | timing);
    bp_stream* stream = nullptr;
    EXPECT_EQ(wrapped_and_asked(device, &stream), 77u);
    ASSERT_EQ(device.fake.streams.size(), 1u);
    EXPECT_EQ(reinterpret_cast<bp_stream*>(device.fake.streams[0]), stream);
    EXPECT_TRUE(device.table.has_native(BP_FEATURE_NATIVE_BIT));
    EXPECT_EQ(device.destroy(stream), BP_OK);
  }
}

TEST(NativeQueues, OneCallAtATime_TheCallsTakeTurns) {
  Opened device(BP_FEATURE_ASYNC_BIT | BP_FEATURE_NATIVE_BIT, 0);
  bp_stream* stream = nullptr;
  EXPECT_EQ(wrapped_and_asked(device, &stream), 77u);
  ASSERT_EQ(device.fake.streams.size(), 1u);
  EXPECT_EQ(reinterpret_cast<bp_stream*>(device.fake.streams[0]), stream);
  const Gate gate;
  device.fake.on_launch = [&](const bp_launch_args&) {
    gate.wait();
    return BP_OK;
  };
  const int calls = device.fake.call_count;
  std::thread launching([&] { device.launch(nullptr, 1); });
  while (device.fake.call_count == calls) std::this_thread::yield();
  bp_native_stream native{};
  std::thread thread([&] { device.table.stream_native_handle(stream, &native); });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(device.fake.call_count, calls + 1);
  gate.open();
  launching.join();
  thread.join();
  EXPECT_EQ(native.handle, 77u);
  bp_stream* refused = nullptr;
  const bp_stream_wrap_args none{sizeof(none), 0, 0, {"fake.queue", 10}};
  EXPECT_EQ(device.table.stream_wrap(none, &refused), BP_INVALID_ARGUMENT);
  EXPECT_EQ(refused, nullptr);
  EXPECT_EQ(device.fake.streams.size(), 1u);
  EXPECT_EQ(device.destroy(stream), BP_OK);
}

class NativeStreamTest : public ::testing::Test {
 protected:
  void TearDown() override { device_.destroy(stream_); }

  Opened device_{BP_FEATURE_ASYNC_BIT};
  bp_stream* stream_ = device_.stream();
};

TEST_F(NativeStreamTest, Launch_GetsThePluginsOwnHandle) {
  bp_stream* seen = nullptr;
  device_.fake.on_launch = [&](const bp_launch_args& args) {
    seen = args.stream;
    return BP_OK;
  };
  EXPECT_EQ(device_.launch(stream_, 1), BP_OK);
  EXPECT_EQ(seen, stream_);
  ASSERT_EQ(device_.fake.streams.size(), 1u);
  EXPECT_EQ(reinterpret_cast<bp_stream*>(device_.fake.streams[0]), stream_);
}

TEST_F(NativeStreamTest, MissingFill_IsStagedInTheStreamsOrder) {
  const uint64_t bytes = (uint64_t{1} << 20) + 8;
  const uint64_t handle = device_.alloc(bytes);
  const uint64_t later = 0xABCDEF;
  ASSERT_EQ(device_.fill(stream_, {handle, 0}, bytes, 0x0807060504030201, 8), BP_OK);
  ASSERT_EQ(device_.copy_to_device(stream_, handle, &later, 8), BP_OK);
  EXPECT_EQ(device_.bytes_of(handle), std::vector<std::byte>(bytes));  // nothing has run yet
  ASSERT_EQ(device_.sync(stream_), BP_OK);
  const std::vector<std::byte> got = device_.bytes_of(handle);
  EXPECT_EQ(std::memcmp(got.data(), &later, 8), 0);
  for (size_t i = 8; i < bytes; ++i) {
    ASSERT_EQ(got[i], static_cast<std::byte>(i % 8 + 1)) << i;
  }
  EXPECT_EQ(device_.fake.native_fill_count, 0);
}

TEST_F(NativeStreamTest, MissingFillWithoutStream_IsDoneAtOnce) {
  const uint64_t handle = device_.alloc(4);
  ASSERT_EQ(device_.fill(nullptr, {handle, 0}, 4, 5, 1), BP_OK);
  EXPECT_EQ(device_.bytes_of(handle), std::vector<std::byte>(4, std::byte{5}));
}

TEST_F(NativeStreamTest, StagedFillFailsAtOnce_KeepsNothing) {
  const uint64_t handle = device_.alloc(8);
  device_.fake.copy_status = BP_OUT_OF_MEMORY;
  EXPECT_EQ(device_.fill(stream_, {handle, 0}, 8, 1, 1), BP_OUT_OF_MEMORY);
  EXPECT_TRUE(device_.fake.streams[0]->tasks.empty());
}

TEST_F(NativeStreamTest, StagedFillFailsHalfway_KeepsItsPatternForTheCopiesUnderWay) {
  const uint64_t bytes = uint64_t{3} << 20;
  const uint64_t handle = device_.alloc(bytes);
  device_.fake.copy_status = BP_OUT_OF_MEMORY;
  device_.fake.copies_before_failure = 2;
  EXPECT_EQ(device_.fill(stream_, {handle, 0}, bytes, 1, 1), BP_OUT_OF_MEMORY);
  device_.fake.copy_status = BP_OK;
  EXPECT_EQ(device_.sync(stream_), BP_OK);  // address sanitizer watches the copies
  const std::vector<std::byte> got = device_.bytes_of(handle);
  EXPECT_EQ(got[1u << 20], std::byte{1});  // the last chunk comes first
  EXPECT_EQ(got[(1u << 20) - 1], std::byte{0});
}

TEST_F(NativeStreamTest, StagedFillWithoutHostCall_KeepsItsPatternUntilTheDeviceCloses) {
  const uint64_t handle = device_.alloc(8);
  device_.fake.host_call_status = BP_OUT_OF_MEMORY;
  EXPECT_EQ(device_.fill(stream_, {handle, 0}, 8, 3, 1), BP_OK);
  EXPECT_EQ(device_.sync(stream_), BP_OK);
  EXPECT_EQ(device_.bytes_of(handle), std::vector<std::byte>(8, std::byte{3}));
}

/// Two threads of the plugin's, at once.
void call_twice(bp_host_fn fn, void* user) {
  std::atomic<int> ready{0};
  const auto call = [&] {
    ++ready;
    while (ready < 2) std::this_thread::yield();
    fn(user, BP_OK);
  };
  std::thread first(call);
  std::thread second(call);
  first.join();
  second.join();
}

TEST_F(NativeStreamTest, HostFunction_CalledTwiceAndFromTwoThreads_RunsAndLetsGoOnce) {
  constexpr int kRounds = 200;
  std::atomic<int> runs{0};
  std::atomic<int> let_go{0};
  struct Counters {
    std::atomic<int>& runs;
    std::atomic<int>& let_go;
  } counters{runs, let_go};
  std::vector<std::pair<bp_host_fn, void*>> given;
  device_.fake.on_host_call = [&](bp_host_fn fn, void* user) {
    given.emplace_back(fn, user);
    call_twice(fn, user);
  };
  for (int i = 0; i < kRounds; ++i) {
    std::shared_ptr<void> owned(&counters, [](void* object) {
      ++static_cast<Counters*>(object)->let_go;  // a second time would be a double free
    });
    const auto run = [](void* object, bp_status) { ++static_cast<Counters*>(object)->runs; };
    ASSERT_EQ(call_host_once(device_.table, stream_, &owned, run), BP_OK);
    EXPECT_EQ(owned, nullptr);
  }
  EXPECT_EQ(runs, kRounds);
  EXPECT_EQ(let_go, kRounds);
  for (const auto& [fn, user] : given) fn(user, BP_OK);                        // long after
  given.front().first(reinterpret_cast<void*>(uintptr_t{0x7fffffff}), BP_OK);  // never given
  EXPECT_EQ(runs, kRounds);
  EXPECT_EQ(let_go, kRounds);
}

TEST_F(NativeStreamTest, StagedFillWhoseHostFunctionComesTwice_FreesItsPatternOnce) {
  const uint64_t handle = device_.alloc(8);
  device_.fake.on_host_call = [&](bp_host_fn fn, void* user) {
    device_.fake.step();  // the copies first: they read the pattern
    call_twice(fn, user);
  };
  EXPECT_EQ(device_.fill(stream_, {handle, 0}, 8, 3, 1), BP_OK);
  EXPECT_EQ(device_.bytes_of(handle), std::vector<std::byte>(8, std::byte{3}));
}

TEST_F(NativeStreamTest, FillOnPoisonedStream_IsPoisoned) {
  const uint64_t handle = device_.alloc(4);
  const uint64_t value = 0;
  device_.copy_to_device(stream_, handle, &value, 8);
  EXPECT_EQ(device_.sync(stream_), BP_INVALID_ARGUMENT);
  EXPECT_EQ(device_.fill(stream_, {handle, 0}, 4, 1, 1), BP_POISONED);
  EXPECT_EQ(device_.fill(stream_, {handle, 0}, 0, 1, 1), BP_POISONED);
}

TEST_F(NativeStreamTest, FillOfNothing_IsAccepted) {
  const uint64_t handle = device_.alloc(4);
  EXPECT_EQ(device_.fill(stream_, {handle, 4}, 0, 1, 1), BP_OK);
  EXPECT_EQ(device_.sync(stream_), BP_OK);
  EXPECT_EQ(device_.bytes_of(handle), std::vector<std::byte>(4));
}

class HostTimedEventTest : public NativeStreamTest {
 protected:
  void TearDown() override {
    for (bp_event* event : {start_, end_}) api().event_destroy(event);
    NativeStreamTest::TearDown();
  }
  const DeviceTable& api() { return device_.table; }

  bp_event* start_ = device_.event(BP_EVENT_TIMING_BIT);
  bp_event* end_ = device_.event(BP_EVENT_TIMING_BIT);
  uint64_t elapsed_ns_ = UINT64_MAX;
};

TEST_F(HostTimedEventTest, FinishedRecords_GiveTheTimeBetween) {
  EXPECT_EQ(device_.fake.event_flags, 0u);  // a device without timing is not asked for it
  EXPECT_EQ(device_.table.emulated & BP_FEATURE_TIMING_BIT, BP_FEATURE_TIMING_BIT);
  ASSERT_EQ(api().event_record(start_, stream_), BP_OK);
  ASSERT_EQ(api().event_record(end_, stream_), BP_OK);
  EXPECT_EQ(api().event_elapsed(start_, end_, &elapsed_ns_), BP_PENDING);
  ASSERT_EQ(api().event_sync(end_, Opened::kSoonNs), BP_OK);
  ASSERT_EQ(api().event_elapsed(start_, end_, &elapsed_ns_), BP_OK);
  EXPECT_LT(elapsed_ns_, Opened::kSoonNs);
  EXPECT_EQ(api().event_elapsed(end_, end_, &elapsed_ns_), BP_OK);
  EXPECT_EQ(elapsed_ns_, 0u);
}

TEST_F(HostTimedEventTest, BadEvents_AreRefused) {
  bp_event* plain = device_.event();
  EXPECT_EQ(api().event_elapsed(start_, end_, &elapsed_ns_), BP_INVALID_ARGUMENT);
  api().event_record(start_, stream_);
  api().event_record(plain, stream_);
  api().event_record(end_, stream_);
  ASSERT_EQ(device_.sync(stream_), BP_OK);
  EXPECT_EQ(api().event_elapsed(start_, plain, &elapsed_ns_), BP_INVALID_ARGUMENT);
  EXPECT_EQ(api().event_elapsed(end_, start_, &elapsed_ns_), BP_INVALID_ARGUMENT);
  EXPECT_EQ(elapsed_ns_, UINT64_MAX);
  api().event_destroy(plain);
}

TEST_F(HostTimedEventTest, RecordThatCannotNoteTheTime_FailsAndChangesNothing) {
  device_.fake.host_call_status = BP_OUT_OF_MEMORY;
  EXPECT_EQ(api().event_record(start_, stream_), BP_OUT_OF_MEMORY);
  EXPECT_EQ(api().event_query(start_), BP_OK);
}

TEST_F(HostTimedEventTest, WaitsAndFailures_AreTheNativeOnes) {
  bp_stream* other = device_.stream();
  const uint64_t handle = device_.alloc(4);
  const uint64_t value = 0;
  device_.copy_to_device(stream_, handle, &value, 8);  // outside its memory
  ASSERT_EQ(api().event_record(end_, stream_), BP_OK);
  ASSERT_EQ(api().event_wait(end_, other), BP_OK);
  EXPECT_EQ(device_.sync(other), BP_INVALID_ARGUMENT);
  EXPECT_EQ(api().event_query(end_), BP_INVALID_ARGUMENT);
  EXPECT_EQ(api().event_elapsed(end_, end_, &elapsed_ns_), BP_INVALID_ARGUMENT);
  device_.destroy(other);
}

}  // namespace
}  // namespace bp::testing
