// SPDX-License-Identifier: Apache-2.0
//
// What those say who wait for ranks and nodes: of many, and where the store does not answer.
#include <sys/types.h>

#include <csignal>

#include "ccl/launch/job_store.hpp"
#include "ccl/launch/nodes.hpp"
#include "ccl/store/other_server_test.hpp"
#include "ccl/store/silent_store_test.hpp"

namespace bp::ccl {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// Keeps what is told, and does something more then.
class Told {
 public:
  Telling telling(milliseconds first, milliseconds next, std::string_view set_by = kSetByOption) {
    return {.first = first,
            .next = next,
            .tell =
                [this](const std::string& line) {
                  lines.push_back(line);
                  if (on_line) on_line();
                },
            .set_by = set_by};
  }
  std::vector<std::string> lines;
  std::function<void()> on_line;
};

std::optional<std::string> no_variable(std::string_view /*name*/) { return std::nullopt; }

Job waiting_rank(uint32_t rank, uint32_t count, StorePlace place) {
  Job job;
  job.launcher = Launcher::kOpenMpi;
  job.rank = rank;
  job.rank_count = count;
  job.name = "17";
  job.store = std::move(place);
  return job;
}

Status open_job(const Job& job, milliseconds time, const Telling& telling) {
  return JobStore::open(job, no_variable, in(time), telling).status();
}

std::unique_ptr<Nodes> first_of(std::shared_ptr<Store> store, uint32_t count) {
  return value_of(Nodes::make({.store = std::move(store), .node_count = count}));
}

TEST(RankWaits, OfManyRanks_TheFirstAreLookedAt) {
  const TempFolder folder;
  Told told;
  const Status status =
      open_job(waiting_rank(0, 1000, {StorePlace::Kind::kFile, folder.path("store")}),
               milliseconds(500), told.telling(milliseconds(100), seconds(60), kSetByProgram));
  EXPECT_THAT(told.lines,
              ElementsAre("job 17: rank 0 waits for ranks 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, "
                          "13, 14, 15, 16 and 239 more of 1000, and maybe for some above 255, "
                          "which have not come; for 1 s more at most (the timeout that the program "
                          "gave)"));
  EXPECT_EQ(status.code(), BP_TIMEOUT);
  EXPECT_THAT(status.message(), HasSubstr(" and 983 more of 1000 did not come in time (the timeout "
                                          "that the program gave); file "));
}

TEST(RankWaits, ServerThatIsStopped_IsToldAndEndsThemInTime) {
  const OtherServer server("job 17");
  Job job = waiting_rank(1, 2, {StorePlace::Kind::kTcp, server.endpoint});
  job.token_file = server.token_file();
  Told told;
  told.on_line = [&] {
    if (told.lines.size() == 1) server.signal(SIGSTOP);
  };
  const auto begin = Store::Clock::now();
  const Status status =
      open_job(job, seconds(6), told.telling(milliseconds(0), milliseconds(1), kSetByOption));
  EXPECT_LT(Store::Clock::now() - begin, seconds(20)) << "not long after the deadline";
  EXPECT_EQ(status.code(), BP_TIMEOUT);
  const std::string silence = "tcp " + server.endpoint + ": the store does not answer";
  EXPECT_EQ(status.message(), silence);
  ASSERT_GE(told.lines.size(), 2u);
  EXPECT_THAT(told.lines[0], StartsWith("job 17: rank 1 waits for rank 0 of 2, which has not "));
  EXPECT_THAT(told.lines[1],
              StartsWith("job 17: rank 1 waits, and for whom is not known: " + silence + "; for "));
  EXPECT_THAT(told.lines[1], Not(HasSubstr("for 0 s more"))) << "a look took until the deadline";
}

TEST(NodeWaits, OfManyNodes_TheFirstAreLookedAt) {
  Told told;
  const auto nodes = first_of(make_memory_store(), 1000);
  const Status status = nodes
                            ->begin(0, in(milliseconds(300)),
                                    told.telling(milliseconds(0), seconds(60), kSetByProgram))
                            .status();
  EXPECT_THAT(told.lines,
              ElementsAre(AllOf(HasSubstr("node 0 waits for nodes 1, 2, 3, "),
                                HasSubstr(", 16 and 239 more of 1000, and maybe for some above "
                                          "255, which have not come; for 1 s more"))));
  EXPECT_THAT(status.message(), HasSubstr(" and 983 more of 1000 did not come in time (the timeout "
                                          "that the program gave)"));
}

TEST(NodeWaits, StoreThatIsSilent_IsTold) {
  Told told;
  const auto nodes = first_of(std::make_shared<SilentStore>(), 2);
  const Status status =
      nodes->begin(0, in(milliseconds(300)), told.telling(milliseconds(0), seconds(60))).status();
  EXPECT_THAT(told.lines, ElementsAre(std::string("node 0 waits, and for whom is not known: ") +
                                      kSilence + "; for 1 s more at most (BACKPLANE_CCL_TIMEOUT)"));
  EXPECT_EQ(status.to_string(), std::string("TIMEOUT: ") + kSilence);
}

}  // namespace
}  // namespace bp::ccl
