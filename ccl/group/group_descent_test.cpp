// SPDX-License-Identifier: Apache-2.0
//
// Groups that are made from others: of the ranks that are left when one is lost, and of parts.
#include <filesystem>
#include <iterator>
#include <numeric>
#include <set>
#include <tuple>

#include "ccl/group/group_harness_test.hpp"
#include "ccl/store/silent_store_test.hpp"

namespace bp::ccl {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const Devices kTriples[] = {
    {"cpu:0", "cpu:0", "cpu:0"}, {"npu:0", "npu:1", "npu:2"}, {"npu:0", "xpu:0", "cpu:0"}};

class GroupDescent : public GroupTest {
 protected:
  /// Each rank gives its number and 1, or says why it cannot.
  static std::string sum(ProcessGroup& group, float rank) {
    Device& on = group.device();
    const Ref<Tensor> recv = room(on, BP_DTYPE_F32, 2);
    const auto work = group.enqueue(Call{.send = upload(on, BP_DTYPE_F32, {rank, 1}), .recv = recv},
                                    {.timeout = seconds(20), .waits = true});
    if (!work.ok()) return work.status().to_string();
    const std::vector<float> values = floats(recv);
    return std::to_string(static_cast<int>(values[0])) + " of " +
           std::to_string(static_cast<int>(values[1]));
  }
  /// Until the group has failed, which is told.
  static void expect_failure(ProcessGroup& group) {
    EXPECT_FALSE(await_failure(group).ok());
    EXPECT_TRUE(group.device().default_stream().reset().ok());
  }
  /// All ranks in `count` have come so far.
  void meet(uint32_t count) {
    const uint32_t all = (met_.fetch_add(1) / count + 1) * count;
    const auto end = Clock::now() + seconds(20);
    while (met_ < all && Clock::now() < end) std::this_thread::sleep_for(milliseconds(1));
  }
  /// Rank 1 of two agrees to go on, and does not join.
  void agree_alone(ProcessGroup& group, uint64_t epoch, std::span<const uint32_t> members) {
    const std::vector<std::string> names = {"rank 0", "rank 1"};
    const JoinWait wait = {"group test", Clock::now() + seconds(20)};
    const auto store = make_prefix_store(kDescentPrefix, store_);
    const Status agreed = agree_on_members({*store, parse_dump(group.trace(), "trace")->group.id, 1,
                                            names, wait, [] { return Status(); }},
                                           epoch, members);
    EXPECT_TRUE(agreed.ok()) << agreed.to_string();
  }
  std::vector<size_t> keys_after_rounds(
      uint32_t rounds,
      const std::function<void(uint32_t rank, uint32_t round, Ref<ProcessGroup>*)>& body);
  std::atomic<uint32_t> met_ = 0;
};

/// A store that knows how many keys it has.
class CountedStore final : public Store {
 public:
  struct Keys {
    std::mutex mutex;
    std::set<std::string, std::less<>> all;
    size_t count() {
      const std::lock_guard lock(mutex);
      return all.size();
    }
  };
  CountedStore(std::shared_ptr<Store> store, std::shared_ptr<Keys> keys)
      : store_(std::move(store)), keys_(std::move(keys)) {}

  std::string name() const override { return store_->name(); }
  Status set(std::string_view key, std::string_view value) override {
    note(key);
    return store_->set(key, value);
  }
  Result<std::string> get(std::string_view key, Clock::time_point deadline) override {
    return store_->get(key, deadline);
  }
  Result<std::optional<std::string>> try_get(std::string_view key) override {
    return store_->try_get(key);
  }
  Result<int64_t> add(std::string_view key, int64_t amount) override {
    note(key);
    return store_->add(key, amount);
  }
  Result<std::string> compare_set(std::string_view key, std::optional<std::string_view> expected,
                                  std::string_view value) override {
    note(key);
    return store_->compare_set(key, expected, value);
  }
  Result<bool> remove(std::string_view key) override {
    const std::lock_guard lock(keys_->mutex);
    keys_->all.erase(std::string(key));
    return store_->remove(key);
  }
  void abort() noexcept override { store_->abort(); }
  std::shared_ptr<Store> share(milliseconds patience) override {
    return std::make_shared<CountedStore>(store_->share(patience), keys_);
  }

 private:
  void note(std::string_view key) {
    const std::lock_guard lock(keys_->mutex);
    keys_->all.emplace(key);
  }
  const std::shared_ptr<Store> store_;
  const std::shared_ptr<Keys> keys_;
};

using GroupRebuild = GroupDescent;
using GroupSplit = GroupDescent;

TEST_F(GroupRebuild, AfterARankIsLost_TheOthersComputeOn) {
  for (const Devices& devices : kTriples) {
    run(devices, [&](uint32_t rank, ProcessGroup& group) {
      EXPECT_EQ(sum(group, static_cast<float>(rank)), "3 of 3");
      // The group's end may take a sum with it that has not ended on all ranks.
      meet(3);
      if (rank == 1) return;  // its end is what the others wait for
      EXPECT_THAT(sum(group, static_cast<float>(rank)), HasSubstr("rank 1"));
      expect_failure(group);
      const uint32_t members[] = {0, 2};
      const auto next = group.rebuild({.epoch = 7, .members = members});
      ASSERT_TRUE(next.ok()) << next.status().to_string();
      EXPECT_EQ((*next)->place().rank, rank / 2);
      EXPECT_EQ((*next)->place().rank_count, 2u);
      EXPECT_EQ((*next)->name(), "test");
      EXPECT_EQ((*next)->epoch(), 7u);
      EXPECT_THAT((*next)->job_ranks(), ElementsAre(0, 2));
      EXPECT_EQ((*next)->is_native(), devices[0] == "npu:0" && devices[2] == "npu:2");
      EXPECT_EQ(sum(**next, static_cast<float>(rank)), "2 of 2") << devices[rank];
      EXPECT_THAT((*next)->trace(),
                  AllOf(HasSubstr("\"epoch\": 7"), HasSubstr("\"job_ranks\": [0, 2]")));
      EXPECT_THAT(sum(group, 1), HasSubstr("rank 1")) << "the one that failed stays failed";
    });
  }
}

TEST_F(GroupRebuild, OtherOrder_MakesPlacesRanks) {
  run({"cpu:0", "cpu:0", "cpu:0"}, [&](uint32_t rank, ProcessGroup& group) {
    const uint32_t members[] = {2, 0, 1};
    const auto next = group.rebuild({.epoch = 1, .members = members});
    ASSERT_TRUE(next.ok()) << next.status().to_string();
    EXPECT_EQ((*next)->place().rank, (rank + 1) % 3);
    EXPECT_EQ(sum(group, 1), "3 of 3") << "one that has not failed goes on";
    EXPECT_EQ(sum(**next, 2), "6 of 3");
    // Of a group that was rebuilt, by its own ranks; the job's are those of the first.
    if (rank == 0) return;  // 1 there
    const uint32_t again[] = {2, 0};
    const auto last = (*next)->rebuild({.epoch = 2, .members = again});
    ASSERT_TRUE(last.ok()) << last.status().to_string();
    EXPECT_THAT((*last)->job_ranks(), ElementsAre(1, 2));
    EXPECT_EQ(sum(**last, static_cast<float>(rank)), "3 of 2");
  });
}

TEST_F(GroupRebuild, PartsThatDoNotKnowOfEachOther_MayHaveOneEpoch) {
  run({"cpu:0", "cpu:0", "cpu:0", "cpu:0"}, [&](uint32_t rank, ProcessGroup& group) {
    const uint32_t members[] = {rank / 2 * 2, rank / 2 * 2 + 1};
    const auto next = group.rebuild({.epoch = 1, .members = members});
    ASSERT_TRUE(next.ok()) << next.status().to_string();
    EXPECT_EQ(sum(**next, static_cast<float>(rank)), rank < 2 ? "1 of 2" : "5 of 2");
  });
}

TEST_F(GroupRebuild, BadArguments_AreNamed) {
  run({"cpu:0", "cpu:0"}, [&](uint32_t rank, ProcessGroup& group) {
    const auto refused = [&](uint64_t epoch, std::vector<uint32_t> members,
                             std::chrono::nanoseconds timeout = seconds(0)) {
      const auto next = group.rebuild({epoch, members, timeout});
      EXPECT_EQ(next.status().code(), BP_INVALID_ARGUMENT);
      return next.status().message();
    };
    EXPECT_THAT(refused(0, {0, 1}), HasSubstr("group test: expected an epoch above 0, found 0"));
    EXPECT_THAT(refused(1, {}), HasSubstr("members: there are none"));
    EXPECT_THAT(refused(1, {0, 1, 2}), HasSubstr("expected ranks from 0 to 1, found 2"));
    EXPECT_THAT(refused(1, {0, 1, 0}), HasSubstr("rank 0 is there twice"));
    EXPECT_THAT(refused(1, {1 - rank}),
                HasSubstr("this rank, " + std::to_string(rank) + ", is not among rank " +
                          std::to_string(1 - rank)));
    EXPECT_THAT(refused(1, {0, 1}, seconds(-1)), HasSubstr("timeout is negative"));
    EXPECT_THAT(refused(1, {0, 1}, seconds(61)), HasSubstr("BACKPLANE_TIMEOUT"));
    const uint32_t both[] = {0, 1};
    const auto next = group.rebuild({.epoch = 1, .members = both});  // nothing is used up
    ASSERT_TRUE(next.ok()) << next.status().to_string();
    EXPECT_THAT(refused(1, {0, 1}), HasSubstr("expected an epoch above 1, found 1"));
    const auto behind = (*next)->rebuild({.epoch = 1, .members = both});
    EXPECT_THAT(behind.status().message(),
                HasSubstr("group test epoch 1: expected an epoch above 1, found 1"));
  });
}

TEST_F(GroupRebuild, MembersThatDiffer_NameBothSidesOnAll) {
  run({"cpu:0", "cpu:0", "cpu:0"}, [&](uint32_t rank, ProcessGroup& group) {
    const std::vector<uint32_t> members =
        rank == 1 ? std::vector<uint32_t>{0, 1} : std::vector<uint32_t>{0, 1, 2};
    const auto begin = Clock::now();
    const auto next = group.rebuild({.epoch = 1, .members = members, .timeout = seconds(20)});
    EXPECT_EQ(next.status().code(), BP_INVALID_ARGUMENT);
    EXPECT_THAT(next.status().message(),
                AllOf(HasSubstr("rank 1 (cpu:0)"), HasSubstr("ranks 0 and 1"),
                      HasSubstr("ranks 0 to 2"), HasSubstr("was told of the members")));
    EXPECT_LT(Clock::now() - begin, kBeforeDeadline);
  });
}

TEST_F(GroupRebuild, Timeout_IsOfAllItsParts) {
  constexpr auto kTimeout = milliseconds(2000);
  expect_within(kTimeout + seconds(1), [&](Delays& delays) {
    run({"cpu:0", "cpu:0"}, [&](uint32_t rank, ProcessGroup& group) {
      const uint32_t members[] = {0, 1};
      if (rank == 1) {  // it agrees late, and does not join
        std::this_thread::sleep_for(milliseconds(1300));
        return agree_alone(group, 1, members);
      }
      const auto begin = Clock::now();
      const auto next = group.rebuild({.epoch = 1, .members = members, .timeout = kTimeout});
      delays.note_since(begin, "rank 0");
      EXPECT_EQ(next.status().code(), BP_TIMEOUT) << next.status().to_string();
    });
  });
}

TEST_F(GroupRebuild, DeadlineThatPasses_IsToldWithWhatSetIt) {
  core_options_ = {{"BACKPLANE_CCL_TIMEOUT", "3"}};
  make_runtime();
  timeout_ = seconds(0);
  run({"cpu:0", "cpu:0"}, [&](uint32_t rank, ProcessGroup& group) {
    const uint32_t members[] = {0, 1};
    for (const auto& [epoch, timeout, words] :
         {std::tuple(1, seconds(0), "in time: 1 (BACKPLANE_CCL_TIMEOUT; store "),
          std::tuple(2, seconds(2), "in time: 1 (the timeout that the program gave; store ")}) {
      const auto number = static_cast<uint64_t>(epoch);
      if (rank == 1) agree_alone(group, number, members);
      if (rank == 0) {
        const auto next = group.rebuild({.epoch = number, .members = members, .timeout = timeout});
        EXPECT_THAT(next.status().message(), HasSubstr(words));
      }
      meet(2);
    }
  });
}

TEST_F(GroupRebuild, EpochsThatDiffer_NameBothSidesOnAll) {
  run({"cpu:0", "cpu:0"}, [&](uint32_t rank, ProcessGroup& group) {
    const uint32_t members[] = {0, 1};
    // The lower epoch is told when the higher one comes, which is told at its deadline.
    const auto timeout = rank == 0 ? seconds(20) : milliseconds(1500);
    meet(2);
    const auto next = group.rebuild({.epoch = 4 + rank, .members = members, .timeout = timeout});
    EXPECT_EQ(next.status().code(), BP_INVALID_ARGUMENT);
    EXPECT_THAT(next.status().message(), AllOf(HasSubstr("rank 0 (cpu:0)"), HasSubstr("epoch 4"),
                                               HasSubstr("rank 1 (cpu:0)"), HasSubstr("epoch 5")));
  });
}

TEST_F(GroupRebuild, MemberThatDoesNotCome_IsNamedAndTheNextTryGoesWithout) {
  std::atomic<int> left = 2;
  run({"cpu:0", "npu:0", "cpu:0"}, [&](uint32_t rank, ProcessGroup& group) {
    if (rank == 1) {
      EXPECT_TRUE(await_that([&] { return left == 0; }));
      const uint32_t late[] = {0, 1, 2};
      const auto next = group.rebuild({.epoch = 1, .members = late, .timeout = seconds(20)});
      EXPECT_EQ(next.status().code(), BP_TIMEOUT);
      EXPECT_THAT(next.status().message(),
                  AllOf(HasSubstr("rank 0 (cpu:0) has given up epoch 1"), HasSubstr("rank 1")));
      const auto behind = group.rebuild({.epoch = 2, .members = late, .timeout = seconds(20)});
      EXPECT_EQ(behind.status().code(), BP_INVALID_ARGUMENT);
      EXPECT_THAT(behind.status().message(), HasSubstr("was told of the members ranks 0 and 2"));
      return;
    }
    const uint32_t all[] = {0, 1, 2};
    meet(2);  // each is to come before the other's deadline
    const auto failed = group.rebuild({.epoch = 1, .members = all, .timeout = seconds(2)});
    EXPECT_EQ(failed.status().code(), BP_TIMEOUT);
    EXPECT_THAT(failed.status().message(), HasSubstr("did not come in time: rank 1"));
    const uint32_t members[] = {0, 2};
    const auto next = group.rebuild({.epoch = 2, .members = members});
    EXPECT_TRUE(next.ok()) << next.status().to_string();
    if (next.ok()) EXPECT_EQ(sum(**next, static_cast<float>(rank)), "2 of 2");
    --left;
  });
}

TEST_F(GroupRebuild, RuntimeThatCloses_EndsIt) {
  const auto owner_of = [](HandleKind, const void*) -> const void* { return nullptr; };
  run({"cpu:0", "cpu:0"}, [&](uint32_t rank, ProcessGroup& group) {
    if (rank == 1) {
      std::this_thread::sleep_for(milliseconds(50));
      EXPECT_TRUE(runtime_->close_amid_calls(owner_of).ok());
      return;
    }
    const uint32_t members[] = {0, 1};
    const auto begin = Clock::now();
    const auto next = group.rebuild({.epoch = 1, .members = members});
    EXPECT_FALSE(next.ok());
    EXPECT_LT(Clock::now() - begin, kBeforeDeadline);
  });
}

/// What a process has open.
size_t entries_of(const char* folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder),
                                           std::filesystem::directory_iterator()));
}

TEST_F(GroupRebuild, TwentyTimesAfterAFailure_LeavesNothing) {
  const auto communication_bytes = [&](const char* name) {
    return device(name).allocator().stats().tag_bytes[static_cast<size_t>(MemoryTag::kComm)];
  };
  size_t descriptors = 0;
  size_t threads = 0;
  for (const Devices& devices : {Devices{"npu:0", "npu:1"}, Devices{"npu:0", "cpu:0"}}) {
    run(devices, [&](uint32_t rank, ProcessGroup& group) {
      Ref<ProcessGroup> now(&group);
      const uint32_t members[] = {0, 1};
      for (uint64_t epoch = 1; epoch <= 20; ++epoch) {
        if (rank == 0) now->abort("once more");
        expect_failure(*now);
        auto next = now->rebuild({.epoch = epoch, .members = members});
        ASSERT_TRUE(next.ok()) << next.status().to_string();
        now = *std::move(next);
        EXPECT_EQ(sum(*now, static_cast<float>(rank)), "1 of 2");
        meet(2);
        // After two rounds there is all that stays, as pools of threads.
        if (epoch == 2 && rank == 0) {
          descriptors = entries_of("/proc/self/fd");
          threads = entries_of("/proc/self/task");
        }
        if (epoch == 20 && rank == 0) {
          // A stream more may be in its pool, and a thread on its way out; a leak is one a round.
          EXPECT_LT(entries_of("/proc/self/fd"), descriptors + 8);
          EXPECT_LT(entries_of("/proc/self/task"), threads + 8);
        }
        meet(2);
      }
    });
    EXPECT_EQ(communication_bytes("npu:0"), 0u);
  }
}

// --- What is told while others are waited for

/// What rank 1 of four tells, which waits alone.
std::vector<std::string> told_meanwhile(const std::function<Status(const Relatives&)>& wait,
                                        std::shared_ptr<Store> store = make_memory_store()) {
  const std::vector<std::string> names = {"rank 0", "rank 1 (cpu:0)", "rank 2", "rank 3"};
  std::vector<std::string> lines;
  const JoinWait join = {"group test",
                         Clock::now() + milliseconds(200),
                         {.first = seconds(0), .next = seconds(60), .tell = [&](const auto& line) {
                            lines.push_back(line);
                          }}};
  const Relatives relatives{*store, 17, 1, names, join, [] { return Status(); }};
  EXPECT_EQ(wait(relatives).code(), BP_TIMEOUT);
  return lines;
}

TEST(Relatives, MembersThatDoNotCome_AreNamedMeanwhile) {
  EXPECT_THAT(told_meanwhile([](const Relatives& relatives) {
                const uint32_t members[] = {1, 3, 0};
                return agree_on_members(relatives, 5, members);
              }),
              ElementsAre("group test: rank 1 (cpu:0) waits for ranks 0 and 3, which have not come "
                          "to rebuild it as epoch 5; for 1 s more at most "
                          "(BACKPLANE_CCL_TIMEOUT)"));
}

TEST(Relatives, RanksThatDoNotSplitTheGroup_AreNamedMeanwhile) {
  EXPECT_THAT(told_meanwhile([](const Relatives& relatives) {
                EXPECT_TRUE(relatives.store.set("17/split-2/0", std::string(16, '\0')).ok());
                EXPECT_TRUE(relatives.store.set("17/split-2/2", std::string(16, '\0')).ok());
                std::vector<uint32_t> missing;
                const Status status =
                    exchange_choices(relatives, 2, {.color = 0, .key = 0}, &missing).status();
                EXPECT_THAT(missing, ElementsAre(3));
                return status;
              }),
              ElementsAre(HasSubstr("group test: rank 1 (cpu:0) waits for rank 3, which has not "
                                    "come to split it; for 1 s more")));
}

TEST(Relatives, StoreThatIsSilent_IsToldMeanwhileAndIsNoRanksFault) {
  const std::string silent = std::string(
                                 "group test: rank 1 (cpu:0) waits, and for whom is not "
                                 "known: ") +
                             kSilence + "; for 1 s more at most (BACKPLANE_CCL_TIMEOUT)";
  EXPECT_THAT(told_meanwhile(
                  [](const Relatives& relatives) {
                    const uint32_t members[] = {1, 3, 0};
                    const Status status = agree_on_members(relatives, 5, members);
                    EXPECT_EQ(status.message(), kSilence);
                    return status;
                  },
                  std::make_shared<SilentStore>()),
              ElementsAre(silent));
  EXPECT_THAT(told_meanwhile(
                  [](const Relatives& relatives) {
                    std::vector<uint32_t> missing;
                    const Status status =
                        exchange_choices(relatives, 2, {.color = 0, .key = 0}, &missing).status();
                    EXPECT_EQ(status.message(), kSilence);
                    EXPECT_TRUE(missing.empty());
                    return status;
                  },
                  std::make_shared<SilentStore>()),
              ElementsAre(silent));
}

TEST(Relatives, OfManyMembers_TheFirstAreLookedAt) {
  std::vector<uint32_t> members(1000);
  std::iota(members.begin(), members.end(), 0u);
  EXPECT_THAT(told_meanwhile([&](const Relatives& relatives) {
                return agree_on_members(relatives, 5, members);
              }),
              ElementsAre(HasSubstr("waits for ranks 0 and 2 to 255, and maybe for others, "
                                    "which have not come to rebuild it as epoch 5; ")));
}

// --- Split

TEST_F(GroupSplit, Colors_MakeGroupsInTheOrderOfKeys) {
  const Devices devices[] = {{"cpu:0", "cpu:0", "cpu:0", "cpu:0", "cpu:0"},
                             {"npu:0", "npu:1", "npu:2", "npu:3", "cpu:0"}};
  for (const Devices& mix : devices) {
    run(mix, [&](uint32_t rank, ProcessGroup& group) {
      // Ranks 0, 2 and 4 with the last one first; ranks 1 and 3 by their numbers.
      const auto part =
          group.split({.color = rank % 2, .key = rank == 4 ? -1 : static_cast<int64_t>(0)});
      ASSERT_TRUE(part.ok()) << part.status().to_string();
      const uint32_t places[] = {1, 0, 2, 1, 0};
      EXPECT_EQ((*part)->place().rank, places[rank]);
      EXPECT_EQ((*part)->name(), "test/1." + std::to_string(rank % 2));
      if (rank % 2 == 0) EXPECT_THAT((*part)->job_ranks(), ElementsAre(4, 0, 2));
      if (rank % 2 == 1) EXPECT_THAT((*part)->job_ranks(), ElementsAre(1, 3));
      EXPECT_EQ((*part)->is_native(), mix[4] != mix[0] && rank % 2 == 1);
      EXPECT_EQ(sum(**part, static_cast<float>(rank)), rank % 2 == 0 ? "6 of 3" : "4 of 2");
      EXPECT_EQ(sum(group, static_cast<float>(rank)), "10 of 5") << "the group itself goes on";
    });
  }
}

/// What `body`, in round 0, 1, ..., leaves in the store that the group is in.
std::vector<size_t> GroupDescent::keys_after_rounds(
    uint32_t rounds,
    const std::function<void(uint32_t rank, uint32_t round, Ref<ProcessGroup>*)>& body) {
  const Devices devices = {"cpu:0", "npu:0", "npu:1"};
  const auto keys = std::make_shared<CountedStore::Keys>();
  store_ = std::make_shared<CountedStore>(make_memory_store(), keys);
  std::vector<size_t> counts;
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < devices.size(); ++rank) {
    threads.emplace_back([&, rank] {
      auto group = ProcessGroup::create(group_args(devices, rank));
      ASSERT_TRUE(group.ok()) << group.status().to_string();
      for (uint32_t round = 0; round < rounds; ++round) {
        body(rank, round, &*group);
        meet(3);
        if (rank == 0) counts.push_back(keys->count());
        meet(3);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return counts;
}

TEST_F(GroupSplit, ManyTimes_LeavesNoMoreInTheStoreThanOnce) {
  const auto counts = keys_after_rounds(6, [](uint32_t rank, uint32_t round, auto* group) {
    const int64_t color = rank == 2 && round % 2 == 1 ? kNoColor : rank / 2;
    const auto part = (*group)->split({.color = color});
    ASSERT_TRUE(part.ok()) << part.status().to_string();
    if (*part) EXPECT_EQ(sum(**part, 1), rank == 2 ? "1 of 1" : "2 of 2");
  });
  ASSERT_EQ(counts.size(), 6u);
  EXPECT_EQ(counts[2], counts[0]);
  EXPECT_EQ(counts[4], counts[0]);
  EXPECT_EQ(counts[5], counts[1]);
}

TEST_F(GroupRebuild, ManyTimes_LeavesThreeKeysOfEachRank) {
  const auto counts = keys_after_rounds(4, [](uint32_t, uint32_t round, auto* group) {
    const uint32_t members[] = {2, 0, 1};
    auto next = (*group)->rebuild({.epoch = round + 1, .members = members});
    ASSERT_TRUE(next.ok()) << next.status().to_string();
    *group = *std::move(next);
    EXPECT_EQ(sum(**group, 1), "3 of 3");
  });
  ASSERT_EQ(counts.size(), 4u);
  for (size_t i = 1; i < counts.size(); ++i) EXPECT_EQ(counts[i] - counts[i - 1], 9u) << i;
}

TEST_F(GroupSplit, NoColor_IsNoGroup) {
  run({"cpu:0", "cpu:0", "cpu:0"}, [&](uint32_t rank, ProcessGroup& group) {
    for (int round = 0; round < 3; ++round) {
      const auto part = group.split({.color = rank == 1 ? kNoColor : 5});
      ASSERT_TRUE(part.ok()) << part.status().to_string();
      ASSERT_EQ(static_cast<bool>(*part), rank != 1);
      if (rank == 1) continue;
      EXPECT_EQ((*part)->name(), "test/" + std::to_string(round + 1) + ".5");
      EXPECT_EQ(sum(**part, static_cast<float>(rank)), "2 of 2");
    }
  });
}

TEST_F(GroupSplit, PartOfAPart_AndARebuiltOne_HaveTheRanksOfTheFirst) {
  run({"cpu:0", "cpu:0", "cpu:0", "cpu:0"}, [&](uint32_t rank, ProcessGroup& group) {
    const auto half = group.split({.color = rank / 2});
    ASSERT_TRUE(half.ok());
    const auto own = (*half)->split({.color = 9, .key = -static_cast<int64_t>(rank)});
    ASSERT_TRUE(own.ok());
    EXPECT_EQ((*own)->name(), "test/1." + std::to_string(rank / 2) + "/1.9");
    EXPECT_THAT((*own)->job_ranks(), ElementsAre(rank / 2 * 2 + 1, rank / 2 * 2));
    const uint32_t members[] = {1, 0};
    const auto rebuilt = (*own)->rebuild({.epoch = 1, .members = members});
    ASSERT_TRUE(rebuilt.ok());
    EXPECT_THAT((*rebuilt)->job_ranks(), ElementsAre(rank / 2 * 2, rank / 2 * 2 + 1));
    const auto part = (*rebuilt)->split({.color = 0});
    ASSERT_TRUE(part.ok());
    EXPECT_EQ((*part)->epoch(), 1u) << "or its dumps would be those of another group";
    EXPECT_EQ(sum(**part, static_cast<float>(rank)), rank < 2 ? "1 of 2" : "5 of 2");
  });
}

TEST_F(GroupSplit, BadArguments_AreNamedAndUseNothingUp) {
  run({"cpu:0", "cpu:0"}, [&](uint32_t rank, ProcessGroup& group) {
    if (rank == 0) {
      EXPECT_THAT(group.split({.color = -2}).status().message(),
                  HasSubstr("color: expected -1, for no group, or more, found -2"));
      EXPECT_THAT(group.split({.timeout = seconds(61)}).status().message(),
                  HasSubstr("BACKPLANE_TIMEOUT"));
    }
    const auto part = group.split({.color = 1});
    ASSERT_TRUE(part.ok()) << part.status().to_string();
    EXPECT_EQ(sum(**part, 1), "2 of 2");
  });
}

TEST_F(GroupSplit, RankThatDoesNotCome_FailsTheGroupOnAll) {
  run({"cpu:0", "npu:0", "cpu:0"}, [&](uint32_t rank, ProcessGroup& group) {
    if (rank == 1) {
      expect_failure(group);
      const auto late = group.split({.color = 0});
      EXPECT_EQ(late.status().code(), BP_TIMEOUT);
      return;
    }
    meet(2);  // each is to come before the other's deadline
    const auto part = group.split({.color = 0, .timeout = seconds(2)});
    EXPECT_EQ(part.status().code(), BP_TIMEOUT);
    EXPECT_THAT(part.status().message(),
                AllOf(HasSubstr("group test"), HasSubstr("to split it"), HasSubstr("rank 1")));
    EXPECT_THAT(group.failure().culprits, ElementsAre(1));
  });
}

TEST_F(GroupSplit, GroupThatFails_EndsIt) {
  expect_within(seconds(2), [&](Delays& delays) {
    run({"cpu:0", "cpu:0"}, [&](uint32_t rank, ProcessGroup& group) {
      if (rank == 1) {
        std::this_thread::sleep_for(milliseconds(50));
        group.abort("enough");
        return;
      }
      const auto begin = Clock::now();
      const auto part = group.split({.color = 0});
      EXPECT_EQ(part.status().code(), BP_CANCELLED);
      EXPECT_THAT(part.status().message(), HasSubstr("enough"));
      delays.note_since(begin, "rank 0");
    });
  });
}

TEST_F(GroupSplit, NameThatIsTooLong_IsNamed) {
  store_ = make_memory_store();
  GroupArgs args = group_args({"cpu:0"}, 0);
  args.name = std::string(216, 'x');
  const auto group = ProcessGroup::create(args);
  ASSERT_TRUE(group.ok());
  EXPECT_THAT((*group)->split({}).status().message(),
              HasSubstr("expected at most 215 bytes, found 216"));
}

}  // namespace
}  // namespace bp::ccl
