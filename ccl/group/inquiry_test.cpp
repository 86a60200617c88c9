// SPDX-License-Identifier: Apache-2.0
//
// Who is blamed at a deadline, by what the ranks answer and what the system tells of those that do
// not.
#include "ccl/group/inquiry.hpp"

#include <gmock/gmock.h>

namespace bp::ccl {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Whereabouts entered(uint64_t sequence) {
  Whereabouts here;
  here.entered = sequence;
  return here;
}

/// In a collective, with those before it completed.
Whereabouts in(uint64_t sequence, std::string operation = "all_reduce sum f32 3") {
  Whereabouts here = entered(sequence);
  here.completed = sequence - 1;
  here.operation = std::move(operation);
  return here;
}
Whereabouts completed(uint64_t sequence) {
  Whereabouts here = in(sequence);
  here.completed = sequence;
  return here;
}

const Operation kSumOfThree = {.kind = Kind::kAllReduce, .dtype = BP_DTYPE_F32, .count = 3};

Inquiry::Args args_of(Operation operation, Whereabouts own) {
  return {
      .overdue = {.operation = operation, .sequence = 7, .timeout = seconds(2), .waits_for = {}},
      .place = {0, 4},
      .names = {"rank 0", "rank 1", "rank 2", "rank 3"},
      .own = std::move(own),
      .groups_behind = {}};
}

/// Of rank 0 of four, which waits for a sum; nobody hears what it asks.
class InquiryTest : public testing::Test {
 protected:
  InquiryTest()
      : messenger_(*Messenger::create(make_loop_engine())),
        control_(*messenger_, 1, {0, 1, 2, 3}),
        inquiry_(args_of(kSumOfThree, entered(7)), &control_, begin_) {}
  ~InquiryTest() override {
    messenger_->run_exclusively([&] { control_.end(); });
  }
  /// Of the ranks that do not answer.
  Failure failure(std::map<uint32_t, PeerState> states) {
    return inquiry_.failure([&](uint32_t rank) { return states.at(rank); });
  }

  /// Of another inquiry, where all answer: this rank first.
  Failure failure_of(const Operation& operation, const std::vector<Whereabouts>& ranks) {
    Inquiry inquiry(args_of(operation, ranks[0]), &control_, begin_);
    for (uint32_t rank = 1; rank < ranks.size(); ++rank) inquiry.answered(rank, ranks[rank]);
    return inquiry.failure([](uint32_t) { return PeerState::kRuns; });
  }

  const Clock::time_point begin_ = Clock::now();
  const std::shared_ptr<Messenger> messenger_;
  Control control_;
  Inquiry inquiry_;
};

TEST_F(InquiryTest, RanksThatAreSilentBesideAStoppedOne_AreNotBlamed) {
  inquiry_.answered(3, entered(7));
  const Failure told = failure({{1, PeerState::kStopped}, {2, PeerState::kRuns}});
  EXPECT_EQ(told.code, BP_TIMEOUT);
  EXPECT_THAT(told.culprits, ElementsAre(1));
  EXPECT_THAT(told.words,
              HasSubstr("rank 1 does not answer: its process is stopped; rank 2 is not "
                        "heard, whose words may be stuck behind those of a stopped one"));
}

TEST_F(InquiryTest, RanksOfOtherHosts_AreBlamedBesideAStoppedOne) {
  inquiry_.answered(3, entered(7));
  const Failure told = failure({{1, PeerState::kStopped}, {2, PeerState::kUnknown}});
  EXPECT_THAT(told.culprits, ElementsAre(1, 2));
  EXPECT_THAT(told.words, HasSubstr("rank 2 does not answer"));
}

TEST_F(InquiryTest, RanksThatAreSilentWhereNoneIsStopped_AreBlamed) {
  inquiry_.lost(3);
  const Failure told = failure({{1, PeerState::kRuns}, {2, PeerState::kUnknown}});
  EXPECT_THAT(told.culprits, ElementsAre(1, 2, 3));
  EXPECT_THAT(told.words,
              HasSubstr("rank 1 does not answer; rank 2 does not answer; rank 3 is gone"));
  EXPECT_THAT(told.words, Not(HasSubstr("stopped")));
}

TEST_F(InquiryTest, RanksThatAreElsewhere_AreToldWithWhatTheyCalledLast) {
  inquiry_.answered(1, entered(0));
  inquiry_.answered(2, entered(7));
  Whereabouts here = entered(6);
  here.completed = 6;
  here.operation = "barrier";
  inquiry_.answered(3, here);
  const Failure told = failure({});
  EXPECT_THAT(told.culprits, ElementsAre(1, 3));
  EXPECT_THAT(told.words, HasSubstr("rank 1 never entered it, it has called nothing yet; rank 3 "
                                    "never entered it, its last was number 6 (barrier)"));
}

TEST_F(InquiryTest, RanksThatAreInAnEarlierOne_AreToldAndNotBlamed) {
  const Failure told =
      failure_of(kSumOfThree, {in(7), in(5, "broadcast f32 3 root 0"), in(7), in(7)});
  EXPECT_EQ(told.code, BP_TIMEOUT);
  EXPECT_THAT(told.culprits, IsEmpty());
  EXPECT_THAT(told.words, EndsWith(" ms: rank 1 is still in number 5 (broadcast f32 3 root 0)"));
}

TEST_F(InquiryTest, RankThatNeverEnteredIt_IsBlamedBesideThoseInAnEarlierOne) {
  const Failure told = failure_of(kSumOfThree, {in(7), in(5), completed(4), in(7)});
  EXPECT_THAT(told.culprits, ElementsAre(2));
}

TEST_F(InquiryTest, RankThatCompletedWhatMostAreStillIn_IsBlamed) {
  Whereabouts ahead = completed(7);
  ahead.entered = 8;
  Failure told = failure_of(kSumOfThree, {in(7), ahead, in(7), in(7)});
  EXPECT_THAT(told.culprits, ElementsAre(1));
  EXPECT_THAT(told.words,
              EndsWith(" ms: all ranks have entered it, and it is not over; rank 1 says that it "
                       "has completed number 7, while others are still in number 7"));
  // Asked by that rank itself, in the next one.
  told = failure_of(kSumOfThree, {in(7), in(6), in(6), in(6)});
  EXPECT_THAT(told.culprits, ElementsAre(0));
  EXPECT_THAT(told.words, EndsWith("rank 3 is still in number 6 (all_reduce sum f32 3); rank 0 "
                                   "says that it has completed number 6, while others are "
                                   "still in number 6"));
}

TEST_F(InquiryTest, RanksThatCompletedWhatFewAreStillIn_AreToldAndNotBlamed) {
  for (const Whereabouts& third : {in(7), completed(7)}) {
    const Failure told = failure_of(kSumOfThree, {in(7), completed(7), completed(7), third});
    EXPECT_THAT(told.culprits, IsEmpty());
    EXPECT_THAT(told.words, HasSubstr("rank 2 says that it has completed number 7"));
  }
}

TEST_F(InquiryTest, RankThatMayCompleteItAlone_IsNotBlamed) {
  const auto with = [](Kind kind, uint64_t count, uint64_t blocks = 0) {
    return Operation{.kind = kind, .dtype = BP_DTYPE_F32, .count = count, .blocks = blocks};
  };
  for (const Operation& operation :
       {with(Kind::kBroadcast, 3), with(Kind::kReduce, 3), with(Kind::kScatter, 3),
        with(Kind::kGather, 3), with(Kind::kAllReduce, 0), with(Kind::kAllGather, 3, 0xabcd),
        with(Kind::kAllToAll, 0, kOwnBlocks)}) {
    const Failure told = failure_of(operation, {in(7), completed(7), in(7), in(7)});
    EXPECT_THAT(told.culprits, IsEmpty()) << describe(operation);
    EXPECT_THAT(told.words, EndsWith(": all ranks have entered it, and it is not over"));
  }
  for (const Operation& operation : {with(Kind::kAllGather, 3), with(Kind::kReduceScatter, 3),
                                     with(Kind::kAllToAll, 3), Operation{.kind = Kind::kBarrier}}) {
    const Failure told = failure_of(operation, {in(7), completed(7), in(7), in(7)});
    EXPECT_THAT(told.culprits, ElementsAre(1)) << describe(operation);
  }
}

// Operations by messages are not in the order of the plugin's in other streams.
TEST_F(InquiryTest, RankThatCompletedALaterOne_IsToldAndNotBlamed) {
  Failure told = failure_of(kSumOfThree, {in(7), completed(9), in(7), in(7)});
  EXPECT_THAT(told.culprits, IsEmpty());
  EXPECT_THAT(told.words, EndsWith("and it is not over; rank 1 says that it has completed number "
                                   "9, while others are still in number 7"));
  // Nobody is behind then.
  told = failure_of(kSumOfThree, {completed(8), completed(8), completed(8), completed(8)});
  EXPECT_THAT(told.culprits, IsEmpty());
  EXPECT_THAT(told.words, EndsWith(": all ranks have entered it, and it is not over"));
}

TEST_F(InquiryTest, OtherEndOfWhichNothingIsKnown_IsNotBlamed) {
  const Operation recv = {.kind = Kind::kRecv, .dtype = BP_DTYPE_F32, .root = 2, .count = 3};
  const Failure told = failure_of(recv, {in(7), completed(7), in(7), in(7)});
  EXPECT_THAT(told.culprits, IsEmpty());
  EXPECT_THAT(told.words, EndsWith(": whether its other end is there, on rank 2, is not known"));
}

TEST_F(InquiryTest, IsOver_AfterASecond) {
  for (int ms = 50; ms < 1000; ms += 50) {
    EXPECT_FALSE(inquiry_.is_over(begin_ + milliseconds(ms))) << ms;
    EXPECT_LE(inquiry_.next_look(), begin_ + milliseconds(ms + 50));
  }
  EXPECT_TRUE(inquiry_.is_over(begin_ + seconds(1)));
}

TEST_F(InquiryTest, IsOver_WhenAllHaveAnswered) {
  inquiry_.answered(1, {});
  inquiry_.answered(2, {});
  EXPECT_FALSE(inquiry_.is_over(begin_));
  inquiry_.lost(3);
  EXPECT_TRUE(inquiry_.is_over(begin_));
}

TEST_F(InquiryTest, TimeInWhichTheRankStoodStill_IsNotCounted) {
  // It wakes late: others have a second from then, less the pause that looks may have.
  const auto woken = begin_ + milliseconds(900);
  EXPECT_FALSE(inquiry_.is_over(woken));
  EXPECT_FALSE(inquiry_.is_over(woken + milliseconds(50)));
  for (int ms = 100; ms <= 900; ms += 50) {
    EXPECT_FALSE(inquiry_.is_over(woken + milliseconds(ms))) << ms;
  }
  EXPECT_TRUE(inquiry_.is_over(woken + milliseconds(950)));
}

TEST_F(InquiryTest, RankThatStandsStillAgainAndAgain_EndsAllTheSame) {
  auto now = begin_;
  while (now < begin_ + seconds(5)) {
    EXPECT_EQ(inquiry_.is_over(now), false);
    now += milliseconds(500);
  }
  EXPECT_TRUE(inquiry_.is_over(now));
}

}  // namespace
}  // namespace bp::ccl
