// SPDX-License-Identifier: Apache-2.0
//
// Emulated events: which record a wait means, what passes through it, and how long it lives.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "core/emulation/fake_device.hpp"

namespace bp::testing {
namespace {

class EmulatedEventTest : public ::testing::Test {
 protected:
  void TearDown() override {
    for (bp_stream* stream : {producer_, consumer_}) device_.destroy(stream);
    if (event_ == nullptr) return;
    EXPECT_EQ(api().event_destroy(event_), BP_OK);
  }
  const DeviceTable& api() { return device_.table; }
  void block(bp_stream* stream, const Gate& gate) {
    device_.host_call(stream, [gate](bp_status) { gate.wait(); });
  }

  Opened device_;
  bp_stream* producer_ = device_.stream();
  bp_stream* consumer_ = device_.stream();
  bp_event* event_ = device_.event();
};

TEST_F(EmulatedEventTest, Unrecorded_CountsAsDoneAndWaitIsNoop) {
  EXPECT_EQ(api().event_query(event_), BP_OK);
  EXPECT_EQ(api().event_sync(event_, 0), BP_OK);
  EXPECT_EQ(api().event_wait(event_, consumer_), BP_OK);
  EXPECT_EQ(api().stream_query(consumer_), BP_OK);
}

TEST_F(EmulatedEventTest, Recorded_IsPendingUntilTheWorkBeforeItIsDone) {
  Gate before;
  Gate after;
  block(producer_, before);
  ASSERT_EQ(api().event_record(event_, producer_), BP_OK);
  block(producer_, after);
  EXPECT_EQ(api().event_query(event_), BP_PENDING);
  EXPECT_EQ(api().event_sync(event_, 0), BP_TIMEOUT);
  EXPECT_EQ(api().event_sync(event_, 1'000'000), BP_TIMEOUT);
  before.open();
  EXPECT_EQ(api().event_sync(event_, Opened::kSoonNs), BP_OK);
  EXPECT_EQ(api().event_query(event_), BP_OK);
  EXPECT_EQ(api().stream_query(producer_), BP_PENDING);
  after.open();
}

TEST_F(EmulatedEventTest, Wait_HoldsLaterWorkOnly) {
  Gate gate;
  std::atomic<bool> produced{false};
  std::atomic<bool> produced_before_use{false};
  std::atomic<bool> early_ran{false};
  block(producer_, gate);
  device_.host_call(producer_, [&](bp_status) { produced = true; });
  api().event_record(event_, producer_);
  bp_event* early = device_.event();
  device_.host_call(consumer_, [&](bp_status) { early_ran = true; });
  api().event_record(early, consumer_);
  ASSERT_EQ(api().event_wait(event_, consumer_), BP_OK);
  device_.host_call(consumer_, [&](bp_status) { produced_before_use = produced.load(); });
  EXPECT_EQ(api().event_sync(early, Opened::kSoonNs), BP_OK);
  EXPECT_TRUE(early_ran);
  EXPECT_EQ(api().stream_query(consumer_), BP_PENDING);
  gate.open();
  EXPECT_EQ(device_.sync(consumer_), BP_OK);
  EXPECT_TRUE(produced_before_use);
  api().event_destroy(early);
}

TEST_F(EmulatedEventTest, ReRecorded_EarlierWaitKeepsItsRecord) {
  Gate second;
  api().event_record(event_, producer_);
  Gate first;
  block(producer_, first);
  api().event_record(event_, producer_);
  ASSERT_EQ(api().event_wait(event_, consumer_), BP_OK);  // means the record behind `first`
  block(producer_, second);
  api().event_record(event_, producer_);
  first.open();
  EXPECT_EQ(device_.sync(consumer_), BP_OK);
  EXPECT_EQ(api().event_query(event_), BP_PENDING);  // the latest record is behind `second`
  second.open();
  EXPECT_EQ(api().event_sync(event_, Opened::kSoonNs), BP_OK);
}

TEST_F(EmulatedEventTest, RecordedOnce_ManyMayWait) {
  Gate gate;
  block(producer_, gate);
  api().event_record(event_, producer_);
  bp_stream* third = device_.stream();
  EXPECT_EQ(api().event_wait(event_, consumer_), BP_OK);
  EXPECT_EQ(api().event_wait(event_, consumer_), BP_OK);
  EXPECT_EQ(api().event_wait(event_, third), BP_OK);
  EXPECT_EQ(api().event_wait(event_, producer_), BP_OK);  // on itself
  gate.open();
  EXPECT_EQ(device_.sync(consumer_), BP_OK);
  EXPECT_EQ(device_.sync(third), BP_OK);
  EXPECT_EQ(device_.sync(producer_), BP_OK);
  device_.destroy(third);
}

TEST_F(EmulatedEventTest, DestroyedWhileWaitedFor_WorkIsNotDisturbed) {
  Gate gate;
  std::atomic<bool> produced{false};
  std::atomic<bool> seen{false};
  block(producer_, gate);
  device_.host_call(producer_, [&](bp_status) { produced = true; });
  api().event_record(event_, producer_);
  api().event_wait(event_, consumer_);
  device_.host_call(consumer_, [&](bp_status) { seen = produced.load(); });
  ASSERT_EQ(api().event_destroy(event_), BP_OK);
  event_ = nullptr;
  gate.open();
  EXPECT_EQ(device_.sync(consumer_), BP_OK);
  EXPECT_TRUE(seen);
}

TEST_F(EmulatedEventTest, ProducerDestroyed_ItsRecordStillEnds) {
  Gate gate;
  bp_stream* gone = device_.stream();
  block(gone, gate);
  api().event_record(event_, gone);
  api().event_wait(event_, consumer_);
  gate.open();
  device_.destroy(gone);
  EXPECT_EQ(device_.sync(consumer_), BP_OK);
  EXPECT_EQ(api().event_query(event_), BP_OK);
}

TEST_F(EmulatedEventTest, RecordedWorkFails_FailureReachesWaitersWithItsOpSeq) {
  Gate gate;
  device_.fake.on_launch = [](const bp_launch_args& args) {
    return args.op_seq == 5 ? BP_OUT_OF_MEMORY : BP_OK;
  };
  block(producer_, gate);
  device_.launch(producer_, 5);
  api().event_record(event_, producer_);
  api().event_wait(event_, consumer_);
  std::atomic<bp_status> told{BP_OK};
  device_.host_call(consumer_, [&](bp_status status) { told = status; });
  gate.open();
  EXPECT_EQ(api().event_sync(event_, Opened::kSoonNs), BP_OUT_OF_MEMORY);
  EXPECT_EQ(api().event_query(event_), BP_OUT_OF_MEMORY);
  EXPECT_EQ(device_.sync(consumer_), BP_OUT_OF_MEMORY);
  EXPECT_EQ(told, BP_OUT_OF_MEMORY);
  EXPECT_EQ(emulated_failure(consumer_).op_seq, 5u);
  EXPECT_EQ(device_.launch(consumer_, 6), BP_POISONED);
}

TEST_F(EmulatedEventTest, WaitForFailedRecord_FailsAfterTheWorkBefore) {
  device_.fake.on_launch = [](const bp_launch_args& args) {
    return args.op_seq == 1 ? BP_INTERNAL : BP_OK;
  };
  Gate failing;
  block(producer_, failing);
  device_.launch(producer_, 1);
  api().event_record(event_, producer_);
  failing.open();
  ASSERT_EQ(device_.sync(producer_), BP_INTERNAL);
  Gate gate;
  std::atomic<bp_status> before{BP_INTERNAL};
  block(consumer_, gate);
  device_.host_call(consumer_, [&](bp_status status) { before = status; });
  EXPECT_EQ(api().event_wait(event_, consumer_), BP_OK);
  gate.open();
  EXPECT_EQ(device_.sync(consumer_), BP_INTERNAL);
  EXPECT_EQ(before, BP_OK);
}

TEST_F(EmulatedEventTest, RecordOnPoisonedStream_KeepsTheRecordBefore) {
  api().event_record(event_, consumer_);
  ASSERT_EQ(api().event_sync(event_, Opened::kSoonNs), BP_OK);
  device_.fake.on_launch = [](const bp_launch_args&) { return BP_INTERNAL; };
  device_.launch(producer_, 1);
  device_.sync(producer_);
  EXPECT_EQ(api().event_record(event_, producer_), BP_POISONED);
  EXPECT_EQ(api().event_query(event_), BP_OK);
}

TEST_F(EmulatedEventTest, FailureDoesNotReachStreamsThatDoNotWait) {
  device_.fake.on_launch = [](const bp_launch_args& args) {
    return args.op_seq == 1 ? BP_INTERNAL : BP_OK;
  };
  api().event_record(event_, producer_);
  ASSERT_EQ(api().event_sync(event_, Opened::kSoonNs), BP_OK);
  device_.launch(producer_, 1);
  EXPECT_EQ(device_.sync(producer_), BP_INTERNAL);
  EXPECT_EQ(api().event_wait(event_, consumer_), BP_OK);  // recorded before the failure
  EXPECT_EQ(device_.launch(consumer_, 2), BP_OK);
  EXPECT_EQ(device_.sync(consumer_), BP_OK);
}

TEST_F(EmulatedEventTest, Chain_OfThousandWaitsKeepsOrder) {
  uint64_t counter = 0;  // unsynchronised on purpose: the waits are the synchronisation
  std::vector<bp_event*> events;
  for (int i = 0; i < 1000; ++i) {
    bp_stream* from = i % 2 == 0 ? producer_ : consumer_;
    bp_stream* to = i % 2 == 0 ? consumer_ : producer_;
    device_.host_call(from, [&](bp_status) { ++counter; });
    events.push_back(device_.event());
    ASSERT_EQ(api().event_record(events.back(), from), BP_OK);
    ASSERT_EQ(api().event_wait(events.back(), to), BP_OK);
  }
  for (bp_event* event : events) api().event_destroy(event);
  EXPECT_EQ(device_.sync(producer_), BP_OK);
  EXPECT_EQ(device_.sync(consumer_), BP_OK);
  EXPECT_EQ(counter, 1000u);
}

TEST_F(EmulatedEventTest, QueriedFromOtherThreadsWhileReRecorded_IsSafe) {
  std::atomic<bool> stop{false};
  std::atomic<int> bad_count{0};
  std::thread asking([&] {
    while (!stop) {
      const bp_status status = api().event_query(event_);
      if (status != BP_OK && status != BP_PENDING) ++bad_count;
      if (api().event_sync(event_, Opened::kSoonNs) != BP_OK) ++bad_count;
    }
  });
  for (int i = 0; i < 500; ++i) ASSERT_EQ(api().event_record(event_, producer_), BP_OK);
  ASSERT_EQ(device_.sync(producer_), BP_OK);
  stop = true;
  asking.join();
  EXPECT_EQ(bad_count, 0);
}

TEST_F(EmulatedEventTest, OfAnotherDevice_IsRefused) {
  Opened other;
  bp_stream* stream = other.stream();
  bp_event* event = device_.event();
  EXPECT_EQ(other.table.event_record(event, stream), BP_UNSUPPORTED);
  EXPECT_EQ(other.table.event_wait(event, stream), BP_UNSUPPORTED);
  EXPECT_EQ(other.sync(stream), BP_OK);
  EXPECT_EQ(other.destroy(stream), BP_OK);
  EXPECT_EQ(device_.table.event_destroy(event), BP_OK);
}

TEST_F(EmulatedEventTest, UnknownCreateFlags_AreRefused) {
  EXPECT_EQ(device_.event(8), nullptr);
  ASSERT_EQ(device_.fake.reports().size(), 1u);
  EXPECT_EQ(device_.fake.reports()[0].status, BP_UNSUPPORTED);
}

class EmulatedElapsedTest : public EmulatedEventTest {
 protected:
  void TearDown() override {
    for (bp_event* event : {start_, end_}) api().event_destroy(event);
    EmulatedEventTest::TearDown();
  }
  bp_event* start_ = device_.event(BP_EVENT_TIMING_BIT);
  bp_event* end_ = device_.event(BP_EVENT_TIMING_BIT);
  uint64_t elapsed_ns_ = 42;
};

TEST_F(EmulatedElapsedTest, FinishedRecords_GiveTheTimeBetween) {
  api().event_record(start_, producer_);
  device_.host_call(producer_,
                    [](bp_status) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); });
  api().event_record(end_, producer_);
  device_.sync(producer_);
  ASSERT_EQ(api().event_elapsed(start_, end_, &elapsed_ns_), BP_OK);
  EXPECT_GE(elapsed_ns_, 2'000'000u);
  EXPECT_EQ(api().event_elapsed(start_, start_, &elapsed_ns_), BP_OK);
  EXPECT_EQ(elapsed_ns_, 0u);
}

TEST_F(EmulatedElapsedTest, UnfinishedRecord_IsPending) {
  Gate gate;
  api().event_record(start_, producer_);
  block(producer_, gate);
  api().event_record(end_, producer_);
  EXPECT_EQ(api().event_elapsed(start_, end_, &elapsed_ns_), BP_PENDING);
  gate.open();
  EXPECT_EQ(elapsed_ns_, 42u);
}

TEST_F(EmulatedElapsedTest, BadEvents_AreRefused) {
  EXPECT_EQ(api().event_elapsed(start_, end_, &elapsed_ns_), BP_INVALID_ARGUMENT);  // unrecorded
  api().event_record(start_, producer_);
  api().event_record(event_, producer_);
  device_.sync(producer_);
  api().event_record(end_, producer_);
  device_.sync(producer_);
  EXPECT_EQ(api().event_elapsed(start_, event_, &elapsed_ns_), BP_INVALID_ARGUMENT);  // no timing
  EXPECT_EQ(api().event_elapsed(end_, start_, &elapsed_ns_), BP_INVALID_ARGUMENT);    // backwards
  EXPECT_EQ(elapsed_ns_, 42u);
  EXPECT_EQ(device_.fake.reports().size(), 3u);
}

TEST_F(EmulatedElapsedTest, FailedRecord_IsRefused) {
  Gate gate;
  device_.fake.on_launch = [](const bp_launch_args&) { return BP_INTERNAL; };
  api().event_record(start_, producer_);
  block(producer_, gate);
  device_.launch(producer_, 1);
  api().event_record(end_, producer_);
  gate.open();
  device_.sync(producer_);
  EXPECT_EQ(api().event_elapsed(start_, end_, &elapsed_ns_), BP_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace bp::testing
