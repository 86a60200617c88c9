// SPDX-License-Identifier: Apache-2.0
//
// When a wait is told, and what it answers.
#include "ccl/store/told_wait.hpp"

#include "ccl/store/store_harness_test.hpp"
#include "tests/free_endpoint.hpp"

namespace bp::ccl {
namespace {

using testing::ElementsAre;
using testing::MatchesRegex;
using testing::StartsWith;

/// Keeps what is told, and does something more then.
class Told {
 public:
  Telling telling(milliseconds first, milliseconds next) {
    return {.first = first, .next = next, .tell = [this](const std::string& line) {
              lines.push_back(line);
              if (on_line) on_line();
            }};
  }
  std::vector<std::string> lines;
  std::function<void()> on_line;
};

TEST(ToldWait, KeyThatComes_IsAnsweredAndNotTold) {
  const auto store = make_memory_store();
  ASSERT_TRUE(store->set("key", "value").ok());
  Told told;
  ToldWait wait(soon(), told.telling(milliseconds(0), milliseconds(0)), [] { return "words"; });
  EXPECT_EQ(value_of(wait.get(*store, "key")), "value");
  EXPECT_TRUE(told.lines.empty());
}

TEST(ToldWait, WaitIsTold_AgainAndAgain) {
  const auto store = make_memory_store();
  Told told;
  told.on_line = [&] {
    if (told.lines.size() == 3) ASSERT_TRUE(store->set("key", "value").ok());
  };
  int asked = 0;
  ToldWait wait(soon(), told.telling(milliseconds(1), milliseconds(1)),
                [&] { return "asked " + std::to_string(++asked); });
  EXPECT_EQ(value_of(wait.get(*store, "key")), "value");
  ASSERT_EQ(told.lines.size(), 3u);
  EXPECT_THAT(told.lines[0],
              MatchesRegex("asked 1; for [56][0-9] s more at most \\(BACKPLANE_CCL_TIMEOUT\\)"));
  EXPECT_THAT(told.lines[2], StartsWith("asked 3; for "));
}

TEST(ToldWait, Lines_ComeWhenTheyAreDueAndNotBefore) {
  Told told;
  const auto begin = Store::Clock::now();
  ToldWait later(in(seconds(90)), told.telling(seconds(40), seconds(60)), [] { return "words"; });
  later.look();
  EXPECT_TRUE(told.lines.empty());
  EXPECT_GE(later.next_look(), begin + seconds(40));
  EXPECT_LE(later.next_look(), in(seconds(40)));
  ToldWait now(soon(), told.telling(seconds(0), seconds(40)), [] { return "words"; });
  now.look();
  now.look();
  EXPECT_EQ(told.lines.size(), 1u) << "the next one is due much later";
  EXPECT_GE(now.next_look(), begin + seconds(40));
}

TEST(ToldWait, NobodyIsMissing_NothingIsTold) {
  const auto store = make_memory_store();
  Told told;
  ToldWait wait(in(milliseconds(50)), told.telling(milliseconds(1), milliseconds(1)),
                [] { return ""; });
  EXPECT_EQ(wait.get(*store, "key").status().code(), BP_TIMEOUT);
  EXPECT_TRUE(told.lines.empty());
}

TEST(ToldWait, DeadlineBeforeTheFirstLine_IsTheEnd) {
  const auto store = make_memory_store();
  Told told;
  ToldWait wait(in(milliseconds(5)), told.telling(seconds(10), seconds(30)),
                [] { return "words"; });
  EXPECT_EQ(wait.get(*store, "key").status().code(), BP_TIMEOUT);
  EXPECT_TRUE(told.lines.empty());
}

TEST(ToldWait, AbortedStore_EndsIt) {
  const auto store = make_memory_store();
  Told told;
  told.on_line = [&] { store->abort(); };
  ToldWait wait(soon(), told.telling(milliseconds(1), seconds(60)), [] { return "words"; });
  EXPECT_EQ(wait.get(*store, "key").status().code(), BP_CANCELLED);
}

TEST(ToldWait, WithoutAPlaceToTell_ItIsAWarningOfTheLog) {
  const LogLines log;
  ToldWait wait(in(seconds(20)), {.first = milliseconds(0)}, [] { return "rank 1 waits"; });
  wait.look();
  EXPECT_EQ(log.count("rank 1 waits; for 20 s more at most (BACKPLANE_CCL_TIMEOUT)"), 1u);
}

TEST(ToldWait, WhatSetItsTime_IsNamedWhereItIsKnown) {
  for (const auto& [set_by, words] :
       {std::pair(kSetByOption, " (BACKPLANE_CCL_TIMEOUT)"),
        std::pair(kSetByProgram, " (the timeout that the program gave)"),
        std::pair(std::string_view(), "")}) {
    Told told;
    Telling telling = told.telling(milliseconds(0), seconds(60));
    telling.set_by = set_by;
    ToldWait wait(in(seconds(20)), telling, [] { return "rank 1 waits"; });
    wait.look();
    EXPECT_THAT(told.lines,
                ElementsAre(std::string("rank 1 waits; for 20 s more at most") + words));
  }
}

TEST(ToldWait, StoreThatNobodyServesYet_IsNamed) {
  const std::string endpoint = tests::free_endpoint();
  const auto token = new_token();
  Told told;
  std::unique_ptr<TcpServer> server;
  told.on_line = [&] {
    if (server != nullptr) return;
    server = value_of(
        TcpServer::start({.endpoint = endpoint, .token = token, .job = std::string(kTestJob)}));
  };
  const auto store = connect_tcp_store({.endpoint = endpoint,
                                        .token = token,
                                        .job = std::string(kTestJob),
                                        .deadline = soon(),
                                        .telling = told.telling(milliseconds(1), seconds(60))});
  ASSERT_TRUE(store.ok()) << words_of(store);
  ASSERT_EQ(told.lines.size(), 1u);
  EXPECT_THAT(told.lines[0],
              StartsWith("waiting for the store tcp " + endpoint + ", where nobody answers; for "));
}

}  // namespace
}  // namespace bp::ccl
