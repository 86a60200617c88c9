// SPDX-License-Identifier: Apache-2.0
//
// What ranks conclude from their cards, and how they tell each other that they cannot join.
#include "ccl/group/join.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "ccl/store/silent_store_test.hpp"
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
  const JoinWait wait = {"group test", Store::Clock::now() + std::chrono::seconds(10)};
  const Status own(BP_OUT_OF_MEMORY, "no memory");
  EXPECT_EQ(meet(*store, "stage", own, {1, 3}, wait).to_string(), own.to_string());
  const Status later(BP_UNAVAILABLE, "rank 0 is gone");
  const Status told = meet(*store, "stage", later, {2, 3}, wait);
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
  const JoinWait wait = {"group test", Store::Clock::now() + std::chrono::seconds(10)};
  ASSERT_TRUE(store->set(key_of("stage", 0), "ready").ok());
  const Status own(BP_UNAVAILABLE, "no way");
  EXPECT_EQ(meet(*store, "stage", own, {1, 2}, wait).to_string(), own.to_string());
}

// --- Ranks that are waited for

/// The lines that a wait tells, the first one at once.
class ToldLines {
 public:
  JoinWait wait(std::chrono::milliseconds time = std::chrono::milliseconds(200)) {
    return {"group test",
            Store::Clock::now() + time,
            {.first = std::chrono::nanoseconds(0),
             .next = std::chrono::seconds(60),
             .tell = [this](const std::string& line) { lines.push_back(line); }}};
  }
  std::vector<std::string> lines;
};

TEST(JoinWaits, CardsThatAreMissing_AreNamedMeanwhile) {
  const auto store = make_memory_store();
  ASSERT_TRUE(store->set(key_of("card", 2), encode(card_of("a", "x"))).ok());
  ToldLines told;
  const auto met = exchange_cards(*store, "test", card_of("a", "x"), {1, 5}, told.wait());
  EXPECT_EQ(met.status().code(), BP_TIMEOUT);
  EXPECT_THAT(told.lines, ElementsAre("group test: rank 1 waits for ranks 0, 3 and 4 of 5, which "
                                      "have not come; for 1 s more at most "
                                      "(BACKPLANE_CCL_TIMEOUT)"));
}

TEST(JoinWaits, RankThatIsMissingAtAStage_IsNamedWithIt) {
  const auto store = make_memory_store();
  ASSERT_TRUE(store->set(key_of("connected", 0), "ready").ok());
  ToldLines told;
  EXPECT_EQ(meet(*store, "connected", {}, {0, 2}, told.wait()).code(), BP_TIMEOUT);
  EXPECT_THAT(told.lines, ElementsAre(HasSubstr("rank 0 waits for rank 1 of 2, which has not come "
                                                "as far as 'connected'; for 1 s more")));
}

TEST(JoinWaits, OfManyRanks_TheFirstAreLookedAt) {
  const auto store = make_memory_store();
  ToldLines told;
  EXPECT_EQ(meet(*store, "ready", {}, {0, 1000}, told.wait()).code(), BP_TIMEOUT);
  EXPECT_THAT(told.lines, ElementsAre(HasSubstr("rank 0 waits for ranks 1 to 256 of 1000, and "
                                                "maybe for some above 256, which have not come")));
}

TEST(JoinWaits, StoreThatIsSilent_IsToldMeanwhileAndAtTheEnd) {
  SilentStore store;
  ToldLines told;
  const Status met = meet(store, "ready", {}, {0, 2}, told.wait());
  EXPECT_EQ(met.code(), BP_TIMEOUT);
  EXPECT_THAT(met.message(), HasSubstr(kSilence));
  EXPECT_THAT(told.lines,
              ElementsAre(std::string("group test: rank 0 waits, and for whom is not known: ") +
                          kSilence + "; for 1 s more at most (BACKPLANE_CCL_TIMEOUT)"));
}

TEST(JoinWaits, RanksThatAreThere_AreNotToldOf) {
  const auto store = make_memory_store();
  ASSERT_TRUE(store->set(key_of("card", 1), encode(card_of("b", "x"))).ok());
  ToldLines told;
  const auto met = exchange_cards(*store, "test", card_of("a", "x"), {0, 2}, told.wait());
  ASSERT_TRUE(met.ok()) << met.status().to_string();
  EXPECT_THAT(told.lines, IsEmpty());
}

/// Rank 1 of 3 waits for rank 0; then rank `rank` of `rank_count` comes.
void expect_both_told(uint32_t rank, uint32_t rank_count, const std::string& words) {
  const auto store = make_memory_store();
  const auto begin = Store::Clock::now();
  const JoinWait wait = {"group test", begin + std::chrono::seconds(60)};
  Status waiting;
  std::thread first([&] {
    waiting = exchange_cards(*store, "test", card_of("a", "x"), {1, 3}, wait).status();
  });
  while (!store->try_get(key_of("card", 1))->has_value()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const Status second =
      exchange_cards(*store, "test", card_of("b", "x"), {rank, rank_count}, wait).status();
  first.join();
  for (const Status& status : {waiting, second}) {
    EXPECT_EQ(status.to_string(), "INVALID_ARGUMENT: " + words +
                                      ": expected as many on each, and a new name for each group "
                                      "in a store");
  }
  EXPECT_LT(Store::Clock::now() - begin, std::chrono::seconds(30)) << "long before the deadline";
  // Who comes later is told as well.
  const Status third = exchange_cards(*store, "test", card_of("c", "x"), {2, 3}, wait).status();
  EXPECT_EQ(third.code(), BP_INVALID_ARGUMENT) << third.to_string();
}

TEST(RankCounts, ThatDiffer_AreToldToBothAtOnce) {
  expect_both_told(2, 4, "rank 2 was told of 4 ranks, rank 1 of 3");
  expect_both_told(0, 2, "rank 0 was told of 2 ranks, rank 1 of 3");
  expect_both_told(65'535, 65'536, "rank 65535 was told of 65536 ranks, rank 1 of 3");
}

TEST(RankCounts, AfterwardsNothingOfThemStays) {
  const auto store = make_memory_store();
  const JoinWait wait = {"group test", Store::Clock::now() + std::chrono::seconds(60)};
  ASSERT_TRUE(exchange_cards(*store, "test", card_of("a", "x"), {0, 1}, wait).ok());
  ASSERT_TRUE(store->try_get("rank_count")->has_value());
  forget_joining(*store, 0, true);
  EXPECT_FALSE(store->try_get("rank_count")->has_value());
  EXPECT_FALSE(store->try_get(key_of("card", 0))->has_value());
}

// --- What is concluded from the cards of devices with collectives of their own

constexpr uint64_t kSum = BP_REDUCTION_BIT(BP_REDUCTION_SUM);
constexpr uint64_t kMax = BP_REDUCTION_BIT(BP_REDUCTION_MAX);
constexpr uint64_t kF32 = uint64_t{1} << BP_DTYPE_F32;
constexpr uint64_t kF64 = uint64_t{1} << BP_DTYPE_F64;
constexpr uint64_t kI32 = uint64_t{1} << BP_DTYPE_I32;

/// A row's fields.
using RowWords = std::tuple<uint32_t, uint64_t, uint64_t, bool>;

RowWords all_reduce(uint64_t reductions, uint64_t dtypes, bool is_deterministic = false) {
  return {BP_COLLECTIVE_ALL_REDUCE, reductions, dtypes, is_deterministic};
}
RowWords broadcast(uint64_t dtypes, bool is_deterministic = false) {
  return {BP_COLLECTIVE_BROADCAST, 0, dtypes, is_deterministic};
}

/// All that rows offer, a line for each operation. The same may stand in other rows.
std::set<std::string> offers_of(const std::vector<CollectiveRow>& rows) {
  CollectiveCaps caps;
  caps.rows = rows;
  std::set<std::string> offers;
  for (const uint32_t kind : {BP_COLLECTIVE_ALL_REDUCE, BP_COLLECTIVE_BROADCAST}) {
    for (const uint32_t dtype : {BP_DTYPE_F32, BP_DTYPE_F64, BP_DTYPE_I32}) {
      for (const Reduction reduction : {Reduction::kSum, Reduction::kMax}) {
        for (const bool is_deterministic : {false, true}) {
          const Operation operation{.kind = static_cast<Kind>(kind),
                                    .dtype = dtype,
                                    .reduction = reduction,
                                    .is_deterministic = is_deterministic};
          if (caps.has(kind, dtype, static_cast<uint32_t>(reduction), is_deterministic)) {
            offers.insert(describe(operation));
          }
        }
      }
    }
  }
  return offers;
}

std::vector<CollectiveRow> rows_of(const std::vector<RowWords>& words) {
  std::vector<CollectiveRow> rows;
  for (const auto& [kind, reductions, dtypes, is_deterministic] : words) {
    rows.push_back({kind, reductions, dtypes, is_deterministic});
  }
  return rows;
}

/// Matches rows that offer what these do.
auto offer(const std::vector<RowWords>& words) {
  return testing::ResultOf("what they offer", offers_of, testing::Eq(offers_of(rows_of(words))));
}

/// The card of a device that others can be linked with.
RankCard device_card(const std::string& device, const std::vector<RowWords>& rows) {
  RankCard card = card_of("a", "x");
  card.device = device;
  card.domain = "one cable";
  card.uid_bytes = 128;
  card.rows = rows_of(rows);
  return card;
}

/// As many linked devices, "npu:0" and on, which all sum f32.
std::vector<RankCard> linked_cards(uint32_t count) {
  std::vector<RankCard> cards;
  for (uint32_t rank = 0; rank < count; ++rank) {
    cards.push_back(device_card("npu:" + std::to_string(rank), {all_reduce(kSum, kF32)}));
  }
  return cards;
}

/// The rows of the only island, which all ranks of a native group are in.
std::vector<CollectiveRow> common_rows(const std::vector<std::vector<RowWords>>& of_ranks) {
  std::vector<RankCard> cards;
  for (const auto& rows : of_ranks) {
    cards.push_back(device_card("npu:" + std::to_string(cards.size()), rows));
  }
  const Agreement agreement = conclude(std::move(cards), "test");
  EXPECT_TRUE(agreement.is_native()) << agreement.why_not_native;
  EXPECT_THAT(agreement.why_not_native, IsEmpty());
  return agreement.islands.size() == 1 ? agreement.islands[0].rows : std::vector<CollectiveRow>();
}

void expect_not_native(std::vector<RankCard> cards, const std::string& why) {
  const Agreement agreement = conclude(std::move(cards), "test");
  EXPECT_FALSE(agreement.is_native()) << why;
  EXPECT_EQ(agreement.why_not_native, why);
}

TEST(Conclude, LinkedDevices_AreOneIslandOfAllRanks) {
  const Agreement agreement = conclude(linked_cards(3), "test");
  EXPECT_TRUE(agreement.is_native());
  EXPECT_THAT(agreement.why_not_native, IsEmpty());
  EXPECT_THAT(agreement.names, ElementsAre("rank 0 (npu:0)", "rank 1 (npu:1)", "rank 2 (npu:2)"));
  ASSERT_EQ(agreement.islands.size(), 1u);
  EXPECT_THAT(agreement.islands[0].ranks, ElementsAre(0, 1, 2));
  EXPECT_THAT(agreement.islands[0].rows, offer({all_reduce(kSum, kF32)}));
}

// Each difference stands once on either side: neither side's rows are taken for those of both.
TEST(Conclude, Rows_HaveTheReductionsThatEachRankHas) {
  const std::vector<RowWords> more = {all_reduce(kSum | kMax, kF32)};
  const std::vector<RowWords> less = {all_reduce(kMax, kF32)};
  EXPECT_THAT(common_rows({more, less}), offer(less));
  EXPECT_THAT(common_rows({less, more}), offer(less));
}

TEST(Conclude, Rows_HaveTheDtypesThatEachRankHas) {
  const std::vector<RowWords> first = {all_reduce(kSum, kF32 | kF64), broadcast(kI32 | kF32)};
  const std::vector<RowWords> second = {all_reduce(kSum, kF64 | kI32), broadcast(kI32 | kF64)};
  const std::vector<RowWords> both = {all_reduce(kSum, kF64), broadcast(kI32)};
  EXPECT_THAT(common_rows({first, second}), offer(both));
  EXPECT_THAT(common_rows({second, first}), offer(both));
}

TEST(Conclude, Rows_AreDeterministicWhereTheyAreOnEachRank) {
  const std::vector<RowWords> is = {all_reduce(kSum, kF32, true)};
  const std::vector<RowWords> is_not = {all_reduce(kSum, kF32, false)};
  EXPECT_THAT(common_rows({is, is}), offer(is));
  EXPECT_THAT(common_rows({is, is_not}), offer(is_not));
  EXPECT_THAT(common_rows({is_not, is}), offer(is_not));
}

TEST(Conclude, Rows_AreOfTheKindsThatEachRankHas) {
  const std::vector<RowWords> more = {all_reduce(kSum, kF32), broadcast(kF32)};
  const std::vector<RowWords> less = {broadcast(kF32)};
  EXPECT_THAT(common_rows({more, less}), offer(less));
  EXPECT_THAT(common_rows({less, more}), offer(less));
}

TEST(Conclude, Rows_WithoutACommonReductionOrDtype_GoAlone) {
  EXPECT_THAT(common_rows({{all_reduce(kSum, kF32), broadcast(kF32)},
                           {all_reduce(kMax, kF32), broadcast(kF32)}}),
              offer({broadcast(kF32)}));
  EXPECT_THAT(common_rows({{all_reduce(kSum, kF32), broadcast(kF32)},
                           {all_reduce(kSum, kF32), broadcast(kF64)}}),
              offer({all_reduce(kSum, kF32)}));
}

TEST(Conclude, LastOfManyRanks_TakesFromTheRows) {
  const std::vector<RowWords> rows = {all_reduce(kSum | kMax, kF32 | kF64, true), broadcast(kF32)};
  EXPECT_THAT(common_rows({rows, rows, rows, {all_reduce(kSum, kF32 | kI32)}}),
              offer({all_reduce(kSum, kF32)}));
}

// A device may sum in a fixed order, and do more without one: rows that overlap.
TEST(Conclude, RowsThatOverlap_AreNotMoreForManyRanks) {
  const std::vector<RowWords> rows = {all_reduce(kSum, kF32, true),
                                      all_reduce(kSum | kMax, kF32 | kF64, false)};
  const std::vector<CollectiveRow> common = common_rows(std::vector(16, rows));
  EXPECT_THAT(common, offer(rows));
  EXPECT_LE(common.size(), 4u);
}

TEST(Conclude, DividedDtypes_AreThoseOfAllRanksOfTheIsland) {
  std::vector<RankCard> cards = linked_cards(2);
  cards[0].divided_dtypes = kF32 | kF64;
  cards[1].divided_dtypes = kF64 | kI32;
  const Agreement agreement = conclude(std::move(cards), "test");
  ASSERT_EQ(agreement.islands.size(), 1u);
  EXPECT_EQ(agreement.islands[0].divided_dtypes, kF64);
}

TEST(Conclude, NothingInCommon_IsToldAndMakesNoIsland) {
  const std::vector<RankCard> cards = {device_card("npu:0", {all_reduce(kSum, kF32)}),
                                       device_card("npu:1", {all_reduce(kMax, kF32)})};
  expect_not_native(cards, "the ranks have no operation in common");
  EXPECT_TRUE(conclude(cards, "test").islands.empty());
}

TEST(Conclude, DeviceWithoutCollectives_IsNamedAndTheOthersAreAnIsland) {
  std::vector<RankCard> cards = linked_cards(3);
  cards[1].domain = "";
  cards[1].device = "cpu:0";
  expect_not_native(cards, "rank 1 (cpu:0) has no collectives of its own");
  const Agreement agreement = conclude(cards, "test");
  ASSERT_EQ(agreement.islands.size(), 1u);
  EXPECT_THAT(agreement.islands[0].ranks, ElementsAre(0, 2));
  EXPECT_EQ(agreement.island_of(0), agreement.islands.data());
  EXPECT_EQ(agreement.island_of(1), nullptr);
  EXPECT_EQ(agreement.island_of(2), agreement.islands.data());
}

TEST(Conclude, Domains_AreIslandsOfTheirOwnRows) {
  std::vector<RankCard> cards = linked_cards(5);
  for (const uint32_t rank : {1u, 3u}) {
    cards[rank].domain = "another cable";
    cards[rank].rows[0].dtypes = kF64;
  }
  cards[4].domain = "nobody else's";
  expect_not_native(cards, "rank 1 (npu:1) is not linked with rank 0 (npu:0)");
  const Agreement agreement = conclude(cards, "test");
  ASSERT_EQ(agreement.islands.size(), 2u);
  EXPECT_THAT(agreement.islands[0].ranks, ElementsAre(0, 2));
  EXPECT_THAT(agreement.islands[0].rows, offer({all_reduce(kSum, kF32)}));
  EXPECT_THAT(agreement.islands[1].ranks, ElementsAre(1, 3));
  EXPECT_THAT(agreement.islands[1].rows, offer({all_reduce(kSum, kF64)}));
  EXPECT_EQ(agreement.island_of(4), nullptr) << "one rank of several is none";
}

TEST(Conclude, UidsOfAnotherSize_AreNotLinked) {
  std::vector<RankCard> cards = linked_cards(2);
  cards[1].uid_bytes = 64;
  expect_not_native(cards, "rank 1 (npu:1) is not linked with rank 0 (npu:0)");
  EXPECT_TRUE(conclude(cards, "test").islands.empty());
}

TEST(Conclude, GroupLargerThanADeviceServes_IsTold) {
  std::vector<RankCard> cards = linked_cards(3);
  cards[1].rank_count_max = 2;
  expect_not_native(cards, "rank 1 (npu:1) serves groups of 2 at most");
  EXPECT_TRUE(conclude(cards, "test").islands.empty());
  cards[1].rank_count_max = 3;
  EXPECT_TRUE(conclude(cards, "test").is_native());
  // What counts is the ranks of the island.
  cards[1].rank_count_max = 2;
  cards[2].domain = "another cable";
  const Agreement agreement = conclude(cards, "test");
  ASSERT_EQ(agreement.islands.size(), 1u);
  EXPECT_THAT(agreement.islands[0].ranks, ElementsAre(0, 1));
}

TEST(Conclude, TwoRanksOfOneDevice_NeedItsWord) {
  std::vector<RankCard> cards = linked_cards(3);
  cards[2].device = "npu:0";
  expect_not_native(cards, "two ranks are on one device");
  EXPECT_TRUE(conclude(cards, "test").islands.empty());
  for (RankCard& card : cards) card.caps_flags = BP_CAPS_SHARED_DEVICE_BIT;
  EXPECT_TRUE(conclude(cards, "test").is_native());
  // One that does not say so is enough.
  cards[1].caps_flags = ~BP_CAPS_SHARED_DEVICE_BIT;
  expect_not_native(cards, "two ranks are on one device");
}

TEST(Conclude, DevicesOfOneNameInTwoProcesses_AreTwo) {
  std::vector<RankCard> cards = linked_cards(2);
  cards[1].device = "npu:0";
  cards[1].process = "b";
  EXPECT_TRUE(conclude(cards, "test").is_native());
}

TEST(Conclude, OneRank_IsAnIslandOfItsOwn) {
  const Agreement agreement = conclude(linked_cards(1), "test");
  EXPECT_TRUE(agreement.is_native()) << agreement.why_not_native;
}

TEST(Conclude, ChunksAreRankZerosWhereOneRankIsStaged) {
  std::vector<RankCard> cards = linked_cards(2);
  cards[0].chunk_bytes = 4096;
  cards[1].chunk_bytes = 1;
  cards[0].has_host_memory = true;
  EXPECT_EQ(conclude(cards, "test").chunk_bytes, 4096u);
  cards[1].has_host_memory = true;
  EXPECT_EQ(conclude(cards, "test").chunk_bytes, 0u);
}

TEST(Conclude, CheckModeOfOneRank_IsThatOfAll) {
  std::vector<RankCard> cards = linked_cards(3);
  EXPECT_FALSE(conclude(cards, "test").checks);
  cards[2].checks = 1;
  EXPECT_TRUE(conclude(cards, "test").checks);
}

TEST(Conclude, GroupsNumber_IsOfItsNameAndEachJoin) {
  const std::vector<RankCard> cards = linked_cards(2);
  const uint64_t number = conclude(cards, "test").group;
  EXPECT_EQ(conclude(cards, "test").group, number);
  EXPECT_NE(conclude(cards, "another").group, number);
  std::vector<RankCard> later = cards;
  later[1].join = "again";
  EXPECT_NE(conclude(later, "test").group, number);
}

// What is concluded travels as text before.
TEST(Cards, EachField_ComesBack) {
  RankCard card = device_card("npu:3", {all_reduce(kSum | kMax, kF32, true), broadcast(kF64)});
  card.join = "join";
  card.algorithms = "all_reduce:ring";
  card.has_host_memory = true;
  card.chunk_bytes = uint64_t{1} << 40;
  card.checks = 1;
  card.caps_flags = BP_CAPS_SHARED_DEVICE_BIT;
  card.rank_count_max = 9;
  card.divided_dtypes = kF32 | kF64;
  const auto back = decode_card(encode(card));
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  EXPECT_EQ(back->engine, "auto");
  EXPECT_EQ(back->join, "join");
  EXPECT_EQ(back->device, "npu:3");
  EXPECT_EQ(back->process, "a");
  EXPECT_EQ(back->host, "x");
  EXPECT_EQ(back->algorithms, "all_reduce:ring");
  EXPECT_TRUE(back->has_host_memory);
  EXPECT_EQ(back->chunk_bytes, uint64_t{1} << 40);
  EXPECT_EQ(back->checks, 1u);
  EXPECT_EQ(back->domain, "one cable");
  EXPECT_EQ(back->caps_flags, BP_CAPS_SHARED_DEVICE_BIT);
  EXPECT_EQ(back->rank_count_max, 9u);
  EXPECT_EQ(back->uid_bytes, 128u);
  EXPECT_EQ(back->divided_dtypes, kF32 | kF64);
  ASSERT_EQ(back->rows.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(back->rows[i].kind, card.rows[i].kind);
    EXPECT_EQ(back->rows[i].reductions, card.rows[i].reductions);
    EXPECT_EQ(back->rows[i].dtypes, card.rows[i].dtypes);
    EXPECT_EQ(back->rows[i].is_deterministic, card.rows[i].is_deterministic);
  }
}

TEST(Cards, WhatIsCutOrLonger_IsRefused) {
  const std::string whole = encode(device_card("npu:0", {all_reduce(kSum, kF32)}));
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(decode_card(whole.substr(0, size)).status().code(), BP_INVALID_ARGUMENT) << size;
  }
  EXPECT_EQ(decode_card(whole + "x").status().code(), BP_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace bp::ccl
