// SPDX-License-Identifier: Apache-2.0
//
// Groups that do not come to be: every rank that joins gets an error that says why, in time.
#include <filesystem>

#include "ccl/group/group_harness_test.hpp"
#include "core/base/temp_folder_test.hpp"

namespace bp::ccl {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

class GroupJoin : public GroupTest {
 protected:
  /// Rank `rank` of `rank_count` joins alone.
  Status join(uint32_t rank, uint32_t rank_count, const std::string& name = "cpu:0") {
    GroupArgs args;
    args.store = store_;
    args.place = {rank, rank_count};
    args.device = &device(name);
    args.timeout = timeout_;
    return ProcessGroup::create(args).status();
  }
  /// Until that rank has begun to join: then it hears of its Runtime's end, and has its place.
  void await_card(uint32_t rank) {
    const std::string key = "ccl/default/card/" + std::to_string(rank);
    EXPECT_TRUE(await_that([&] {
      const auto card = store_->try_get(key);
      return card.ok() && card->has_value();
    })) << key;
  }
};

TEST_F(GroupJoin, UnknownInterface_IsNamedThoughThreadsNeedNone) {
  for (const auto& [name, expected] : {std::pair{"eth77", BP_INVALID_ARGUMENT}, {"lo", BP_OK}}) {
    core_options_ = {{"BACKPLANE_CCL_INTERFACE", name}};
    make_runtime();
    store_ = make_memory_store();
    const Status status = join(0, 1);
    EXPECT_EQ(status.code(), expected) << status.to_string();
    if (!status.ok()) EXPECT_THAT(status.message(), HasSubstr("found 'eth77'"));
  }
}

TEST_F(GroupJoin, BadArguments_AreNamed) {
  store_ = make_memory_store();
  EXPECT_THAT(join(2, 2).message(), HasSubstr("expected a rank from 0 to 1, found 2"));
  EXPECT_THAT(join(0, 0).message(), HasSubstr("ranks, found 0"));
  GroupArgs args;
  args.place = {0, 1};
  args.device = &device("cpu:0");
  EXPECT_THAT(ProcessGroup::create(args).status().message(), HasSubstr("store is missing"));
  args.store = store_;
  args.name = "";
  EXPECT_THAT(ProcessGroup::create(args).status().message(), HasSubstr("a name of 1 to 256"));
  args.name = "x";
  args.device = nullptr;
  EXPECT_THAT(ProcessGroup::create(args).status().message(), HasSubstr("device is missing"));
  args.device = &device("cpu:0");
  args.timeout = std::chrono::hours(1);
  EXPECT_THAT(ProcessGroup::create(args).status().message(), HasSubstr("BACKPLANE_TIMEOUT"));
}

TEST_F(GroupJoin, MissingRanks_AreNamedAtTheDeadline) {
  store_ = make_memory_store();
  timeout_ = milliseconds(100);
  const Status status = join(1, 4);
  EXPECT_EQ(status.code(), BP_TIMEOUT);
  EXPECT_THAT(status.message(), HasSubstr("did not come in time: 0, 2, 3"));
}

TEST_F(GroupJoin, DeadlineThatPasses_IsToldWithWhatSetIt) {
  store_ = make_memory_store();
  timeout_ = milliseconds(100);
  EXPECT_THAT(join(0, 2).message(),
              HasSubstr("in time: 1 (the timeout that the program gave; store memory"));
  core_options_ = {{"BACKPLANE_CCL_TIMEOUT", "1"}};
  make_runtime();
  store_ = make_memory_store();
  timeout_ = milliseconds(0);
  EXPECT_THAT(join(0, 2).message(), HasSubstr("in time: 1 (BACKPLANE_CCL_TIMEOUT; store memory"));
}

TEST_F(GroupJoin, RuntimeThatCloses_EndsJoining) {
  store_ = make_memory_store();
  GroupArgs args = group_args({"cpu:0", "cpu:0"}, 0);
  args.name = "default";
  Status joined;
  std::thread other([&] { joined = ProcessGroup::create(args).status(); });
  await_card(0);
  const auto begin = Clock::now();
  const auto owner_of = [](HandleKind, const void*) -> const void* { return nullptr; };
  EXPECT_TRUE(runtime_->close_amid_calls(owner_of).ok());
  other.join();
  EXPECT_LT(Clock::now() - begin, kBeforeDeadline);
  EXPECT_EQ(joined.code(), BP_CANCELLED) << joined.to_string();
}

TEST_F(GroupJoin, RankThatGivesUp_IsToldToTheOthersAtOnce) {
  expect_within(seconds(1), [&](Delays& delays) {
    store_ = make_memory_store();
    make_runtime();
    const auto closing = runtime_;
    Status closed;
    GroupArgs args = group_args({"cpu:0", "cpu:0", "cpu:0"}, 1);
    args.name = "default";  // as that of join()
    std::thread one([&] { closed = ProcessGroup::create(args).status(); });
    await_card(1);
    make_runtime();
    Status joined;
    std::thread other([&] { joined = join(0, 3); });
    await_card(0);
    const auto begin = Clock::now();
    const auto owner_of = [](HandleKind, const void*) -> const void* { return nullptr; };
    EXPECT_TRUE(closing->close_amid_calls(owner_of).ok());
    one.join();
    other.join();
    delays.note_since(begin, "both");
    EXPECT_EQ(closed.code(), BP_CANCELLED) << closed.to_string();
    EXPECT_EQ(joined.code(), BP_UNAVAILABLE) << joined.to_string();
    EXPECT_THAT(joined.message(),
                AllOf(HasSubstr("rank 1 cannot join"), HasSubstr("is being closed")));
  });
}

TEST_F(GroupJoin, RankThatIsTaken_IsRefused) {
  store_ = make_memory_store();
  timeout_ = milliseconds(300);
  Status first;
  std::thread other([&] { first = join(0, 2); });
  await_card(0);
  const Status second = join(0, 2);
  other.join();
  EXPECT_EQ(second.code(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(second.message(), HasSubstr("rank 0 is in the group already"));
  EXPECT_EQ(first.code(), BP_TIMEOUT);
}

TEST_F(GroupJoin, RankCountsThatDiffer_NameBothOnBoth) {
  store_ = make_memory_store();
  const auto begin = Clock::now();
  Status first;
  std::thread other([&] { first = join(1, 3); });
  await_card(1);
  const Status second = join(2, 4);  // neither waits for the other alone
  other.join();
  for (const Status& status : {first, second}) {
    EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT) << status.to_string();
    EXPECT_THAT(status.message(), HasSubstr("group default: rank 2 was told of 4 ranks, rank 1 of "
                                            "3: expected as many on each"));
  }
  EXPECT_LT(Clock::now() - begin, kBeforeDeadline);
}

TEST_F(GroupJoin, TraceFolderThatIsMissing_IsMade) {
  const TempFolder folder;
  core_options_ = {{"BACKPLANE_CCL_TRACE", folder.path("traces")}};
  make_runtime();
  store_ = make_memory_store();
  EXPECT_TRUE(join(0, 1).ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path("traces")));
}

/// Also of the socket's: who waits for this rank is told why it does not come.
TEST_F(GroupJoin, PlacesThatCannotBeWritten_AreNamedOnAllRanks) {
  const TempFolder folder;
  const std::string wrong = folder.path("none/inner");
  for (const std::string option : {"BACKPLANE_CCL_TRACE", "BACKPLANE_CCL_STATUS"}) {
    core_options_ = {};
    make_runtime();
    store_ = make_memory_store();
    const auto begin = Clock::now();
    Status waiting;
    Device* const good = &device("cpu:0");
    const Ref<Runtime> keeps = runtime_;
    std::thread other([&] {
      GroupArgs args;
      args.store = store_;
      args.place = {0, 2};
      args.device = good;
      args.timeout = timeout_;
      waiting = ProcessGroup::create(args).status();
    });
    await_card(0);
    core_options_ = {{option, wrong}};
    make_runtime();
    const Status refused = join(1, 2);
    other.join();
    EXPECT_EQ(refused.code(), BP_UNAVAILABLE);
    EXPECT_THAT(refused.message(), AllOf(HasSubstr("group default: " + option + ": "),
                                         HasSubstr(wrong), HasSubstr("No such file")));
    EXPECT_EQ(waiting.code(), BP_UNAVAILABLE);
    EXPECT_THAT(waiting.message(),
                AllOf(HasSubstr("rank 1 cannot join: "), HasSubstr(option), HasSubstr(wrong)));
    EXPECT_LT(Clock::now() - begin, kBeforeDeadline);
  }
}

}  // namespace
}  // namespace bp::ccl
