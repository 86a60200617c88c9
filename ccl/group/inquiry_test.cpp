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
using testing::HasSubstr;
using testing::Not;

Whereabouts entered(uint64_t sequence) {
  Whereabouts here;
  here.entered = sequence;
  return here;
}

/// Of rank 0 of four, which waits for a sum; nobody hears what it asks.
class InquiryTest : public testing::Test {
 protected:
  InquiryTest()
      : messenger_(*Messenger::create(make_loop_engine())),
        control_(*messenger_, 1, {0, 1, 2, 3}),
        inquiry_(
            {.overdue = {.operation = {.kind = Kind::kAllReduce, .dtype = BP_DTYPE_F32, .count = 3},
                         .sequence = 7,
                         .timeout = seconds(2),
                         .waits_for = {}},
             .place = {0, 4},
             .names = {"rank 0", "rank 1", "rank 2", "rank 3"},
             .own = entered(7),
             .groups_behind = {}},
            &control_, begin_) {}
  ~InquiryTest() override {
    messenger_->run_exclusively([&] { control_.end(); });
  }
  /// Of the ranks that do not answer.
  Failure failure(std::map<uint32_t, PeerState> states) {
    return inquiry_.failure([&](uint32_t rank) { return states.at(rank); });
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
