// SPDX-License-Identifier: Apache-2.0
//
// Chunks on their tracks: two are in progress at a time, in any order of what arrives.
#include "ccl/group/chunked_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <numeric>

namespace bp::ccl {
namespace {

using testing::ElementsAre;

constexpr uint64_t kFewBytes = 4;

/// Another rank by hand.
class HandWire final : public Wire {
 public:
  void send(uint32_t, const Header& header, const void* data, Transfer* transfer) override {
    sent.push_back(header.step);
    const auto* const first = static_cast<const uint8_t*>(data);
    sent_bytes.insert(sent_bytes.end(), first, first + header.bytes);
    transfer->status.store(BP_OK);
  }
  const Arrival* front(const Queue& queue) override {
    for (const Message& message : waiting) {
      if (track_of(message.arrival.header) == queue.track) return &message.arrival;
    }
    return nullptr;
  }
  void receive_front(const Queue& queue, void* into, Transfer* transfer) override {
    const auto found = std::find_if(waiting.begin(), waiting.end(), [&](const Message& message) {
      return track_of(message.arrival.header) == queue.track;
    });
    std::copy(found->bytes.begin(), found->bytes.end(), static_cast<uint8_t*>(into));
    waiting.erase(found);
    transfer->status.store(BP_OK);
  }
  void cancel(Transfer*) override {}
  std::string rank_name(uint32_t rank) const override { return "rank " + std::to_string(rank); }

  struct Message {
    Arrival arrival;
    std::vector<uint8_t> bytes;
  };
  std::deque<Message> waiting;
  std::vector<uint32_t> sent;  // steps
  std::vector<uint8_t> sent_bytes;
};

class ChunkedRunTest : public testing::Test {
 protected:
  static std::shared_ptr<const Schedule> schedule_of(StepKind kind, uint64_t count) {
    Schedule schedule;
    Step step;
    step.kind = kind;
    step.peer = 1;
    const bool sends = kind == StepKind::kSend;
    (sends ? step.from : step.to) = {sends ? Buffer::kSend : Buffer::kRecv, 0, count};
    schedule.steps = {step};
    return std::make_shared<const Schedule>(schedule);
  }
  /// Of 18 bytes: four chunks and a half.
  void make(Kind kind, StepKind step) {
    args_.operation = {.kind = kind, .dtype = BP_DTYPE_U8, .root = 1, .count = values_.size()};
    args_.place = {0, 2};
    args_.sequence = 1;
    args_.part = {schedule_of(step, kFewBytes), {}, 0};
    args_.later_schedules = {schedule_of(step, values_.size() % kFewBytes)};
    run_ = *HostRun::make(args_);
    args_.track = 1;
    ChunkedRun::Args chunked;
    chunked.plan = {.count = values_.size(), .chunk_count = kFewBytes, .send_blocks = 1};
    chunked.plan.recv_blocks = 1;
    chunked.schedules = {{0, args_.part.schedule}, {4, args_.later_schedules[0]}};
    auto* const bytes = reinterpret_cast<std::byte*>(values_.data());
    chunked.memory = *make_host_chunks(chunked.plan, {bytes, bytes});
    chunked.second_run = *HostRun::make(args_);
    chunks_ = std::make_unique<ChunkedRun>(std::move(chunked));
  }
  bool advance() {
    const auto is_done = chunks_->advance(*run_, wire_);
    EXPECT_TRUE(is_done.ok()) << is_done.status().to_string();
    return is_done.ok() && *is_done;
  }
  void arrive(uint32_t message, uint32_t track, std::vector<uint8_t> bytes) {
    Operation sent = args_.operation;
    sent.kind = Kind::kSend;
    Arrival arrival{header_of(sent, args_.group, args_.sequence), 0};
    arrival.header.step = step_of(message, track);
    arrival.header.bytes = bytes.size();
    wire_.waiting.push_back({arrival, std::move(bytes)});
  }

  HostRunArgs args_;
  std::vector<uint8_t> values_ = std::vector<uint8_t>(18);
  HandWire wire_;
  std::unique_ptr<HostRun> run_;
  std::unique_ptr<ChunkedRun> chunks_;
};

TEST_F(ChunkedRunTest, ChunkIsDone_WhileTheOneBeforeItGoesOn) {
  make(Kind::kRecv, StepKind::kRecv);
  EXPECT_FALSE(advance());
  EXPECT_EQ(run_->waits_for().size(), 1u);
  EXPECT_EQ(chunks_->second_run().waits_for().size(), 1u);
  arrive(0, 1, {11, 12, 13, 14});
  EXPECT_FALSE(advance());
  arrive(1, 1, {21, 22, 23, 24});  // chunk 3, and chunk 0 has not come
  EXPECT_FALSE(advance());
  EXPECT_THAT(std::vector(values_.begin(), values_.begin() + 5), ElementsAre(0, 0, 0, 0, 11));
  EXPECT_THAT(std::vector(values_.begin() + 12, values_.end()), ElementsAre(21, 22, 23, 24, 0, 0));
  EXPECT_TRUE(chunks_->second_run().waits_for().empty());
  arrive(0, 0, {1, 2, 3, 4});
  arrive(1, 0, {5, 6, 7, 8});
  EXPECT_FALSE(advance());
  arrive(2, 0, {9, 10});
  EXPECT_TRUE(advance());
  EXPECT_THAT(values_, ElementsAre(1, 2, 3, 4, 11, 12, 13, 14, 5, 6, 7, 8, 21, 22, 23, 24, 9, 10));
}

TEST_F(ChunkedRunTest, EachTrackNumbersItsMessages) {
  make(Kind::kSend, StepKind::kSend);
  std::iota(values_.begin(), values_.end(), uint8_t{0});
  EXPECT_TRUE(advance());
  EXPECT_THAT(wire_.sent, ElementsAre(step_of(0, 0), step_of(1, 0), step_of(2, 0), step_of(0, 1),
                                      step_of(1, 1)));
  EXPECT_THAT(wire_.sent_bytes,
              ElementsAre(0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 4, 5, 6, 7, 12, 13, 14, 15));
}

TEST_F(ChunkedRunTest, MessageOfAnotherNumber_IsToldByWhoAndWhich) {
  make(Kind::kRecv, StepKind::kRecv);
  arrive(1, 1, {1, 2, 3, 4});
  const auto status = chunks_->advance(*run_, wire_).status();
  EXPECT_EQ(status.code(), BP_INTERNAL);
  EXPECT_THAT(status.message(), testing::HasSubstr("rank 1 runs recv u8 18 from 1 by another "
                                                   "schedule: expected message 0 of 4 bytes, "
                                                   "found message 1 of 4"));
  EXPECT_EQ(chunks_->second_run().culprit(), 1u);
  EXPECT_FALSE(chunks_->has_failed());
}

}  // namespace
}  // namespace bp::ccl
