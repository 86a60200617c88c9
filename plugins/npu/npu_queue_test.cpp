// SPDX-License-Identifier: Apache-2.0
//
// Streams and events through the raw table: order, waits across streams, timeouts, timing, sticky
// failure, host calls that are made exactly once, destruction with work pending. No test depends on
// how long anything takes: gates hold streams up until the test says so.
#include <atomic>
#include <thread>

#include "plugins/npu/npu_harness_test.hpp"

namespace bp::npu_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// What a host call was told, and how often.
struct Calls {
  std::atomic<int> count{0};
  std::atomic<bp_status> status{-1};

  static void call(void* user, bp_status status) {
    auto& calls = *static_cast<Calls*>(user);
    calls.status = status;
    ++calls.count;
  }
};

/// Breaks a stream as a chip would: the memory of a copy is gone when it runs.
void break_stream(const Device& device, const Stream& stream) {
  static constexpr int32_t kValue = 7;
  const uint64_t handle = device.alloc(4);
  Gate gate(stream);
  EXPECT_EQ(stream.copy(copy_args(BP_COPY_HOST_TO_DEVICE, {handle, 0}, host_mem(&kValue), 4)),
            BP_OK);
  device.free(handle);
  gate.release();
  EXPECT_EQ(stream.sync(), BP_INVALID_ARGUMENT);
}

TEST(NpuStream, Work_RunsInOrder) {
  const Device device;
  const Stream stream(device);
  const uint64_t handle = device.alloc(8);
  std::vector<std::vector<int32_t>> sources;
  sources.reserve(100);
  for (int32_t i = 0; i < 100; ++i) sources.push_back({i, -i});
  std::vector<int32_t> result(2);
  for (const auto& source : sources) {
    EXPECT_EQ(
        stream.copy(copy_args(BP_COPY_HOST_TO_DEVICE, {handle, 0}, host_mem(source.data()), 8)),
        BP_OK);
  }
  EXPECT_EQ(stream.copy(copy_args(BP_COPY_DEVICE_TO_HOST, host_mem(result.data()), {handle, 0}, 8)),
            BP_OK);
  EXPECT_EQ(stream.sync(), BP_OK);
  EXPECT_THAT(result, ElementsAre(99, -99));
  device.free(handle);
}

TEST(NpuStream, FillOnAStream_IsInItsOrder) {
  const Device device;
  const Stream stream(device);
  const uint64_t handle = device.alloc(8);
  Gate gate(stream);
  const bp_fill_args args{sizeof args, 0, {handle, 0}, 8, 5, 4, 0, stream.get()};
  EXPECT_EQ(plugin().memory->mem_fill(device.get(), &args), BP_OK);
  device.upload<int32_t>({handle, 0}, {1, 2});
  EXPECT_THAT(device.download<int32_t>({handle, 0}, 2), ElementsAre(1, 2));
  gate.release();
  EXPECT_EQ(stream.sync(), BP_OK);
  EXPECT_THAT(device.download<int32_t>({handle, 0}, 2), ElementsAre(5, 5));
  device.free(handle);
}

TEST(NpuStream, SyncAndQuery_TellPendingFromDone) {
  const Device device;
  const Stream stream(device);
  EXPECT_EQ(stream.query(), BP_OK);
  Gate gate(stream);
  EXPECT_EQ(stream.query(), BP_PENDING);
  EXPECT_EQ(stream.sync(0), BP_TIMEOUT);
  EXPECT_EQ(stream.sync(1000), BP_TIMEOUT);
  gate.release();
  EXPECT_EQ(stream.sync(BP_TIMEOUT_FOREVER), BP_OK);
  EXPECT_EQ(stream.sync(BP_TIMEOUT_FOREVER - 1), BP_OK);
  EXPECT_EQ(stream.query(), BP_OK);
}

TEST(NpuStream, BadCopy_IsACallErrorAndTheStreamStaysHealthy) {
  const Device device;
  const Stream stream(device);
  int32_t value = 0;
  EXPECT_EQ(stream.copy(copy_args(BP_COPY_HOST_TO_DEVICE, host_mem(&value), host_mem(&value), 4)),
            BP_INVALID_ARGUMENT);
  EXPECT_THAT(device.host().last_message(), HasSubstr("no NPU address"));
  EXPECT_EQ(stream.sync(), BP_OK);
}

TEST(NpuStream, Failure_IsStickyAndReported) {
  const Device device;
  const Stream stream(device);
  const uint64_t handle = device.alloc(4);
  break_stream(device, stream);
  EXPECT_THAT(device.host().last_message(), HasSubstr("is not allocated"));
  EXPECT_EQ(device.host().reports().front().stream, stream.get());
  int32_t value = 0;
  EXPECT_EQ(stream.copy(copy_args(BP_COPY_HOST_TO_DEVICE, {handle, 0}, host_mem(&value), 4)),
            BP_POISONED);
  const Event event(device);
  EXPECT_EQ(event.record(stream), BP_POISONED);
  EXPECT_EQ(event.query(), BP_OK);  // The refused record changed nothing.
  EXPECT_EQ(stream.sync(), BP_INVALID_ARGUMENT);
  EXPECT_EQ(stream.query(), BP_INVALID_ARGUMENT);
  const Stream other(device);
  EXPECT_EQ(other.copy(copy_args(BP_COPY_HOST_TO_DEVICE, {handle, 0}, host_mem(&value), 4)), BP_OK);
  EXPECT_EQ(other.sync(), BP_OK);
  device.free(handle);
}

TEST(NpuStream, WorkBehindAFailure_IsNotRun) {
  const Device device;
  const Stream stream(device);
  const uint64_t doomed = device.alloc(4);
  const uint64_t handle = device.alloc(4);
  device.upload<int32_t>({handle, 0}, {1});
  const int32_t value = 2;
  Gate gate(stream);
  for (const uint64_t target : {doomed, handle}) {
    EXPECT_EQ(stream.copy(copy_args(BP_COPY_HOST_TO_DEVICE, {target, 0}, host_mem(&value), 4)),
              BP_OK);
  }
  device.free(doomed);
  gate.release();
  EXPECT_EQ(stream.sync(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(device.download<int32_t>({handle, 0}, 1), ElementsAre(1));
  device.free(handle);
}

TEST(NpuHostCall, OnAHealthyStream_IsMadeOnceWithOk) {
  const Device device;
  const Stream stream(device);
  Calls calls;
  EXPECT_EQ(stream.host_call(Calls::call, &calls), BP_OK);
  EXPECT_EQ(stream.sync(), BP_OK);
  EXPECT_EQ(calls.count, 1);
  EXPECT_EQ(calls.status, BP_OK);
  EXPECT_EQ(stream.host_call(nullptr, &calls), BP_INVALID_ARGUMENT);
}

TEST(NpuHostCall, OnABrokenStream_IsMadeOnceWithTheFailure) {
  const Device device;
  const Stream stream(device);
  Calls calls;
  break_stream(device, stream);
  EXPECT_EQ(stream.host_call(Calls::call, &calls), BP_OK);
  EXPECT_EQ(stream.sync(), BP_INVALID_ARGUMENT);
  EXPECT_EQ(calls.count, 1);
  EXPECT_EQ(calls.status, BP_INVALID_ARGUMENT);
}

TEST(NpuHostCall, PendingAtDestroy_IsMadeOnceAndSaysWhatWasDropped) {
  const Device device;
  Stream blocked(device);
  const Event event(device);
  Calls before, behind;
  {
    const Stream other(device);
    Gate gate(other);
    EXPECT_EQ(event.record(other), BP_OK);
    EXPECT_EQ(blocked.host_call(Calls::call, &before), BP_OK);
    EXPECT_EQ(event.let_wait(blocked), BP_OK);
    EXPECT_EQ(blocked.host_call(Calls::call, &behind), BP_OK);
    blocked.destroy();  // Must not hang, though what it waits for can't happen yet.
  }
  EXPECT_EQ(before.count, 1);
  EXPECT_EQ(before.status, BP_OK);
  EXPECT_EQ(behind.count, 1);
  EXPECT_EQ(behind.status, BP_CANCELLED);
}

TEST(NpuEvent, NeverRecorded_CountsAsDone) {
  const Device device;
  const Stream stream(device);
  const Event event(device);
  EXPECT_EQ(event.query(), BP_OK);
  EXPECT_EQ(event.sync(), BP_OK);
  EXPECT_EQ(event.let_wait(stream), BP_OK);
  EXPECT_EQ(stream.sync(), BP_OK);
}

TEST(NpuEvent, Record_MeansTheWorkBeforeIt) {
  const Device device;
  const Stream stream(device);
  const Event event(device);
  EXPECT_EQ(event.record(stream), BP_OK);
  EXPECT_EQ(event.sync(), BP_OK);
  Gate gate(stream);
  EXPECT_EQ(event.query(), BP_OK);  // What is enqueued later doesn't matter.
  EXPECT_EQ(event.record(stream), BP_OK);
  EXPECT_EQ(event.query(), BP_PENDING);
  EXPECT_EQ(event.sync(0), BP_TIMEOUT);
  EXPECT_EQ(event.sync(1000), BP_TIMEOUT);
  gate.release();
  EXPECT_EQ(event.sync(), BP_OK);
}

TEST(NpuEvent, WaitAcrossStreams_OrdersTheirWork) {
  const Device device;
  const Stream producer(device);
  const Stream consumer(device);
  const Event event(device);
  const uint64_t handle = device.alloc(4);
  device.upload<int32_t>({handle, 0}, {1});
  const int32_t value = 2;
  int32_t seen = 0;
  Gate gate(producer);
  EXPECT_EQ(producer.copy(copy_args(BP_COPY_HOST_TO_DEVICE, {handle, 0}, host_mem(&value), 4)),
            BP_OK);
  EXPECT_EQ(event.record(producer), BP_OK);
  EXPECT_EQ(event.let_wait(consumer), BP_OK);
  EXPECT_EQ(consumer.copy(copy_args(BP_COPY_DEVICE_TO_HOST, host_mem(&seen), {handle, 0}, 4)),
            BP_OK);
  EXPECT_EQ(consumer.query(), BP_PENDING);
  gate.release();
  EXPECT_EQ(consumer.sync(), BP_OK);
  EXPECT_EQ(seen, 2);
  device.free(handle);
}

TEST(NpuEvent, Wait_MeansTheLatestRecordAtThatTime) {
  const Device device;
  const Stream first(device);
  const Stream second(device);
  const Stream waiter(device);
  const Event event(device);
  EXPECT_EQ(event.record(first), BP_OK);
  EXPECT_EQ(event.let_wait(waiter), BP_OK);
  Gate gate(second);
  EXPECT_EQ(event.record(second), BP_OK);
  EXPECT_EQ(waiter.sync(), BP_OK);  // It waits for the record of the first stream alone.
}

TEST(NpuEvent, DestroyedWhileAStreamWaits_DoesNotDisturbIt) {
  const Device device;
  const Stream producer(device);
  const Stream consumer(device);
  Event event(device);
  Calls calls;
  Gate gate(producer);
  EXPECT_EQ(event.record(producer), BP_OK);
  EXPECT_EQ(event.let_wait(consumer), BP_OK);
  EXPECT_EQ(consumer.host_call(Calls::call, &calls), BP_OK);
  event.destroy();
  EXPECT_EQ(calls.count, 0);
  gate.release();
  EXPECT_EQ(consumer.sync(), BP_OK);
  EXPECT_EQ(calls.count, 1);
}

TEST(NpuEvent, OfWorkThatFailed_BreaksWhoWaits) {
  const Device device;
  const Stream producer(device);
  const Stream consumer(device);
  const Event event(device);
  const uint64_t handle = device.alloc(4);
  const int32_t value = 1;
  Gate gate(producer);
  EXPECT_EQ(producer.copy(copy_args(BP_COPY_HOST_TO_DEVICE, {handle, 0}, host_mem(&value), 4)),
            BP_OK);
  EXPECT_EQ(event.record(producer), BP_OK);
  EXPECT_EQ(event.let_wait(consumer), BP_OK);
  device.free(handle);
  gate.release();
  EXPECT_EQ(event.sync(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(device.host().last_message(), HasSubstr("is not allocated"));
  EXPECT_EQ(event.query(), BP_INVALID_ARGUMENT);
  EXPECT_EQ(consumer.sync(), BP_INVALID_ARGUMENT);
  EXPECT_EQ(event.let_wait(consumer), BP_POISONED);
}

TEST(NpuEvent, OfADestroyedStream_IsCancelledIfWorkWasDropped) {
  const Device device;
  Stream producer(device);
  const Stream other(device);
  const Event dependency(device);
  const Event event(device);
  Gate gate(other);
  EXPECT_EQ(dependency.record(other), BP_OK);
  EXPECT_EQ(dependency.let_wait(producer), BP_OK);
  EXPECT_EQ(event.record(producer), BP_OK);
  producer.destroy();
  EXPECT_EQ(event.sync(), BP_CANCELLED);
}

TEST(NpuTiming, TwoRecords_GiveTheirDistance) {
  const Device device;
  const Stream stream(device);
  const Event start(device, BP_EVENT_TIMING_BIT);
  const Event end(device, BP_EVENT_TIMING_BIT);
  uint64_t elapsed_ns = ~uint64_t{0};
  EXPECT_EQ(start.record(stream), BP_OK);
  Gate gate(stream);
  EXPECT_EQ(end.record(stream), BP_OK);
  EXPECT_EQ(plugin().stream->event_elapsed(start.get(), end.get(), &elapsed_ns), BP_PENDING);
  gate.release();
  EXPECT_EQ(stream.sync(), BP_OK);
  EXPECT_EQ(plugin().stream->event_elapsed(start.get(), end.get(), &elapsed_ns), BP_OK);
  EXPECT_NE(elapsed_ns, ~uint64_t{0});
  EXPECT_EQ(plugin().stream->event_elapsed(start.get(), start.get(), &elapsed_ns), BP_OK);
  EXPECT_EQ(elapsed_ns, 0u);
}

TEST(NpuTiming, WhatWasNotTimed_IsRefused) {
  const Device device;
  const Stream stream(device);
  const Event timed(device, BP_EVENT_TIMING_BIT);
  const Event untimed(device);
  const Event unrecorded(device, BP_EVENT_TIMING_BIT);
  EXPECT_EQ(timed.record(stream), BP_OK);
  EXPECT_EQ(untimed.record(stream), BP_OK);
  EXPECT_EQ(stream.sync(), BP_OK);
  uint64_t elapsed_ns = 0;
  const bp_stream_api& api = *plugin().stream;
  EXPECT_EQ(api.event_elapsed(timed.get(), untimed.get(), &elapsed_ns), BP_INVALID_ARGUMENT);
  EXPECT_EQ(api.event_elapsed(timed.get(), unrecorded.get(), &elapsed_ns), BP_INVALID_ARGUMENT);
  EXPECT_EQ(api.event_elapsed(timed.get(), nullptr, &elapsed_ns), BP_INVALID_ARGUMENT);
  const Device without(OptionList{{"timing", "false"}});
  const Event event(without, BP_EVENT_TIMING_BIT);
  EXPECT_EQ(api.event_elapsed(event.get(), event.get(), &elapsed_ns), BP_UNSUPPORTED);
}

TEST(NpuThreads, StreamsOfManyThreads_DoAllTheirWork) {
  const Device device;
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&device, t] {
      const Stream stream(device);
      const Event event(device);
      const uint64_t handle = device.alloc(4);
      int32_t seen = -1;
      for (int32_t i = 0; i < 50; ++i) {
        const int32_t value = t * 1000 + i;
        EXPECT_EQ(stream.copy(copy_args(BP_COPY_HOST_TO_DEVICE, {handle, 0}, host_mem(&value), 4)),
                  BP_OK);
        EXPECT_EQ(stream.copy(copy_args(BP_COPY_DEVICE_TO_HOST, host_mem(&seen), {handle, 0}, 4)),
                  BP_OK);
        EXPECT_EQ(event.record(stream), BP_OK);
        EXPECT_EQ(event.sync(), BP_OK);
        EXPECT_EQ(seen, value);
      }
      device.free(handle);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace bp::npu_test
