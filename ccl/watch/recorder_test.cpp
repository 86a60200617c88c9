// SPDX-License-Identifier: Apache-2.0
//
// What the recorder keeps and forgets, and that readers beside writers see whole records only.
#include "ccl/watch/recorder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "ccl/watch/filled_recorder_test.hpp"

namespace bp::ccl {
namespace {

using std::chrono::milliseconds;

constexpr uint64_t kMs = 1'000'000;

RecordEntry numbered_entry(uint64_t number) {
  RecordEntry entry;
  entry.operation = {Kind::kReduceScatter, BP_DTYPE_BF16, Reduction::kMax, 0, number, true};
  entry.sequence = number;
  entry.send_bytes = 2 * number;
  entry.recv_bytes = 3 * number;
  entry.timeout_ns = 4 * number;
  entry.path = OperationPath::kStaged;
  return entry;
}

int64_t wall_now_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

TEST(Recorder, OneOperation_IsRecordedFromItsCallToItsEnd) {
  Recorder recorder;
  const auto begin = Recorder::Clock::now();
  const uint64_t id = recorder.begin(numbered_entry(7), begin);
  ASSERT_EQ(recorder.records().size(), 1u);
  Record record = recorder.records()[0];
  EXPECT_EQ(record.id, id);
  EXPECT_EQ(record.state, RecordState::kScheduled);
  EXPECT_EQ(record.entry.operation.kind, Kind::kReduceScatter);
  EXPECT_EQ(record.entry.operation.dtype, BP_DTYPE_BF16);
  EXPECT_EQ(record.entry.operation.reduction, Reduction::kMax);
  EXPECT_EQ(record.entry.operation.count, 7u);
  EXPECT_TRUE(record.entry.operation.is_deterministic);
  EXPECT_EQ(record.entry.sequence, 7u);
  EXPECT_EQ(record.entry.send_bytes, 14u);
  EXPECT_EQ(record.entry.recv_bytes, 21u);
  EXPECT_EQ(record.entry.timeout_ns, 28u);
  EXPECT_EQ(record.entry.path, OperationPath::kStaged);
  EXPECT_LT(std::abs(record.created_ns - wall_now_ns()), int64_t{60'000} * int64_t{kMs});
  EXPECT_EQ(record.started_ns, 0);

  recorder.started(id, begin + milliseconds(2));
  record = recorder.records()[0];
  EXPECT_EQ(record.state, RecordState::kStarted);
  EXPECT_EQ(record.started_ns - record.created_ns, int64_t{2 * kMs});
  EXPECT_EQ(record.completed_ns, 0);

  recorder.completed(id, BP_OK, begin + milliseconds(5));
  record = recorder.records()[0];
  EXPECT_EQ(record.state, RecordState::kCompleted);
  EXPECT_EQ(record.error, BP_OK);
  EXPECT_EQ(record.completed_ns - record.started_ns, int64_t{3 * kMs});
}

TEST(Recorder, PeerAndRoot_AreKept) {
  Recorder recorder;
  recorder.begin({.operation = send_to(5), .sequence = 1});
  recorder.begin({.operation = broadcast(3), .sequence = 1, .path = OperationPath::kNative});
  const std::vector<Record> records = recorder.records();
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].entry.operation.root, 5u);
  EXPECT_TRUE(records[0].entry.is_of_two());
  EXPECT_EQ(records[1].entry.operation.root, 3u);
  EXPECT_FALSE(records[1].entry.is_of_two());
  EXPECT_EQ(records[1].entry.path, OperationPath::kNative);
}

TEST(Recorder, Failure_IsTheStateWithItsCode) {
  Recorder recorder;
  recorder.completed(recorder.begin(numbered_entry(1)), BP_TIMEOUT);
  recorder.completed(recorder.begin(numbered_entry(2)), 4711);
  const std::vector<Record> records = recorder.records();
  EXPECT_EQ(records[0].state, RecordState::kFailed);
  EXPECT_EQ(records[0].error, BP_TIMEOUT);
  EXPECT_EQ(records[1].error, BP_INTERNAL);
  EXPECT_EQ(recorder.dump({}).last.completed, 0u);
}

TEST(Recorder, WhatIsToldTwice_CountsTheFirstTime) {
  Recorder recorder;
  const auto begin = Recorder::Clock::now();
  const uint64_t id = recorder.begin(numbered_entry(1), begin);
  recorder.started(id, begin + milliseconds(1));
  recorder.started(id, begin + milliseconds(2));
  recorder.completed(id, BP_CANCELLED, begin + milliseconds(3));
  recorder.completed(id, BP_OK, begin + milliseconds(4));
  recorder.started(id, begin + milliseconds(5));
  const Record record = recorder.records()[0];
  EXPECT_EQ(record.started_ns - record.created_ns, int64_t{1 * kMs});
  EXPECT_EQ(record.completed_ns - record.created_ns, int64_t{3 * kMs});
  EXPECT_EQ(record.error, BP_CANCELLED);
}

TEST(Recorder, MoreThanItHolds_TheLatestStay) {
  constexpr uint64_t kMore = 100;
  Recorder recorder;
  for (uint64_t i = 1; i <= Recorder::kCapacity; ++i) {
    const uint64_t id = recorder.begin(numbered_entry(i));
    recorder.started(id);
    recorder.completed(id, BP_TIMEOUT);
  }
  for (uint64_t i = 1; i <= kMore; ++i) recorder.begin(numbered_entry(Recorder::kCapacity + i));
  const std::vector<Record> records = recorder.records();
  ASSERT_EQ(records.size(), Recorder::kCapacity);
  for (uint64_t i = 0; i < records.size(); ++i) {
    ASSERT_EQ(records[i].id, kMore + i);
    ASSERT_EQ(records[i].entry.sequence, kMore + i + 1);
    // Nothing is left of what was there before.
    const bool is_new = records[i].id >= Recorder::kCapacity;
    ASSERT_EQ(records[i].state, is_new ? RecordState::kScheduled : RecordState::kFailed);
    ASSERT_EQ(records[i].started_ns == 0, is_new);
    ASSERT_EQ(records[i].completed_ns == 0, is_new);
    ASSERT_EQ(records[i].error, is_new ? BP_OK : BP_TIMEOUT);
  }
}

TEST(Recorder, OperationRecordedNoMore_ChangesNothing) {
  Recorder recorder;
  const uint64_t old = recorder.begin(numbered_entry(1));
  for (uint64_t i = 2; i <= Recorder::kCapacity + 1; ++i) recorder.begin(numbered_entry(i));
  recorder.started(old);
  recorder.completed(old, BP_TIMEOUT);
  for (const Record& record : recorder.records()) {
    ASSERT_EQ(record.state, RecordState::kScheduled) << record.id;
  }
  EXPECT_EQ(recorder.dump({}).last.started, 0u);
}

TEST(Recorder, NumberThatNeverBegan_ChangesNothing) {
  Recorder recorder;
  recorder.started(5);
  recorder.completed(6, BP_OK);
  EXPECT_TRUE(recorder.records().empty());
}

TEST(Recorder, RingFullOfSends_StillKnowsTheLatestCollectives) {
  Recorder recorder;
  recorder.completed(recorder.begin(numbered_entry(41)), BP_OK);
  recorder.started(recorder.begin(numbered_entry(42)));
  recorder.begin(numbered_entry(43));
  for (uint64_t i = 1; i <= Recorder::kCapacity; ++i) {
    const uint64_t id = recorder.begin({.operation = send_to(1), .sequence = 1000 + i});
    recorder.started(id);
    recorder.completed(id, BP_OK);
  }
  const LastSequences last = recorder.dump({}).last;
  EXPECT_EQ(last.entered, 43u);
  EXPECT_EQ(last.started, 42u);
  EXPECT_EQ(last.completed, 41u);
}

/// Whether all fields are of one call of write_one().
bool is_whole(const Record& record) {
  const RecordEntry& entry = record.entry;
  const uint64_t number = entry.operation.count;
  const bool has_started = record.state != RecordState::kScheduled;
  const bool is_over =
      record.state == RecordState::kCompleted || record.state == RecordState::kFailed;
  return entry.sequence == number && entry.send_bytes == 2 * number &&
         entry.recv_bytes == 3 * number && entry.timeout_ns == 4 * number &&
         (record.started_ns != 0) == has_started && (record.completed_ns != 0) == is_over &&
         (record.state == RecordState::kFailed) == (is_over && number % 2 == 0) &&
         (!has_started || record.started_ns - record.created_ns == static_cast<int64_t>(number)) &&
         (!is_over || record.completed_ns - record.created_ns == static_cast<int64_t>(2 * number));
}

void write_one(Recorder* recorder, uint64_t number) {
  const auto begin = Recorder::Clock::time_point(std::chrono::nanoseconds(1'000'000 + number));
  const uint64_t id = recorder->begin(numbered_entry(number), begin);
  recorder->started(id, begin + std::chrono::nanoseconds(number));
  recorder->completed(id, number % 2 == 0 ? BP_TIMEOUT : BP_OK,
                      begin + std::chrono::nanoseconds(2 * number));
}

TEST(Recorder, ReadersBesideWriters_SeeWholeRecordsOnly) {
  constexpr uint64_t kWriters = 6;
  constexpr int kReads = 400;
  constexpr auto kLongest = std::chrono::seconds(3);  // of which a sanitizer needs more
  Recorder recorder;
  std::atomic<bool> is_over{false};
  std::atomic<uint64_t> written{0};
  uint64_t torn = 0;
  uint64_t backward = 0;
  std::vector<uint64_t> newest(Recorder::kCapacity, 0);  // of each slot
  {
    std::vector<std::jthread> writers;
    for (uint64_t w = 0; w < kWriters; ++w) {
      writers.emplace_back([&, w] {
        for (uint64_t i = 1; !is_over; ++i) {
          write_one(&recorder, i * kWriters + w);
          ++written;
        }
      });
    }
    while (written < Recorder::kCapacity) std::this_thread::yield();
    const auto deadline = Recorder::Clock::now() + kLongest;
    for (int i = 0; i < kReads && Recorder::Clock::now() < deadline; ++i) {
      for (const Record& record : recorder.records()) {
        if (!is_whole(record)) ++torn;
        uint64_t& known = newest[record.id % Recorder::kCapacity];
        if (record.id < known) ++backward;
        known = record.id;
      }
    }
    is_over = true;
  }
  EXPECT_EQ(torn, 0u);
  EXPECT_EQ(backward, 0u);
  const std::vector<Record> records = recorder.records();
  ASSERT_EQ(records.size(), Recorder::kCapacity);
  for (uint64_t i = 0; i < records.size(); ++i) {
    ASSERT_TRUE(is_whole(records[i]));
    ASSERT_EQ(records[i].id, written - Recorder::kCapacity + i);
  }
}

TEST(Recorder, TellersOfOneOperation_OneOfThemCounts) {
  constexpr int kRounds = 500;
  Recorder recorder;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t id = recorder.begin(numbered_entry(1));
    {
      const std::jthread other([&] { recorder.completed(id, BP_TIMEOUT); });
      recorder.started(id);
      recorder.completed(id, BP_CANCELLED);
    }
    const Record record = recorder.records().back();
    ASSERT_EQ(record.state, RecordState::kFailed);
    ASSERT_THAT(record.error, testing::AnyOf(BP_TIMEOUT, BP_CANCELLED));
    ASSERT_NE(record.completed_ns, 0);
  }
}

}  // namespace
}  // namespace bp::ccl
