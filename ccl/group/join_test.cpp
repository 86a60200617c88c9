// SPDX-License-Identifier: Apache-2.0
#include "ccl/group/join.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace bp::ccl
