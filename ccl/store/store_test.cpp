// SPDX-License-Identifier: Apache-2.0
//
// What every store does, of whatever kind.
#include "ccl/store/store.hpp"

#include <atomic>

#include "ccl/store/store_harness_test.hpp"
#include "core/base/temp_folder_test.hpp"

namespace bp::ccl {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

/// Makes as many objects of one store as a test wants.
class StoreTest : public testing::TestWithParam<std::string> {
 protected:
  StoreTest() {
    if (is_kind("tcp") || is_kind("prefix")) server_.emplace();
    if (is_kind("memory")) memory_ = make_memory_store();
    store_ = other();
  }
  bool is_kind(std::string_view kind) const { return GetParam() == kind; }
  /// Another process's, were the ranks processes.
  std::shared_ptr<Store> other() const {
    if (is_kind("memory")) return memory_->share();
    if (is_kind("tcp")) return server_->client();
    if (is_kind("prefix")) return make_prefix_store("group/3/", server_->client());
    return value_of(open_file_store({.path = folder_.path("store"), .job = std::string(kTestJob)}));
  }

  TempFolder folder_;
  std::optional<TestServer> server_;
  std::shared_ptr<Store> memory_;
  std::shared_ptr<Store> store_;
};

TEST_P(StoreTest, Name_SaysWhatItIs) {
  if (is_kind("memory")) EXPECT_EQ(store_->name(), "memory");
  if (is_kind("file")) EXPECT_EQ(store_->name(), "file " + folder_.path("store"));
  if (is_kind("tcp")) EXPECT_EQ(store_->name(), "tcp " + server_->server->endpoint());
  if (is_kind("prefix")) {
    EXPECT_EQ(store_->name(), "tcp " + server_->server->endpoint() + ", keys from 'group/3/'");
  }
}

TEST_P(StoreTest, Get_KeyThatAnotherSet_IsItsValue) {
  ASSERT_TRUE(store_->set("a", "1").ok());
  EXPECT_EQ(value_of(other()->get("a", soon())), "1");
  ASSERT_TRUE(store_->set("a", "2").ok());
  EXPECT_EQ(value_of(other()->get("a", soon())), "2");
  EXPECT_EQ(value_of(store_->get("a", soon())), "2");
}

TEST_P(StoreTest, TryGet_NoKey_IsNothing) {
  EXPECT_EQ(value_of(store_->try_get("a")), std::nullopt);
  ASSERT_TRUE(other()->set("a", "").ok());
  EXPECT_EQ(value_of(store_->try_get("a")), std::optional(std::string()));
  EXPECT_EQ(value_of(store_->get("a", soon())), "");
}

TEST_P(StoreTest, KeysAndValuesOfAnyBytes_StayAsTheyAre) {
  const std::string key("\0\xFF\n/", 4);
  std::string value;
  for (int i = 0; i < 256; ++i) value += static_cast<char>(i);
  ASSERT_TRUE(store_->set(key, value).ok());
  EXPECT_EQ(value_of(other()->get(key, soon())), value);
}

TEST_P(StoreTest, Get_SetLater_Waits) {
  std::jthread later([store = other()] {
    std::this_thread::sleep_for(milliseconds(30));
    EXPECT_TRUE(store->set("a", "late").ok());
  });
  EXPECT_EQ(value_of(store_->get("a", soon())), "late");
}

TEST_P(StoreTest, Get_NobodySets_IsTimeoutAtTheDeadline) {
  const auto begin = Store::Clock::now();
  const auto got = store_->get("no\nbody", in(milliseconds(80)));
  const auto took = Store::Clock::now() - begin;
  EXPECT_EQ(got.status().code(), BP_TIMEOUT);
  EXPECT_THAT(words_of(got), HasSubstr(store_->name().substr(0, 4)));
  EXPECT_THAT(words_of(got), HasSubstr("no body' within "));
  EXPECT_GE(took, milliseconds(80));
  EXPECT_LT(took, seconds(5));
  ASSERT_TRUE(store_->set("no\nbody", "now").ok()) << "a wait that ended does no harm";
  EXPECT_EQ(value_of(store_->get("no\nbody", soon())), "now");
}

TEST_P(StoreTest, Get_AfterTheDeadline_StillAnswersWhatIsThere) {
  ASSERT_TRUE(other()->set("a", "1").ok());
  EXPECT_EQ(value_of(store_->get("a", Store::Clock::now() - seconds(1))), "1");
  EXPECT_EQ(value_of(store_->get("a", Store::Clock::time_point::max())), "1");
  EXPECT_EQ(store_->get("b", Store::Clock::time_point::min()).status().code(), BP_TIMEOUT);
}

TEST_P(StoreTest, Add_BeginsAtZeroAndIsText) {
  EXPECT_EQ(value_of(store_->add("n", 0)), 0);
  EXPECT_EQ(value_of(other()->add("n", 5)), 5);
  EXPECT_EQ(value_of(store_->add("n", -7)), -2);
  EXPECT_EQ(value_of(store_->get("n", soon())), "-2");
  ASSERT_TRUE(store_->set("n", "40").ok());
  EXPECT_EQ(value_of(store_->add("n", 2)), 42);
}

TEST_P(StoreTest, Add_WhatCannotBeAdded_IsRefusedInWords) {
  ASSERT_TRUE(store_->set("n", "four").ok());
  const auto text = store_->add("n", 1);
  EXPECT_EQ(text.status().code(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(words_of(text), HasSubstr("n': expected a whole number, found 'four'"));
  EXPECT_THAT(words_of(text), HasSubstr(store_->name().substr(0, 4)));
  EXPECT_EQ(value_of(store_->get("n", soon())), "four");
  for (const char* odd : {"", " 1", "1 ", "+1", "0x1", "99999999999999999999"}) {
    ASSERT_TRUE(store_->set("n", odd).ok());
    EXPECT_EQ(store_->add("n", 1).status().code(), BP_INVALID_ARGUMENT) << odd;
  }
  ASSERT_TRUE(store_->set("n", "9223372036854775807").ok());
  const auto large = store_->add("n", 1);
  EXPECT_EQ(large.status().code(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(words_of(large), HasSubstr("the sum does not fit 64 bits"));
  EXPECT_EQ(value_of(store_->get("n", soon())), "9223372036854775807");
}

TEST_P(StoreTest, Add_FromManyThreadsAndObjects_LosesNothing) {
  constexpr int kThreads = 4;
  constexpr int kTimes = 100;
  const std::shared_ptr<Store> second = other();
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const auto& store = i % 2 == 0 ? store_ : second;
      for (int k = 0; k < kTimes; ++k) EXPECT_TRUE(store->add("n", 1).ok());
    });
  }
  threads.clear();
  EXPECT_EQ(value_of(store_->add("n", 0)), kThreads * kTimes);
}

TEST_P(StoreTest, Add_WakesWhoWaits) {
  std::jthread later([store = other()] {
    std::this_thread::sleep_for(milliseconds(20));
    EXPECT_TRUE(store->add("n", 3).ok());
  });
  EXPECT_EQ(value_of(store_->get("n", soon())), "3");
}

TEST_P(StoreTest, CompareSet_SetsOnlyWhatIsExpected) {
  EXPECT_EQ(value_of(store_->compare_set("a", "1", "2")), "") << "there is none";
  EXPECT_EQ(value_of(store_->try_get("a")), std::nullopt);
  EXPECT_EQ(value_of(store_->compare_set("a", std::nullopt, "1")), "1");
  EXPECT_EQ(value_of(other()->compare_set("a", std::nullopt, "9")), "1");
  EXPECT_EQ(value_of(other()->compare_set("a", "0", "9")), "1");
  EXPECT_EQ(value_of(other()->compare_set("a", "", "9")), "1") << "empty is not none";
  EXPECT_EQ(value_of(other()->compare_set("a", "1", "2")), "2");
  EXPECT_EQ(value_of(store_->get("a", soon())), "2");
}

TEST_P(StoreTest, CompareSet_OneOfManyWins) {
  constexpr int kThreads = 4;
  std::vector<std::string> answers(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i, store = other()] {
        answers[static_cast<size_t>(i)] =
            value_of(store->compare_set("leader", std::nullopt, std::to_string(i)));
      });
    }
  }
  const std::string winner = value_of(store_->get("leader", soon()));
  EXPECT_THAT(answers, testing::Each(winner));
}

TEST_P(StoreTest, Remove_SaysWhetherThereWasOne) {
  EXPECT_FALSE(value_of(store_->remove("a")));
  ASSERT_TRUE(store_->set("a", "1").ok());
  EXPECT_TRUE(value_of(other()->remove("a")));
  EXPECT_FALSE(value_of(store_->remove("a")));
  EXPECT_EQ(value_of(store_->try_get("a")), std::nullopt);
  EXPECT_EQ(value_of(store_->add("a", 1)), 1);
}

TEST_P(StoreTest, KeysThatCannotBe_AreRefusedInWords) {
  const std::string longest(Store::kMostKeyBytes - (is_kind("prefix") ? 8 : 0), 'k');
  ASSERT_TRUE(store_->set(longest, "1").ok());
  EXPECT_EQ(value_of(other()->get(longest, soon())), "1");
  for (const std::string& key : {std::string(), longest + "k"}) {
    const size_t found = key.empty() ? 0 : 1025;
    const std::string words = "a key has 1 to 1024 bytes, found " + std::to_string(found);
    for (const Status& status :
         {store_->set(key, "1"), store_->get(key, soon()).status(), store_->try_get(key).status(),
          store_->add(key, 1).status(), store_->compare_set(key, "1", "2").status(),
          store_->remove(key).status()}) {
      EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT);
      EXPECT_THAT(status.message(), HasSubstr(words));
    }
  }
}

TEST_P(StoreTest, LargeValues_GoThroughWhole) {
  std::string large(Store::kMostValueBytes, 'x');
  large.front() = 'a';
  large.back() = 'z';
  ASSERT_TRUE(store_->set("big", large).ok());
  EXPECT_TRUE(value_of(other()->get("big", soon())) == large);
  EXPECT_TRUE(value_of(store_->compare_set("big", large, "small")) == "small");
  const std::string larger = large + "!";
  for (const Status& status :
       {store_->set("big", larger), store_->compare_set("big", "small", larger).status()}) {
    EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT);
    EXPECT_THAT(status.message(),
                HasSubstr("a value has at most 1048576 bytes, found 1048577 for the key '"));
  }
  EXPECT_EQ(value_of(store_->get("big", soon())), "small");
}

TEST_P(StoreTest, ManyThreadsOfOneObject_EachGetsItsOwn) {
  constexpr int kThreads = 8;
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([this, i] {
      const std::string name = std::to_string(i);
      for (int k = 0; k < 20; ++k) {
        const std::string key = name + "/" + std::to_string(k);
        const std::string value(static_cast<size_t>(k * 997), static_cast<char>('a' + i));
        EXPECT_TRUE(store_->set(key, value).ok());
        EXPECT_EQ(value_of(store_->get(key, soon())), value);
      }
      EXPECT_EQ(value_of(store_->get("go/" + name, soon())), name);
    });
  }
  const auto setter = other();
  for (int i = kThreads - 1; i >= 0; --i) {
    std::this_thread::sleep_for(milliseconds(2));
    EXPECT_TRUE(setter->set("go/" + std::to_string(i), std::to_string(i)).ok());
  }
}

TEST_P(StoreTest, Abort_EndsWaitsAtOnceAndAllLaterCalls) {
  const auto second = other();
  std::atomic<int> ended = 0;
  std::vector<std::jthread> threads;
  for (const char* key : {"a", "b", "c"}) {
    threads.emplace_back([&, key] {
      const auto got = store_->get(key, soon());
      EXPECT_EQ(got.status().code(), BP_CANCELLED);
      EXPECT_THAT(words_of(got), HasSubstr("the store's calls were aborted"));
      ++ended;
    });
  }
  std::this_thread::sleep_for(milliseconds(30));
  EXPECT_EQ(ended, 0);
  const auto begin = Store::Clock::now();
  store_->abort();
  threads.clear();
  EXPECT_LT(Store::Clock::now() - begin, seconds(5));
  EXPECT_EQ(ended, 3);
  for (const Status& status :
       {store_->set("a", "1"), store_->get("a", soon()).status(), store_->try_get("a").status(),
        store_->add("a", 1).status(), store_->compare_set("a", "1", "2").status(),
        store_->remove("a").status()}) {
    EXPECT_EQ(status.code(), BP_CANCELLED);
  }
  ASSERT_TRUE(second->set("a", "1").ok()) << "it is another object's";
  EXPECT_EQ(value_of(second->get("a", soon())), "1");
}

TEST_P(StoreTest, Share_HasAnAbortOfItsOwn_AndThatOfTheFirst) {
  const auto part = store_->share();
  EXPECT_EQ(part->name(), store_->name());
  std::jthread waits_with_part(
      [&] { EXPECT_EQ(part->get("never", soon()).status().code(), BP_CANCELLED); });
  std::this_thread::sleep_for(milliseconds(20));
  part->abort();
  waits_with_part.join();
  ASSERT_TRUE(store_->set("a", "1").ok());
  const auto second_part = store_->share();
  EXPECT_EQ(value_of(second_part->get("a", soon())), "1");
  std::jthread waits_with_second(
      [&] { EXPECT_EQ(second_part->get("never", soon()).status().code(), BP_CANCELLED); });
  std::this_thread::sleep_for(milliseconds(20));
  store_->abort();
  waits_with_second.join();
  EXPECT_EQ(second_part->set("a", "1").code(), BP_CANCELLED);
  EXPECT_EQ(second_part->share()->set("a", "1").code(), BP_CANCELLED);
}

TEST_P(StoreTest, ForkedChild_EveryCallIsRefused) {
  ASSERT_TRUE(store_->set("a", "1").ok());
  const int wrong = in_child([this] {
    int count = 0;
    for (const Status& status :
         {store_->set("a", "2"), store_->get("a", soon()).status(), store_->try_get("a").status(),
          store_->add("n", 1).status(), store_->compare_set("a", "1", "2").status(),
          store_->remove("a").status()}) {
      count += status.code() == BP_FORKED ? 0 : 1;
    }
    store_->abort();
    store_ = nullptr;
    if (server_) server_->server = nullptr;
    return count;
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(value_of(store_->get("a", soon())), "1") << "the parent goes on";
}

INSTANTIATE_TEST_SUITE_P(Kinds, StoreTest, testing::Values("memory", "file", "tcp", "prefix"),
                         [](const auto& kind) { return kind.param; });

TEST(PrefixStoreTest, Prefixes_KeepKeysApart) {
  const auto whole = make_memory_store();
  const auto a = make_prefix_store("a/", whole);
  const auto b = make_prefix_store("b/", whole);
  ASSERT_TRUE(a->set("k", "of a").ok());
  EXPECT_EQ(value_of(b->try_get("k")), std::nullopt);
  EXPECT_EQ(value_of(whole->get("a/k", soon())), "of a");
  const auto inner = make_prefix_store("c/", a);
  EXPECT_EQ(value_of(inner->add("n", 4)), 4);
  EXPECT_EQ(value_of(whole->get("a/c/n", soon())), "4");
  EXPECT_EQ(inner->name(), "memory, keys from 'a/', keys from 'c/'");
  EXPECT_TRUE(value_of(a->remove("c/n")));
}

TEST(PrefixStoreTest, Abort_LeavesTheWholeStore_AndIsInheritedFromIt) {
  const auto whole = make_memory_store();
  const auto a = make_prefix_store("a/", whole);
  const auto b = make_prefix_store("b/", whole);
  a->abort();
  EXPECT_EQ(a->set("k", "1").code(), BP_CANCELLED);
  EXPECT_TRUE(b->set("k", "1").ok());
  EXPECT_TRUE(whole->set("k", "1").ok());
  whole->abort();
  EXPECT_EQ(b->set("k", "1").code(), BP_CANCELLED);
}

}  // namespace
}  // namespace bp::ccl
