// SPDX-License-Identifier: Apache-2.0
#include "ccl/group/join.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ccl/store/store.hpp"

namespace bp::ccl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

RankCard card_of(const std::string& process, const std::string& host,
                 const std::string& engine = "auto") {
  RankCard card;
  card.engine = engine;
  card.process = process;
  card.host = host;
  return card;
}

TEST(HostsOf, RanksOfOneHost_NeedNoNumbers) {
  EXPECT_THAT(hosts_of({card_of("a", "x"), card_of("b", "x")}), IsEmpty());
}

TEST(HostsOf, RanksOfSeveral_HaveTheirHostsNumbers) {
  EXPECT_THAT(
      hosts_of({card_of("a", "y"), card_of("b", "x"), card_of("c", "y"), card_of("d", "z")}),
      ElementsAre(0, 1, 0, 2));
}

TEST(ChooseEngine, ThreadsOfOneProcess_MeetInLoop) {
  const auto choice = choose_engine({card_of("a", "x"), card_of("a", "x")});
  ASSERT_TRUE(choice.ok()) << choice.status().to_string();
  EXPECT_EQ(choice->name, "loop");
}

TEST(ChooseEngine, Processes_MeetInUcxWithTheirHosts) {
  const auto one_host = choose_engine({card_of("a", "x"), card_of("b", "x")});
  ASSERT_TRUE(one_host.ok()) << one_host.status().to_string();
  EXPECT_EQ(one_host->name, "ucx");
  EXPECT_TRUE(one_host->is_within_hosts);
  EXPECT_FALSE(one_host->spans_hosts);
  const auto two_hosts = choose_engine({card_of("a", "x"), card_of("b", "y")});
  ASSERT_TRUE(two_hosts.ok()) << two_hosts.status().to_string();
  EXPECT_FALSE(two_hosts->is_within_hosts);
  EXPECT_TRUE(two_hosts->spans_hosts);
}

TEST(ChooseEngine, LoopAmongProcesses_IsRefusedByName) {
  const Status status =
      choose_engine({card_of("a", "x", "loop"), card_of("b", "x", "loop")}).status();
  EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(status.message(), HasSubstr("loop"));
}

TEST(Meet, WhatFollowsFromAnothersFailure_NamesThatOne) {
  const auto store = make_memory_store();
  const auto deadline = Store::Clock::now() + std::chrono::seconds(10);
  const Status own(BP_OUT_OF_MEMORY, "no memory");
  EXPECT_EQ(meet(*store, "stage", own, {1, 3}, deadline).to_string(), own.to_string());
  const Status later(BP_UNAVAILABLE, "rank 0 is gone");
  const Status told = meet(*store, "stage", later, {2, 3}, deadline);
  EXPECT_EQ(told.code(), BP_UNAVAILABLE);
  EXPECT_THAT(told.message(), HasSubstr("rank 1 cannot join: "));
  EXPECT_THAT(told.message(), HasSubstr("no memory"));
  // Whoever reads this rank's words learns of that one too.
  const auto left = store->try_get(key_of("stage", 2));
  ASSERT_TRUE(left.ok() && left->has_value());
  EXPECT_THAT(**left, HasSubstr("rank 1 cannot join: "));
}

TEST(Meet, FailureOfItsOwn_IsToldAsItIs) {
  const auto store = make_memory_store();
  const auto deadline = Store::Clock::now() + std::chrono::seconds(10);
  ASSERT_TRUE(store->set(key_of("stage", 0), "ready").ok());
  const Status own(BP_UNAVAILABLE, "no way");
  EXPECT_EQ(meet(*store, "stage", own, {1, 2}, deadline).to_string(), own.to_string());
}

}  // namespace
}  // namespace bp::ccl
