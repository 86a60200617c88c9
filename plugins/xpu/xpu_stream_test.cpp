// SPDX-License-Identifier: Apache-2.0
//
// Streams and events of xpu. A Gate holds a stream wherever a test needs work that is certainly not
// done yet; nothing here measures time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>

#include "xpu_test_support.hpp"

namespace bp::xpu_test {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<uint8_t>;

constexpr uint64_t kMillisecondNs = 1'000'000;

/// Appends (number, status) pairs to a list that the test reads after a sync.
struct CallLog {
  struct Call {
    CallLog* log;
    int number;
  };
  static void note(void* user, bp_status status) {
    const auto* call = static_cast<Call*>(user);
    const std::lock_guard lock(call->log->mutex);
    call->log->seen.emplace_back(call->number, status);
  }
  Call* make(int number) {
    calls.push_back(std::make_unique<Call>(Call{this, number}));
    return calls.back().get();
  }
  std::mutex mutex;
  std::vector<std::pair<int, bp_status>> seen;
  std::vector<std::unique_ptr<Call>> calls;
};

class XpuStreamTest : public XpuTest {
 protected:
  const bp_stream_api& api() { return *plugin_.stream; }
  void hold(Gate* gate, bp_stream* stream) { ASSERT_EQ(gate->hold(api(), stream), BP_OK); }
  bp_status sync(bp_stream* stream) { return api().stream_sync(stream, BP_TIMEOUT_FOREVER); }
};

TEST_F(XpuStreamTest, Query_FollowsTheWork) {
  Gate gate;
  bp_stream* stream = make_stream();
  EXPECT_EQ(api().stream_query(stream), BP_OK);
  EXPECT_EQ(api().stream_sync(stream, 0), BP_OK);
  hold(&gate, stream);
  EXPECT_EQ(api().stream_query(stream), BP_PENDING);
  EXPECT_EQ(api().stream_sync(stream, 0), BP_TIMEOUT);
  EXPECT_EQ(api().stream_sync(stream, 3 * kMillisecondNs), BP_TIMEOUT);
  gate.release();
  EXPECT_EQ(sync(stream), BP_OK);
  EXPECT_EQ(api().stream_query(stream), BP_OK);
  EXPECT_EQ(api().stream_destroy(stream), BP_OK);
}

TEST_F(XpuStreamTest, Work_RunsInOrderBehindAHostCall) {
  Gate gate;
  bp_stream* stream = make_stream();
  const uint64_t first = alloc(300);
  const uint64_t second = alloc(300);
  Bytes source(100, 9);
  Bytes result(300, 0xEE);
  hold(&gate, stream);
  EXPECT_EQ(fill({first, 0}, 300, 1, 1, stream), BP_OK);
  EXPECT_EQ(upload({first, 132}, source.data(), 100, stream), BP_OK);
  EXPECT_EQ(copy(BP_COPY_DEVICE_TO_DEVICE, {second, 0}, {first, 0}, 300, stream), BP_OK);
  EXPECT_EQ(fill({second, 4}, 8, 0x0605, 2, stream), BP_OK);
  EXPECT_EQ(download(result.data(), {second, 0}, 300, stream), BP_OK);
  EXPECT_EQ(result, Bytes(300, 0xEE)) << "the copies ran before the host call ended";
  EXPECT_EQ(api().stream_query(stream), BP_PENDING);
  gate.release();
  ASSERT_EQ(sync(stream), BP_OK);

  Bytes expected(300, 1);
  std::fill_n(expected.begin() + 132, 100, uint8_t{9});
  for (size_t i = 4; i < 12; ++i) expected[i] = static_cast<uint8_t>(5 + i % 2);
  EXPECT_EQ(result, expected);
  EXPECT_EQ(api().stream_destroy(stream), BP_OK);
  free(first);
  free(second);
}

TEST_F(XpuStreamTest, AsyncCopy_BadRange_IsACallErrorAndTheStreamIsHealthy) {
  bp_stream* stream = make_stream();
  const uint64_t handle = alloc(64);
  Bytes host(64, 4);
  EXPECT_EQ(upload({handle, 1}, host.data(), 64, stream), BP_INVALID_ARGUMENT);
  EXPECT_THAT(services().last_message(), HasSubstr("64 bytes at offset 1 reach beyond"));
  EXPECT_EQ(fill({handle, 60}, 8, 0, 4, stream), BP_INVALID_ARGUMENT);
  EXPECT_EQ(upload({handle, 0}, host.data(), 64, stream), BP_OK);
  EXPECT_EQ(sync(stream), BP_OK);
  EXPECT_EQ(read_bytes(handle, 64), host);
  EXPECT_EQ(api().stream_destroy(stream), BP_OK);
  free(handle);
}

TEST_F(XpuStreamTest, Event_NeverRecorded_IsDoneAndHoldsNothing) {
  bp_stream* stream = make_stream();
  bp_event* event = make_event();
  EXPECT_EQ(api().event_query(event), BP_OK);
  EXPECT_EQ(api().event_sync(event, 0), BP_OK);
  EXPECT_EQ(api().event_wait(event, stream), BP_OK);
  EXPECT_EQ(sync(stream), BP_OK);
  EXPECT_EQ(api().event_destroy(event), BP_OK);
  EXPECT_EQ(api().stream_destroy(stream), BP_OK);
}

TEST_F(XpuStreamTest, Event_MeansTheWorkBeforeItsRecord) {
  Gate gate;
  Gate later_gate;
  bp_stream* stream = make_stream();
  bp_event* event = make_event();
  hold(&gate, stream);
  ASSERT_EQ(api().event_record(event, stream), BP_OK);
  hold(&later_gate, stream);
  EXPECT_EQ(api().event_query(event), BP_PENDING);
  EXPECT_EQ(api().event_sync(event, 0), BP_TIMEOUT);
  EXPECT_EQ(api().event_sync(event, kMillisecondNs), BP_TIMEOUT);
  gate.release();
  EXPECT_EQ(api().event_sync(event, BP_TIMEOUT_FOREVER), BP_OK);
  EXPECT_EQ(api().event_query(event), BP_OK);
  EXPECT_EQ(api().stream_query(stream), BP_PENDING);
  later_gate.release();
  EXPECT_EQ(api().stream_destroy(stream), BP_OK);
  EXPECT_EQ(api().event_query(event), BP_OK);
  EXPECT_EQ(api().event_destroy(event), BP_OK);
}

TEST_F(XpuStreamTest, Wait_OrdersDataBetweenStreams) {
  for (int round = 0; round < 20; ++round) {
    Gate gate;
    bp_stream* producer = make_stream();
    bp_stream* consumer = make_stream();
    bp_event* event = make_event();
    const uint64_t handle = alloc(100);
    ASSERT_EQ(fill({handle, 0}, 100, 0, 1), BP_OK);
    const Bytes source(100, static_cast<uint8_t>(round + 1));
    Bytes result(100);
    hold(&gate, producer);
    ASSERT_EQ(upload({handle, 0}, source.data(), 100, producer), BP_OK);
    ASSERT_EQ(api().event_record(event, producer), BP_OK);
    ASSERT_EQ(api().event_wait(event, consumer), BP_OK);
    // Legal while the consumer waits for it.
    ASSERT_EQ(api().event_destroy(event), BP_OK);
    ASSERT_EQ(download(result.data(), {handle, 0}, 100, consumer), BP_OK);
    EXPECT_EQ(api().stream_query(consumer), BP_PENDING);
    gate.release();
    ASSERT_EQ(sync(consumer), BP_OK);
    EXPECT_EQ(result, source);
    EXPECT_EQ(api().stream_destroy(producer), BP_OK);
    EXPECT_EQ(api().stream_destroy(consumer), BP_OK);
    free(handle);
  }
}

TEST_F(XpuStreamTest, Wait_CapturesTheLatestRecordOnly) {
  Gate first_gate;
  Gate second_gate;
  bp_stream* first = make_stream();
  bp_stream* second = make_stream();
  bp_stream* early = make_stream();
  bp_stream* late = make_stream();
  bp_event* event = make_event();
  hold(&first_gate, first);
  hold(&second_gate, second);
  ASSERT_EQ(api().event_record(event, first), BP_OK);
  ASSERT_EQ(api().event_wait(event, early), BP_OK);
  ASSERT_EQ(api().event_record(event, second), BP_OK);
  ASSERT_EQ(api().event_wait(event, late), BP_OK);
  EXPECT_EQ(api().stream_query(early), BP_PENDING);
  first_gate.release();
  EXPECT_EQ(sync(early), BP_OK);
  EXPECT_EQ(api().event_query(event), BP_PENDING);
  EXPECT_EQ(api().stream_query(late), BP_PENDING);
  second_gate.release();
  EXPECT_EQ(sync(late), BP_OK);
  EXPECT_EQ(api().event_query(event), BP_OK);
  EXPECT_EQ(api().event_destroy(event), BP_OK);
  for (bp_stream* stream : {first, second, early, late}) {
    EXPECT_EQ(api().stream_destroy(stream), BP_OK);
  }
}

TEST_F(XpuStreamTest, Wait_OnItsOwnStream_HoldsNothing) {
  bp_stream* stream = make_stream();
  bp_event* event = make_event();
  ASSERT_EQ(api().event_record(event, stream), BP_OK);
  EXPECT_EQ(api().event_wait(event, stream), BP_OK);
  EXPECT_EQ(sync(stream), BP_OK);
  EXPECT_EQ(api().stream_destroy(stream), BP_OK);
  EXPECT_EQ(api().event_destroy(event), BP_OK);
}

TEST_F(XpuStreamTest, Chain_ThroughManyStreams_KeepsOrder) {
  constexpr size_t kStreams = 32;
  Gate gate;
  std::vector<bp_stream*> streams;
  std::vector<bp_event*> events;
  std::vector<uint64_t> handles;
  for (size_t i = 0; i < kStreams; ++i) {
    streams.push_back(make_stream());
    events.push_back(make_event());
    handles.push_back(alloc(64));
    ASSERT_EQ(fill({handles[i], 0}, 64, 0, 1), BP_OK);
  }
  hold(&gate, streams[0]);
  ASSERT_EQ(fill({handles[0], 0}, 64, 42, 1, streams[0]), BP_OK);
  for (size_t i = 1; i < kStreams; ++i) {
    ASSERT_EQ(api().event_record(events[i], streams[i - 1]), BP_OK);
    ASSERT_EQ(api().event_wait(events[i], streams[i]), BP_OK);
    ASSERT_EQ(copy(BP_COPY_DEVICE_TO_DEVICE, {handles[i], 0}, {handles[i - 1], 0}, 64, streams[i]),
              BP_OK);
  }
  gate.release();
  ASSERT_EQ(sync(streams.back()), BP_OK);
  EXPECT_EQ(read_bytes(handles.back(), 64), Bytes(64, 42));
  for (size_t i = 0; i < kStreams; ++i) {
    EXPECT_EQ(api().stream_destroy(streams[i]), BP_OK);
    EXPECT_EQ(api().event_destroy(events[i]), BP_OK);
    free(handles[i]);
  }
}

TEST_F(XpuStreamTest, PingPong_BetweenTwoStreams_KeepsOrder) {
  constexpr uint64_t kRounds = 200;
  Gate gate;
  bp_stream* streams[] = {make_stream(), make_stream()};
  bp_event* events[] = {make_event(), make_event()};
  const uint64_t handle = alloc(4 * kRounds);
  hold(&gate, streams[0]);
  for (uint64_t round = 0; round < kRounds; ++round) {
    const size_t self = round % 2;
    const uint64_t offset = 4 * round;
    if (round == 0) {
      ASSERT_EQ(fill({handle, 0}, 4, 77, 4, streams[self]), BP_OK);
    } else {
      ASSERT_EQ(api().event_wait(events[1 - self], streams[self]), BP_OK);
      ASSERT_EQ(
          copy(BP_COPY_DEVICE_TO_DEVICE, {handle, offset}, {handle, offset - 4}, 4, streams[self]),
          BP_OK);
    }
    ASSERT_EQ(api().event_record(events[self], streams[self]), BP_OK);
    if (round == kRounds / 2) gate.release();
  }
  EXPECT_EQ(sync(streams[0]), BP_OK);
  EXPECT_EQ(sync(streams[1]), BP_OK);
  uint32_t last = 0;
  EXPECT_EQ(download(&last, {handle, 4 * (kRounds - 1)}, 4), BP_OK);
  EXPECT_EQ(last, 77u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(api().stream_destroy(streams[i]), BP_OK);
    EXPECT_EQ(api().event_destroy(events[i]), BP_OK);
  }
  free(handle);
}

TEST_F(XpuStreamTest, Event_OfAnotherDevice_IsUnsupported) {
  bp_device* other = nullptr;
  ASSERT_EQ(instance_->open(0, {}, &other), BP_OK);
  const bp_event_args args{.struct_size = sizeof(args), .flags = 0};
  bp_event* event = nullptr;
  ASSERT_EQ(plugin_.stream->event_create(other, &args, &event), BP_OK);
  bp_stream* stream = make_stream();
  EXPECT_EQ(api().event_record(event, stream), BP_UNSUPPORTED);
  EXPECT_EQ(api().event_wait(event, stream), BP_UNSUPPORTED);
  EXPECT_THAT(services().last_message(), HasSubstr("another device"));
  EXPECT_EQ(api().stream_destroy(stream), BP_OK);
  EXPECT_EQ(api().event_destroy(event), BP_OK);
  EXPECT_EQ(plugin_.device->device_close(other), BP_OK);
}

TEST_F(XpuStreamTest, HostCalls_RunOnceEachInOrder) {
  CallLog log;
  bp_stream* stream = make_stream();
  const uint64_t handle = alloc(64);
  std::vector<std::pair<int, bp_status>> expected;
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(fill({handle, 0}, 64, static_cast<uint64_t>(i), 1, stream), BP_OK);
    ASSERT_EQ(api().stream_host_call(stream, CallLog::note, log.make(i)), BP_OK);
    expected.emplace_back(i, BP_OK);
  }
  ASSERT_EQ(sync(stream), BP_OK);
  EXPECT_EQ(log.seen, expected);
  EXPECT_EQ(api().stream_destroy(stream), BP_OK);
  EXPECT_EQ(log.seen, expected);
  free(handle);
}

TEST_F(XpuStreamTest, HostCalls_LeftAtDestroy_AreMadeBeforeItReturns) {
  CallLog log;
  bp_stream* stream = make_stream();
  const uint64_t handle = alloc(1 << 20);
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(fill({handle, 0}, 1 << 20, 1, 4, stream), BP_OK);
    ASSERT_EQ(api().stream_host_call(stream, CallLog::note, log.make(i)), BP_OK);
  }
  ASSERT_EQ(api().stream_destroy(stream), BP_OK);
  ASSERT_EQ(log.seen.size(), 10u);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(log.seen[static_cast<size_t>(i)], std::make_pair(i, bp_status{BP_OK}));
  }
  free(handle);
}

TEST_F(XpuStreamTest, HostCall_ThatBlocks_HoldsItsOwnStreamOnly) {
  Gate gate;
  CallLog log;
  bp_stream* held = make_stream();
  bp_stream* other = make_stream();
  const uint64_t handle = alloc(64);
  hold(&gate, held);
  ASSERT_EQ(fill({handle, 0}, 64, 5, 1, other), BP_OK);
  ASSERT_EQ(api().stream_host_call(other, CallLog::note, log.make(1)), BP_OK);
  ASSERT_EQ(sync(other), BP_OK);
  EXPECT_EQ(log.seen.size(), 1u);
  EXPECT_EQ(read_bytes(handle, 64), Bytes(64, 5)) << "the internal queue is not held either";
  EXPECT_EQ(api().stream_query(held), BP_PENDING);
  gate.release();
  EXPECT_EQ(api().stream_destroy(held), BP_OK);
  EXPECT_EQ(api().stream_destroy(other), BP_OK);
  free(handle);
}

TEST_F(XpuStreamTest, Destroy_WithPendingWork_LetsItFinish) {
  constexpr uint64_t kLargeBytes = 4 << 20;
  const uint64_t handle = alloc(kLargeBytes);
  Bytes result(kLargeBytes, 1);
  bp_stream* stream = make_stream();
  ASSERT_EQ(fill({handle, 0}, kLargeBytes, 0x1234, 2, stream), BP_OK);
  ASSERT_EQ(download(result.data(), {handle, 0}, kLargeBytes, stream), BP_OK);
  ASSERT_EQ(api().stream_destroy(stream), BP_OK);
  EXPECT_EQ(result[kLargeBytes - 2], 0x34);
  EXPECT_EQ(result[kLargeBytes - 1], 0x12);
  free(handle);
}

TEST_F(XpuStreamTest, Elapsed_AddsUp) {
  Gate gate;
  bp_stream* stream = make_stream();
  const uint64_t handle = alloc(1 << 16);
  std::vector<bp_event*> events;
  for (int i = 0; i < 3; ++i) {
    events.push_back(make_event(BP_EVENT_TIMING_BIT));
    if (i == 1) hold(&gate, stream);
    ASSERT_EQ(fill({handle, 0}, 1 << 16, 1, 1, stream), BP_OK);
    ASSERT_EQ(api().event_record(events.back(), stream), BP_OK);
  }
  uint64_t elapsed_ns = 0;
  EXPECT_EQ(api().event_elapsed(events[0], events[2], &elapsed_ns), BP_PENDING);
  gate.release();
  ASSERT_EQ(sync(stream), BP_OK);
  uint64_t first_ns = 0;
  uint64_t second_ns = 0;
  ASSERT_EQ(api().event_elapsed(events[0], events[1], &first_ns), BP_OK);
  ASSERT_EQ(api().event_elapsed(events[1], events[2], &second_ns), BP_OK);
  ASSERT_EQ(api().event_elapsed(events[0], events[2], &elapsed_ns), BP_OK);
  EXPECT_EQ(first_ns + second_ns, elapsed_ns);
  EXPECT_GT(elapsed_ns, 0u);
  ASSERT_EQ(api().event_elapsed(events[2], events[0], &first_ns), BP_INVALID_ARGUMENT);
  EXPECT_THAT(services().last_message(), HasSubstr("ns before the start event"));
  for (bp_event* event : events) EXPECT_EQ(api().event_destroy(event), BP_OK);
  EXPECT_EQ(api().stream_destroy(stream), BP_OK);
  free(handle);
}

TEST_F(XpuStreamTest, Elapsed_WithoutTimingOrRecord_IsRefused) {
  bp_stream* stream = make_stream();
  bp_event* timed = make_event(BP_EVENT_TIMING_BIT);
  bp_event* plain = make_event();
  bp_event* unrecorded = make_event(BP_EVENT_TIMING_BIT);
  ASSERT_EQ(api().event_record(timed, stream), BP_OK);
  ASSERT_EQ(api().event_record(plain, stream), BP_OK);
  ASSERT_EQ(sync(stream), BP_OK);
  uint64_t elapsed_ns = 7;
  EXPECT_EQ(api().event_elapsed(timed, plain, &elapsed_ns), BP_INVALID_ARGUMENT);
  EXPECT_EQ(services().last_message(), "event_elapsed: the end event was made without timing");
  EXPECT_EQ(api().event_elapsed(unrecorded, timed, &elapsed_ns), BP_INVALID_ARGUMENT);
  EXPECT_EQ(services().last_message(), "event_elapsed: the start event was never recorded");
  EXPECT_EQ(elapsed_ns, 7u);
  for (bp_event* event : {timed, plain, unrecorded}) {
    EXPECT_EQ(api().event_destroy(event), BP_OK);
  }
  EXPECT_EQ(api().stream_destroy(stream), BP_OK);
}

TEST_F(XpuStreamTest, UnknownFlags_AreUnsupported) {
  const bp_stream_args stream_args{.struct_size = sizeof(stream_args), .flags = 2};
  bp_stream* stream = nullptr;
  EXPECT_EQ(api().stream_create(device_, &stream_args, &stream), BP_UNSUPPORTED);
  EXPECT_EQ(stream, nullptr);
  const bp_event_args event_args{.struct_size = sizeof(event_args), .flags = 4};
  bp_event* event = nullptr;
  EXPECT_EQ(api().event_create(device_, &event_args, &event), BP_UNSUPPORTED);
  EXPECT_EQ(event, nullptr);
  EXPECT_EQ(services().last_message(), "bp_event_args: flags 4; this device knows 1");
}

TEST_F(XpuStreamTest, Threads_EachWithAStream_DoNotDisturbEachOther) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 50;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t, &wrong] {
      bp_stream* stream = make_stream();
      const uint64_t handle = alloc(1000);
      for (int round = 0; round < kRounds; ++round) {
        const Bytes source(996, static_cast<uint8_t>(t * kRounds + round));
        Bytes result(996);
        const bool ok = upload({handle, 4}, source.data(), 996, stream) == BP_OK &&
                        download(result.data(), {handle, 4}, 996, stream) == BP_OK &&
                        sync(stream) == BP_OK && result == source;
        if (!ok) wrong += 1;
      }
      EXPECT_EQ(api().stream_destroy(stream), BP_OK);
      free(handle);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace bp::xpu_test
