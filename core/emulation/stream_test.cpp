// SPDX-License-Identifier: Apache-2.0
//
// Emulated streams: order, asynchronous copies, host calls, failures that stick, ends of all kinds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>

#include "core/emulation/emulation.hpp"
#include "core/emulation/fake_device.hpp"

namespace bp::testing {
namespace {

/// Makes the device's kernel append the op_seq of each launch, and fail where told.
struct LaunchLog {
  explicit LaunchLog(Opened& device, uint64_t failing_op_seq = 0, bp_status failure = BP_INTERNAL) {
    device.fake.on_launch = [=, this](const bp_launch_args& args) {
      if (args.op_seq == failing_op_seq) return failure;
      const std::lock_guard lock(mutex);
      seqs.push_back(args.op_seq);
      return BP_OK;
    };
  }
  std::mutex mutex;
  std::vector<uint64_t> seqs;
};

TEST(EmulatedStream, NoWork_QueryAndSync_AreDoneAtOnce) {
  Opened device;
  bp_stream* stream = device.stream();
  ASSERT_NE(stream, nullptr);
  EXPECT_EQ(device.table.stream_query(stream), BP_OK);
  EXPECT_EQ(device.table.stream_sync(stream, 0), BP_OK);
  EXPECT_EQ(emulated_failure(stream).op_seq, 0u);
  EXPECT_EQ(device.destroy(stream), BP_OK);
}

TEST(EmulatedStream, HostCallOfNull_IsRefusedAndTheStreamHealthy) {
  Opened device;
  bp_stream* stream = device.stream();
  EXPECT_EQ(device.table.stream_host_call(stream, nullptr, nullptr), BP_INVALID_ARGUMENT);
  EXPECT_EQ(device.fake.reports().size(), 1u);
  EXPECT_EQ(device.sync(stream), BP_OK);
  EXPECT_EQ(device.destroy(stream), BP_OK);
}

TEST(EmulatedStream, ManyLaunches_RunInOrder) {
  Opened device;
  LaunchLog log(device);
  bp_stream* stream = device.stream();
  for (uint64_t seq = 1; seq <= 500; ++seq) ASSERT_EQ(device.launch(stream, seq), BP_OK);
  ASSERT_EQ(device.sync(stream), BP_OK);
  std::vector<uint64_t> expected(500);
  std::iota(expected.begin(), expected.end(), 1);
  EXPECT_EQ(log.seqs, expected);
  device.destroy(stream);
}

TEST(EmulatedStream, AllKindsOfWork_NeverOvertake) {
  Opened device;
  bp_stream* stream = device.stream();
  const uint64_t handle = device.alloc(8);
  const uint64_t first = 0x1111111111111111;
  const uint64_t third = 0x3333333333333333;
  std::vector<uint64_t> seen;
  const auto look = [&](bp_status) {
    uint64_t value = 0;
    std::memcpy(&value, device.bytes_of(handle).data(), 8);
    seen.push_back(value);
  };
  device.fake.on_launch = [&](const bp_launch_args&) {
    look(BP_OK);
    return BP_OK;
  };
  device.copy_to_device(stream, handle, &first, 8);
  device.host_call(stream, look);
  device.fill(stream, {handle, 0}, 8, 0x22, 1);
  device.launch(stream, 1);
  device.copy_to_device(stream, handle, &third, 8);
  device.host_call(stream, look);
  ASSERT_EQ(device.sync(stream), BP_OK);
  EXPECT_EQ(seen, (std::vector<uint64_t>{first, 0x2222222222222222, third}));
  device.destroy(stream);
}

TEST(EmulatedStream, RunningWork_QueryIsPendingAndSyncTimesOut) {
  Opened device;
  Gate gate;
  bp_stream* stream = device.stream();
  device.host_call(stream, [gate](bp_status) { gate.wait(); });
  EXPECT_EQ(device.table.stream_query(stream), BP_PENDING);
  EXPECT_EQ(device.table.stream_sync(stream, 0), BP_TIMEOUT);
  EXPECT_EQ(device.table.stream_sync(stream, 1'000'000), BP_TIMEOUT);
  gate.open();
  EXPECT_EQ(device.table.stream_sync(stream, BP_TIMEOUT_FOREVER), BP_OK);
  device.destroy(stream);
}

TEST(EmulatedStream, SyncFromManyThreads_AllReturn) {
  Opened device;
  Gate gate;
  bp_stream* stream = device.stream();
  device.host_call(stream, [gate](bp_status) { gate.wait(); });
  std::atomic<int> ok_count{0};
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] { ok_count += device.sync(stream) == BP_OK ? 1 : 0; });
  }
  gate.open();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ok_count, 4);
  device.destroy(stream);
}

TEST(EmulatedStream, LaunchFails_LaterWorkIsNotRunAndFailureSticks) {
  Opened device;
  LaunchLog log(device, 2, BP_DEVICE_LOST);
  bp_stream* stream = device.stream();
  Gate gate;
  device.host_call(stream, [gate](bp_status) { gate.wait(); });
  for (uint64_t seq = 1; seq <= 4; ++seq) ASSERT_EQ(device.launch(stream, seq), BP_OK);
  gate.open();
  EXPECT_EQ(device.sync(stream), BP_DEVICE_LOST);
  EXPECT_EQ(device.sync(stream), BP_DEVICE_LOST);
  EXPECT_EQ(device.table.stream_query(stream), BP_DEVICE_LOST);
  EXPECT_EQ(log.seqs, std::vector<uint64_t>{1});
  EXPECT_EQ(emulated_failure(stream).op_seq, 2u);

  const uint64_t handle = device.alloc(8);
  const uint64_t value = 1;
  bp_event* event = device.event();
  EXPECT_EQ(device.launch(stream, 5), BP_POISONED);
  EXPECT_EQ(device.copy_to_device(stream, handle, &value, 8), BP_POISONED);
  EXPECT_EQ(device.fill(stream, {handle, 0}, 8, 1, 1), BP_POISONED);
  EXPECT_EQ(device.table.event_record(event, stream), BP_POISONED);
  EXPECT_EQ(device.table.event_wait(event, stream), BP_POISONED);
  device.table.event_destroy(event);
  EXPECT_EQ(device.destroy(stream), BP_OK);
}

TEST(EmulatedStream, LaunchFails_CopyAndFillBehindItAreSkipped) {
  Opened device;
  LaunchLog log(device, 1);
  bp_stream* stream = device.stream();
  const uint64_t handle = device.alloc(8);
  const uint64_t value = UINT64_MAX;
  Gate gate;
  device.host_call(stream, [gate](bp_status) { gate.wait(); });
  device.launch(stream, 1);
  EXPECT_EQ(device.copy_to_device(stream, handle, &value, 8), BP_OK);
  EXPECT_EQ(device.fill(stream, {handle, 0}, 8, 1, 1), BP_OK);
  gate.open();
  EXPECT_EQ(device.sync(stream), BP_INTERNAL);
  EXPECT_EQ(device.fake.copy_count, 0);
  EXPECT_EQ(device.bytes_of(handle), std::vector<std::byte>(8));
  device.destroy(stream);
}

TEST(EmulatedStream, LaunchFails_IsReportedWithStreamOpSeqAndKernel) {
  Opened device;
  LaunchLog log(device, 77, BP_OUT_OF_MEMORY);
  bp_stream* stream = device.stream();
  device.launch(stream, 77);
  EXPECT_EQ(device.sync(stream), BP_OUT_OF_MEMORY);
  const std::vector<Reported> reports = device.fake.reports();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].status, BP_OUT_OF_MEMORY);
  EXPECT_EQ(reports[0].op_seq, 77u);
  EXPECT_EQ(reports[0].stream, stream);
  const Failure failure = emulated_failure(stream);
  EXPECT_EQ(failure.slot, Slot::kLaunch);
  EXPECT_EQ(failure.kernel, &device.fake.kernel);
  device.destroy(stream);
}

TEST(EmulatedStream, FailureThatLooksUnfinished_IsInternal) {
  for (const bp_status status : {BP_PENDING, BP_TIMEOUT, -7, 999}) {
    Opened device;
    LaunchLog log(device, 1, status);
    bp_stream* stream = device.stream();
    device.launch(stream, 1);
    EXPECT_EQ(device.sync(stream), BP_INTERNAL) << status;
    device.destroy(stream);
  }
}

TEST(EmulatedStream, OneStreamFails_OthersGoOn) {
  Opened device;
  LaunchLog log(device, 1);
  bp_stream* broken = device.stream();
  bp_stream* healthy = device.stream();
  device.launch(broken, 1);
  EXPECT_EQ(device.sync(broken), BP_INTERNAL);
  EXPECT_EQ(device.launch(healthy, 2), BP_OK);
  EXPECT_EQ(device.sync(healthy), BP_OK);
  EXPECT_EQ(log.seqs, std::vector<uint64_t>{2});
  device.destroy(broken);
  device.destroy(healthy);
}

TEST(EmulatedStream, HostCall_RunsOnceWithTheStreamsStatus) {
  Opened device;
  LaunchLog log(device, 1, BP_INVALID_ARGUMENT);
  bp_stream* stream = device.stream();
  std::vector<bp_status> statuses;
  const auto note = [&](bp_status status) { statuses.push_back(status); };
  EXPECT_EQ(device.host_call(stream, note), BP_OK);
  EXPECT_EQ(device.launch(stream, 1), BP_OK);
  EXPECT_EQ(device.host_call(stream, note), BP_OK);
  EXPECT_EQ(device.sync(stream), BP_INVALID_ARGUMENT);
  EXPECT_EQ(device.host_call(stream, note), BP_OK);  // the stream is poisoned by now
  device.destroy(stream);
  EXPECT_EQ(statuses, (std::vector<bp_status>{BP_OK, BP_INVALID_ARGUMENT, BP_INVALID_ARGUMENT}));
}

TEST(EmulatedStream, HostCall_RunsOnTheWorkerUnderTheCallersLock) {
  Opened device;
  bp_stream* stream = device.stream();
  std::mutex mutex;
  std::thread::id called_on;
  {
    const std::lock_guard lock(mutex);
    device.host_call(stream, [&](bp_status) {
      const std::lock_guard inner(mutex);
      called_on = std::this_thread::get_id();
    });
  }
  ASSERT_EQ(device.sync(stream), BP_OK);
  EXPECT_NE(called_on, std::this_thread::get_id());
  EXPECT_NE(called_on, std::thread::id());
  device.destroy(stream);
}

TEST(EmulatedStream, HostCall_MayWaitForAnotherStream) {
  Opened device;
  bp_stream* waiting = device.stream();
  bp_stream* working = device.stream();
  std::atomic<bp_status> inner{BP_INTERNAL};
  LaunchLog log(device);
  device.host_call(waiting, [&](bp_status) { inner = device.sync(working); });
  device.launch(working, 1);
  EXPECT_EQ(device.sync(waiting), BP_OK);
  EXPECT_EQ(inner, BP_OK);
  device.destroy(waiting);
  device.destroy(working);
}

TEST(EmulatedStream, SyncOfItselfFromHostCall_IsRefusedNotDeadlocked) {
  Opened device;
  bp_stream* stream = device.stream();
  std::atomic<bp_status> inner{BP_OK};
  device.host_call(
      stream, [&](bp_status) { inner = device.table.stream_sync(stream, BP_TIMEOUT_FOREVER); });
  EXPECT_EQ(device.sync(stream), BP_OK);
  EXPECT_EQ(inner, BP_INVALID_ARGUMENT);
  device.destroy(stream);
}

TEST(EmulatedStream, DestroyWithPendingWork_FinishesIt) {
  Opened device;
  LaunchLog log(device);
  bp_stream* stream = device.stream();
  Gate gate;
  std::atomic<int> call_count{0};
  device.host_call(stream, [gate](bp_status) { gate.wait(); });
  for (uint64_t seq = 1; seq <= 20; ++seq) device.launch(stream, seq);
  device.host_call(stream, [&](bp_status) { ++call_count; });
  gate.open();
  EXPECT_EQ(device.destroy(stream), BP_OK);
  EXPECT_EQ(log.seqs.size(), 20u);
  EXPECT_EQ(call_count, 1);
}

TEST(EmulatedStream, DestroyWhileALaunchHangs_EndsAtItsDeadlineAndAbandonsTheDevice) {
  Opened device;
  const Gate gate;
  std::atomic<bool> hangs{false};
  device.fake.on_launch = [&hangs, gate](const bp_launch_args&) {
    hangs = true;
    gate.wait();
    return BP_OK;
  };
  device.table.gate->set_timeout(std::chrono::milliseconds(50));
  bp_stream* stream = device.stream();
  const auto used = std::make_shared<int>(1);
  ASSERT_EQ(device.launch(stream, 1, used), BP_OK);
  // An abandoned gate would refuse the launch.
  for (int i = 0; i < 6000 && !hangs; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(device.destroy(stream), BP_DEVICE_LOST);
  EXPECT_THAT(device.table.gate->why_abandoned(),
              ::testing::HasSubstr("stream_destroy did not return within 50 ms"));
  EXPECT_EQ(used.use_count(), 2) << "the launch may still use it";
  bp_stream* other = device.stream();
  EXPECT_EQ(device.destroy(other), BP_OK) << "one without work ends as ever";
  gate.open();
  while (used.use_count() > 1) std::this_thread::yield();
  const std::unique_ptr<EmulatedStream> left(&EmulatedStream::from(stream));  // leaks but here
}

TEST(EmulatedStream, DestroyedByItsOwnHostCall_FinishesWithoutDeadlock) {
  auto device = std::make_unique<Opened>();
  LaunchLog log(*device);
  bp_stream* stream = device->stream();
  Gate gate;
  Gate finished;
  std::atomic<size_t> launches_at_end{0};
  device->host_call(stream, [&, gate, finished](bp_status) {
    gate.wait();
    device->destroy(stream);
    launches_at_end = log.seqs.size();
    finished.open();
  });
  device->launch(stream, 1);
  device->launch(stream, 2);
  gate.open();
  finished.wait();
  EXPECT_EQ(launches_at_end, 2u);
  device.reset();  // the worker may still be on its way out; it touches nothing of the device
}

TEST(EmulatedStream, CopyAsync_ReadsItsSourceWhenItRunsAndItsArgumentsAtOnce) {
  Opened device;
  bp_stream* stream = device.stream();
  const uint64_t handle = device.alloc(4);
  Gate gate;
  std::array<uint8_t, 4> source{1, 2, 3, 4};
  bp_copy_args args{sizeof(bp_copy_args),
                    0,
                    BP_COPY_HOST_TO_DEVICE,
                    0,
                    {handle, 0},
                    {reinterpret_cast<uint64_t>(source.data()), 0},
                    source.size()};
  device.host_call(stream, [gate](bp_status) { gate.wait(); });
  ASSERT_EQ(device.table.mem_copy_async(stream, args), BP_OK);
  std::memset(&args, 0xEE, sizeof(args));
  EXPECT_EQ(device.fake.copy_count, 0);
  gate.open();
  ASSERT_EQ(device.sync(stream), BP_OK);
  EXPECT_EQ(device.fake.copy_count, 1);
  EXPECT_EQ(std::memcmp(device.bytes_of(handle).data(), source.data(), 4), 0);
  device.destroy(stream);
}

TEST(EmulatedStream, CopyAsync_UnknownKindIsRefusedAndStreamStaysHealthy) {
  Opened device;
  bp_stream* stream = device.stream();
  const bp_copy_args args{sizeof(bp_copy_args), 0, 9, 0, {1, 0}, {1, 0}, 1};
  EXPECT_EQ(device.table.mem_copy_async(stream, args), BP_UNSUPPORTED);
  EXPECT_EQ(device.sync(stream), BP_OK);
  ASSERT_EQ(device.fake.reports().size(), 1u);
  EXPECT_NE(device.fake.reports()[0].message.find("kind 9"), std::string::npos);
  device.destroy(stream);
}

TEST(EmulatedStream, CopyAsync_OutsideMemory_BreaksTheStreamWithoutOpSeq) {
  Opened device;
  bp_stream* stream = device.stream();
  const uint64_t handle = device.alloc(4);
  const std::array<uint8_t, 8> source{};
  EXPECT_EQ(device.copy_to_device(stream, handle, source.data(), 8), BP_OK);
  EXPECT_EQ(device.sync(stream), BP_INVALID_ARGUMENT);
  EXPECT_EQ(emulated_failure(stream).op_seq, 0u);
  EXPECT_EQ(emulated_failure(stream).slot, Slot::kMemCopy);
  ASSERT_EQ(device.fake.reports().size(), 1u);
  EXPECT_EQ(device.fake.reports()[0].stream, stream);
  device.destroy(stream);
}

TEST(EmulatedStream, UnknownCreateFlags_AreRefusedByName) {
  Opened device;
  const bp_stream_args args{sizeof(bp_stream_args), 4};
  bp_stream* stream = nullptr;
  EXPECT_EQ(device.table.stream_create(args, &stream), BP_UNSUPPORTED);
  EXPECT_EQ(stream, nullptr);
  ASSERT_EQ(device.fake.reports().size(), 1u);
  EXPECT_NE(device.fake.reports()[0].message.find("flags 4"), std::string::npos);
}

TEST(EmulatedStream, Hundred_EachKeepsItsOwnOrder) {
  Opened device;
  std::mutex mutex;
  std::map<uint64_t, std::vector<uint64_t>> seqs_of;
  device.fake.on_launch = [&](const bp_launch_args& args) {
    const std::lock_guard lock(mutex);
    seqs_of[args.op_seq >> 8].push_back(args.op_seq & 0xFF);
    return BP_OK;
  };
  std::vector<bp_stream*> streams(100);
  for (bp_stream*& stream : streams) stream = device.stream();
  for (uint64_t seq = 0; seq < 10; ++seq) {
    for (size_t i = 0; i < streams.size(); ++i) device.launch(streams[i], i << 8 | seq);
  }
  for (bp_stream* stream : streams) {
    EXPECT_EQ(device.sync(stream), BP_OK);
    device.destroy(stream);
  }
  ASSERT_EQ(seqs_of.size(), 100u);
  for (const auto& [stream, seqs] : seqs_of) {
    EXPECT_EQ(seqs, (std::vector<uint64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  }
}

TEST(EmulatedStream, InlineDevice_NullStreamRunsOnTheCallingThread) {
  Opened device;
  std::thread::id ran_on;
  device.fake.on_launch = [&](const bp_launch_args& args) {
    ran_on = std::this_thread::get_id();
    return args.stream == nullptr ? BP_UNSUPPORTED : BP_OK;
  };
  EXPECT_EQ(device.launch(nullptr, 1), BP_UNSUPPORTED);  // a call error, answered at once
  EXPECT_EQ(ran_on, std::this_thread::get_id());
}

}  // namespace
}  // namespace bp::testing
