// SPDX-License-Identifier: Apache-2.0
//
// The parts of the launcher: lines, private names, stores of jobs, agreement of nodes. Whole jobs
// are started by tests/launch.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ccl/launch/ancestor.hpp"
#include "ccl/launch/job_store.hpp"
#include "ccl/launch/labelled_lines.hpp"
#include "ccl/launch/nodes.hpp"
#include "ccl/launch/private_folder.hpp"
#include "ccl/store/store_harness_test.hpp"
#include "ccl/store/tcp_store.hpp"
#include "core/base/temp_folder_test.hpp"
#include "tests/free_endpoint.hpp"

namespace bp::ccl {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

// --- lines ---

TEST(LabelledLines, WholeLines_InWhateverPieces) {
  LabelledLines lines("[r] ");
  EXPECT_EQ(lines.take("a"), "");
  EXPECT_EQ(lines.take("b\nc"), "[r] ab\n");
  EXPECT_EQ(lines.take("\n\n"), "[r] c\n[r] \n");
  EXPECT_EQ(lines.take(""), "");
  EXPECT_EQ(lines.take(std::string_view("\0\xff\r\n", 4)), std::string("[r] \0\xff\r\n", 8));
  EXPECT_EQ(lines.finish(), "");
  EXPECT_EQ(lines.take("no end"), "");
  EXPECT_EQ(lines.finish(), "[r] no end\n");
  EXPECT_EQ(lines.finish(), "");
}

TEST(LabelledLines, LongLines_AreCutAtTheLimit) {
  LabelledLines lines("> ");
  const std::string most(LabelledLines::kMostLineBytes, 'x');
  EXPECT_EQ(lines.take(most.substr(1)), "");
  EXPECT_EQ(lines.take("y"), "> " + most.substr(1) + "y\n");
  EXPECT_EQ(lines.take("rest\n"), "> rest\n");
  EXPECT_EQ(lines.take(most + "z\n"), "> " + most + "\n> z\n");
  EXPECT_EQ(lines.take(most.substr(2) + "\n"), "> " + most.substr(2) + "\n");
}

TEST(OutputQueue, TextIsWrittenInOrder_AndDroppedWithoutAReader) {
  int ends[2] = {};
  ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
  OutputQueue queue;
  queue.add(ends[1], "");
  EXPECT_TRUE(queue.is_empty());
  const std::string text(10'000, 'x');
  queue.add(ends[1], text);
  queue.add(ends[1], "end");
  EXPECT_EQ(queue.bytes(), text.size() + 3);
  while (!queue.is_empty()) queue.write_some();
  std::string found(20'000, '\0');
  found.resize(static_cast<size_t>(read(ends[0], found.data(), found.size())));
  EXPECT_EQ(found, text + "end");
  close(ends[0]);
  signal(SIGPIPE, SIG_IGN);
  queue.add(ends[1], "nobody reads this");
  queue.write_some();
  EXPECT_TRUE(queue.is_empty());
  EXPECT_EQ(queue.bytes(), 0u);
  close(ends[1]);
}

// --- private names ---

std::vector<std::string> files_of(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files.push_back(entry.path().filename().string());
  }
  return files;
}

Environment only(std::map<std::string, std::string, std::less<>> variables) {
  return [variables](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

TEST(PrivateFolder, RuntimeFolderOrTmp) {
  const TempFolder home;
  const auto own = private_folder(only({{"XDG_RUNTIME_DIR", home.path()}}));
  ASSERT_TRUE(own.ok()) << own.status().to_string();
  EXPECT_EQ(*own, home.path() + "/backplane");
  struct stat info = {};
  ASSERT_EQ(stat(own->c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0700u);
  const std::string in_tmp = "/tmp/backplane-" + std::to_string(geteuid());
  EXPECT_EQ(*private_folder(only({})), in_tmp);
  EXPECT_EQ(*private_folder(only({{"XDG_RUNTIME_DIR", home.path("nosuch")}})), in_tmp);
  EXPECT_EQ(*private_folder(only({{"XDG_RUNTIME_DIR", "relative"}})), in_tmp);
}

TEST(PrivateFolder, FoldersOfOthers_AreRefused) {
  const TempFolder home;
  const std::string path = home.path("backplane");
  const Environment environment = only({{"XDG_RUNTIME_DIR", home.path()}});
  ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
  ASSERT_EQ(chmod(path.c_str(), 0755), 0);
  EXPECT_THAT(private_folder(environment).status().message(),
              AllOf(HasSubstr(path), HasSubstr("mode 0700")));
  ASSERT_EQ(rmdir(path.c_str()), 0);
  ASSERT_EQ(symlink("/tmp", path.c_str()), 0);
  EXPECT_EQ(private_folder(environment).status().code(), BP_INVALID_ARGUMENT);
}

TEST(HeldName, LastHolder_RemovesTheFiles) {
  const TempFolder folder;
  auto first = *HeldName::hold(folder.path(), "a", soon());
  auto second = *HeldName::hold(folder.path(), "a", soon());
  EXPECT_EQ(first->path("store"), folder.path("a.store"));
  folder.write("a.store", "x");
  folder.write("ab.store", "another name's");
  first = nullptr;
  EXPECT_THAT(files_of(folder.path()),
              UnorderedElementsAre("gate", "a.alive", "a.store", "ab.store"));
  second = nullptr;
  EXPECT_THAT(files_of(folder.path()), UnorderedElementsAre("gate", "ab.store"));
}

/// As a killed process leaves them.
TEST(HeldName, FilesThatNobodyHolds_GoWithTheNextHolder) {
  const TempFolder folder;
  for (const char* name : {"a.alive", "a.store", "b.alive", "b.token"}) folder.write(name, "old");
  const auto held = *HeldName::hold(folder.path(), "a", soon());
  EXPECT_THAT(files_of(folder.path()), UnorderedElementsAre("gate", "a.alive"));
}

TEST(HeldName, HolderInAnotherProcess_Counts) {
  const TempFolder folder;
  int ready[2] = {};
  int done[2] = {};
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(done), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto held = HeldName::hold(folder.path(), "a", soon());
    static_cast<void>(!write(ready[1], held.ok() ? "y" : "n", 1));
    char none = 0;
    static_cast<void>(!read(done[0], &none, 1));
    _exit(0);  // without letting go
  }
  char answer = 0;
  ASSERT_EQ(read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  folder.write("a.store", "x");
  { const auto other = *HeldName::hold(folder.path(), "b", soon()); }
  EXPECT_THAT(files_of(folder.path()), UnorderedElementsAre("gate", "a.alive", "a.store"));
  ASSERT_EQ(write(done[1], "x", 1), 1);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  { const auto other = *HeldName::hold(folder.path(), "b", soon()); }
  EXPECT_THAT(files_of(folder.path()), UnorderedElementsAre("gate"));
  for (const int end : {ready[0], ready[1], done[0], done[1]}) close(end);
}

TEST(Ancestor, IsTheNearestWithoutTheVariable) {
  const auto parent = nearest_ancestor_without("BP_NOBODY_HAS_THIS");
  ASSERT_TRUE(parent.ok()) << parent.status().to_string();
  EXPECT_THAT(*parent, testing::StartsWith(std::to_string(getppid()) + "-"));
  // Every process of a test has a PATH, up to one that has not, or none is left.
  const auto far = nearest_ancestor_without("PATH");
  EXPECT_TRUE(!far.ok() || *far != *parent);
}

// --- stores of jobs ---

Job rank_of(uint32_t rank, uint32_t count, StorePlace place) {
  Job job;
  job.launcher = Launcher::kOpenMpi;
  job.rank = job.local_rank = rank;
  job.rank_count = job.local_count = count;
  job.name = "17";
  job.store = std::move(place);
  return job;
}

std::vector<Status> open_all(const std::vector<Job>& jobs, const Environment& environment,
                             milliseconds time = seconds(60), const Telling& telling = {}) {
  std::vector<Status> answers(jobs.size());
  std::vector<std::shared_ptr<JobStore>> stores(jobs.size());  // until all have tried
  std::vector<std::thread> threads;
  for (size_t i = 0; i < jobs.size(); ++i) {
    threads.emplace_back([&, i] {
      const auto opened = JobStore::open(jobs[i], environment, in(time), telling);
      answers[i] = as_status(opened);
      if (!opened.ok()) return;
      stores[i] = *opened;
      const auto& store = stores[i]->store();
      answers[i] = store->set("from/" + std::to_string(jobs[i].rank), "x");
      for (const Job& job : jobs) {
        if (answers[i].ok()) {
          answers[i] = as_status(store->get("from/" + std::to_string(job.rank), soon()));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  while (!stores.empty()) stores.pop_back();  // rank 0 waits for the others
  return answers;
}

class JobStoreTest : public testing::Test {
 protected:
  std::vector<Job> jobs(StorePlace place, uint32_t count = 3) const {
    std::vector<Job> all;
    for (uint32_t rank = 0; rank < count; ++rank) {
      all.push_back(rank_of(rank, count, place));
      all.back().token_file = token_file_;
      all.back().store.serves = place.kind == StorePlace::Kind::kTcp && rank == 0;
    }
    return all;
  }
  void expect_ok(const std::vector<Status>& answers) const {
    for (const Status& answer : answers) EXPECT_TRUE(answer.ok()) << answer.to_string();
  }
  void write_token() {
    token_file_ = folder_.path("token");
    ASSERT_TRUE((*Token::make())->write_file(token_file_).ok());
  }

  const TempFolder folder_;
  const Environment environment_ = only({{"XDG_RUNTIME_DIR", folder_.path()}});
  std::string token_file_;
};

TEST_F(JobStoreTest, PrivateFile_GoesWithTheLastRank) {
  for (int run = 0; run < 2; ++run) {
    expect_ok(open_all(jobs({StorePlace::Kind::kPrivate}), environment_));
    EXPECT_THAT(files_of(folder_.path("backplane")), UnorderedElementsAre("gate"));
  }
}

TEST_F(JobStoreTest, NamedFile) {
  const std::string path = folder_.path("store");
  expect_ok(open_all(jobs({StorePlace::Kind::kFile, path}), environment_));
  auto again = jobs({StorePlace::Kind::kFile, path});
  for (const Status& answer : open_all(again, environment_)) {
    EXPECT_THAT(answer.message(), HasSubstr("is there already, as process "));
  }
  for (Job& job : again) job.restart = 1;
  expect_ok(open_all(again, environment_));
  for (Job& job : again) job.name = "18";
  for (const Status& answer : open_all(again, environment_)) {
    EXPECT_EQ(answer.code(), BP_INVALID_ARGUMENT) << "the file is of job 17";
  }
}

TEST_F(JobStoreTest, Tcp_Rank0ServesIt) {
  write_token();
  expect_ok(open_all(jobs({StorePlace::Kind::kTcp, tests::free_endpoint()}), environment_));
}

TEST_F(JobStoreTest, Memory_IsForOneRank) {
  expect_ok(open_all({rank_of(0, 1, {})}, environment_));
}

TEST_F(JobStoreTest, MissingRanks_AreNamed) {
  auto some = jobs({StorePlace::Kind::kPrivate}, 4);
  some.resize(2);
  for (const Status& answer : open_all(some, environment_, seconds(3))) {
    EXPECT_EQ(answer.code(), BP_TIMEOUT);
    EXPECT_THAT(answer.message(), HasSubstr("job 17: ranks 2, 3 of 4 did not come in time "));
  }
  some = jobs({StorePlace::Kind::kPrivate}, 40);
  some.resize(1);
  EXPECT_THAT(open_all(some, environment_, milliseconds(100))[0].message(),
              HasSubstr("ranks 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 and 23 more"));
}

TEST_F(JobStoreTest, RanksThatAreTheSame_OrDisagree_AreNamed) {
  auto all = jobs({StorePlace::Kind::kPrivate}, 2);
  all.push_back(all[1]);
  const auto answers = open_all(all, environment_, seconds(60));
  EXPECT_EQ(answers[0].ok() + answers[1].ok() + answers[2].ok(), 2);
  const Status& wrong = answers[1].ok() ? answers[2] : answers[1];
  EXPECT_THAT(wrong.message(), HasSubstr("rank 1 is there already, as process "));

  // In a file that stays: who comes second finds the other one's number also when that has left.
  all = jobs({StorePlace::Kind::kFile, folder_.path("store")}, 2);
  all[1].rank_count = 3;
  std::string words;
  for (const Status& answer : open_all(all, environment_)) {
    EXPECT_EQ(answer.code(), BP_INVALID_ARGUMENT);
    words += answer.message() + "\n";
  }
  EXPECT_THAT(words, HasSubstr("or the file is of an earlier run: remove it"));
}

TEST_F(JobStoreTest, RankCountsThatDiffer_AreToldToAllThatWait) {
  for (const bool first_expects_more : {false, true}) {
    const std::string file = folder_.path(first_expects_more ? "more" : "less");
    auto all = jobs({StorePlace::Kind::kFile, file}, 3);
    // Neither number of ranks comes: two wait, and who expects another number comes last.
    all[2].rank_count = all[2].local_count = first_expects_more ? 2 : 4;
    if (first_expects_more) all[2].rank = 1;
    const auto begin = Store::Clock::now();
    std::vector<Status> answers(3);
    std::vector<std::thread> threads;
    for (const size_t rank : {size_t{0}, size_t{1}}) {
      threads.emplace_back([&, rank] {
        answers[rank] = as_status(JobStore::open(all[rank], environment_, soon()));
      });
    }
    std::this_thread::sleep_for(milliseconds(50));
    answers[2] = as_status(JobStore::open(all[2], environment_, soon()));
    for (std::thread& thread : threads) thread.join();
    for (const Status& answer : answers) {
      EXPECT_EQ(answer.code(), BP_INVALID_ARGUMENT) << answer.to_string();
      EXPECT_THAT(answer.message(), HasSubstr(" ranks, rank "));
      EXPECT_THAT(answer.message(), HasSubstr(first_expects_more ? "expects 2" : "expects 4"));
      EXPECT_THAT(answer.message(), HasSubstr("expects 3"));
    }
    EXPECT_LT(Store::Clock::now() - begin, seconds(30)) << "long before the deadline";
  }
}

TEST_F(JobStoreTest, SecondOneOfAProcess_IsToldAsThat) {
  const std::string path = folder_.path("store");
  const Job job = rank_of(0, 1, {StorePlace::Kind::kFile, path});
  const auto first = JobStore::open(job, environment_, soon());
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  const Status second = JobStore::open(job, environment_, soon()).status();
  EXPECT_EQ(second.code(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(second.message(),
              HasSubstr("; that is this process: a process asks for its job once, and keeps it"));
}

TEST_F(JobStoreTest, RanksThatAreWaitedFor_AreNamedMeanwhile) {
  std::mutex mutex;
  std::vector<std::string> lines;
  const Telling telling = {
      .first = milliseconds(100), .next = seconds(60), .tell = [&](const std::string& line) {
        const std::lock_guard lock(mutex);
        lines.push_back(line);
      }};
  auto some = jobs({StorePlace::Kind::kPrivate}, 4);
  some.resize(1);
  for (const Status& answer : open_all(some, environment_, milliseconds(300), telling)) {
    EXPECT_EQ(answer.code(), BP_TIMEOUT);
  }
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0],
            "job 17: rank 0 waits for ranks 1, 2, 3 of 4, which have not come; for 1 s more at "
            "most (BACKPLANE_CCL_TIMEOUT)");
}

// --- nodes ---

NodesArgs node(const std::shared_ptr<Store>& store, uint32_t rank, uint32_t count,
               uint32_t local_count) {
  return {.store = store,
          .node_rank = rank,
          .node_count = count,
          .local_count = local_count,
          .restarts = 1,
          .silence = milliseconds(30'000)};
}

Verdict await_verdict(Nodes* nodes) {
  const auto deadline = soon();
  while (Store::Clock::now() < deadline) {
    if (const auto verdict = nodes->verdict()) return *verdict;
    std::this_thread::sleep_for(milliseconds(1));
  }
  ADD_FAILURE() << "no verdict";
  return {};
}

TEST(Nodes, RanksAreNumberedThroughNodes_AndAllEndWell) {
  const auto store = make_memory_store();
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      const auto nodes = *Nodes::make(node(store, rank, 3, rank + 1));
      for (uint32_t run = 0; run < 2; ++run) {
        const auto ranks = nodes->begin(run, soon());
        ASSERT_TRUE(ranks.ok()) << ranks.status().to_string();
        EXPECT_EQ(ranks->count, 6u);
        EXPECT_EQ(ranks->first, rank * (rank + 1) / 2);
        nodes->watch();
        nodes->propose_done();
        EXPECT_EQ(await_verdict(nodes.get()).kind, Verdict::Kind::kDone);
        nodes->end_watch();
      }
      nodes->leave(soon());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// Each on a thread, in a run of two nodes whose verdict it looks for.
void on_two_nodes(const std::function<void(uint32_t rank, Nodes& nodes)>& body) {
  const auto store = make_memory_store();
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto nodes = *Nodes::make(node(store, rank, 2, 1));
      ASSERT_TRUE(nodes->begin(0, soon()).ok());
      nodes->watch();
      body(rank, *nodes);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Nodes, FirstFailure_IsEverybodysVerdict) {
  on_two_nodes([](uint32_t rank, Nodes& nodes) {
    if (rank == 1) {
      nodes.propose({Verdict::Kind::kFailed, 139, 1, "rank 1 was ended"});
      nodes.propose({Verdict::Kind::kStopped, 143, 1, "too late"});
    }
    const Verdict verdict = await_verdict(&nodes);
    EXPECT_EQ(verdict.kind, Verdict::Kind::kFailed);
    EXPECT_EQ(verdict.status, 139);
    EXPECT_EQ(verdict.node_rank, 1u);
    EXPECT_EQ(verdict.words, "rank 1 was ended");
  });
}

TEST(Nodes, NotedFailure_IsTheVerdictOnceAllAreDone) {
  std::atomic<bool> is_noted = false;
  on_two_nodes([&](uint32_t rank, Nodes& nodes) {
    if (rank == 1) {
      nodes.note_failure({Verdict::Kind::kFailed, 137, 1, "rank 1 was ended"});
      nodes.note_failure({Verdict::Kind::kFailed, 4, 1, "too late"});
      nodes.propose_done();
      is_noted = true;
    } else {
      while (!is_noted) std::this_thread::sleep_for(milliseconds(1));
      std::this_thread::sleep_for(milliseconds(20));
      EXPECT_FALSE(nodes.verdict().has_value()) << "the other node goes on";
      nodes.propose_done();
    }
    const Verdict verdict = await_verdict(&nodes);
    EXPECT_EQ(verdict.status, 137);
    EXPECT_EQ(verdict.node_rank, 1u);
    EXPECT_EQ(verdict.words, "rank 1 was ended");
  });
}

TEST(Nodes, MissingNodes_AreNamed) {
  const auto store = make_memory_store();
  const auto nodes = *Nodes::make(node(store, 1, 3, 1));
  const auto ranks = nodes->begin(0, in(milliseconds(50)));
  EXPECT_EQ(ranks.status().to_string(),
            "TIMEOUT: nodes 0, 2 of 3 did not come in time (BACKPLANE_CCL_TIMEOUT)");
}

TEST(Nodes, NodesThatAreWaitedFor_AreNamedMeanwhile) {
  const auto store = make_memory_store();
  const auto nodes = *Nodes::make(node(store, 1, 3, 1));
  std::vector<std::string> lines;
  const auto tell = [&](const std::string& line) { lines.push_back(line); };
  const auto ranks = nodes->begin(0, in(milliseconds(300)),
                                  {.first = milliseconds(0), .next = seconds(60), .tell = tell});
  EXPECT_EQ(ranks.status().code(), BP_TIMEOUT);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0],
            "node 1 waits for nodes 0, 2 of 3, which have not come; for 1 s more at most "
            "(BACKPLANE_CCL_TIMEOUT)");
}

/// A node that comes, and then another that was started otherwise: both are told at once.
void expect_disagreement(NodesArgs first, NodesArgs second, const std::string& words) {
  first.store = second.store = make_memory_store();
  const auto nodes = *Nodes::make(first);
  const auto others = *Nodes::make(second);
  Status told;
  std::thread waiting([&] { told = nodes->begin(0, soon()).status(); });
  while (!first.store->try_get("run 0/ready")->has_value()) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  const auto begin = Store::Clock::now();
  EXPECT_EQ(others->begin(0, soon()).status().to_string(), "INVALID_ARGUMENT: " + words);
  waiting.join();
  EXPECT_EQ(told.to_string(), "INVALID_ARGUMENT: " + words);
  EXPECT_LT(Store::Clock::now() - begin, seconds(30)) << "long before the deadline";
}

TEST(Nodes, NodesThatDisagree_AreNamedToBoth) {
  NodesArgs often = node(nullptr, 1, 2, 1);
  often.restarts = 5;
  expect_disagreement(node(nullptr, 0, 2, 1), node(nullptr, 1, 3, 1),
                      "node 1 was started with --nnodes 3, node 0 with --nnodes 2");
  expect_disagreement(node(nullptr, 1, 3, 1), node(nullptr, 0, 2, 1),
                      "node 0 was started with --nnodes 2, node 1 with --nnodes 3");
  expect_disagreement(node(nullptr, 0, 2, 1), often,
                      "node 1 was started with --restarts 5, node 0 with --restarts 1");
  often.node_count = 3;
  expect_disagreement(often, node(nullptr, 0, 2, 1),
                      "node 0 was started with --nnodes 2, node 1 with --nnodes 3; node 0 was "
                      "started with --restarts 1, node 1 with --restarts 5");
}

TEST(Nodes, SilentNode_IsAFailure) {
  const auto store = make_memory_store();
  NodesArgs args = node(store, 0, 2, 1);
  args.silence = milliseconds(1);
  const auto nodes = *Nodes::make(args);
  const auto other = *Nodes::make(node(store, 1, 2, 1));
  std::thread joining([&] { EXPECT_TRUE(other->begin(0, soon()).ok()); });
  ASSERT_TRUE(nodes->begin(0, soon()).ok());
  joining.join();
  nodes->watch();
  EXPECT_EQ(await_verdict(nodes.get()).words, "the launcher of node 1 is silent");
}

TEST(Nodes, LostStore_IsAFailure) {
  const auto token = *Token::make();
  auto server = *TcpServer::start({.token = token, .job = "x"});
  const auto store = *connect_tcp_store(
      {.endpoint = server->endpoint(), .token = token, .job = "x", .deadline = soon()});
  const auto nodes = *Nodes::make(node(store, 0, 1, 1));
  ASSERT_TRUE(nodes->begin(0, soon()).ok());
  nodes->watch();
  server = nullptr;
  const Verdict verdict = await_verdict(nodes.get());
  EXPECT_EQ(verdict.kind, Verdict::Kind::kFailed);
  EXPECT_EQ(verdict.status, 3);
  EXPECT_THAT(verdict.words, HasSubstr("the launcher of node 0 does not answer"));
}

TEST(Verdict, Texts) {
  const Verdict verdict = {Verdict::Kind::kStopped, 143, 7, "words of  more than one"};
  const auto again = Verdict::decode(verdict.encode());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->encode(), verdict.encode());
  for (const char* bad : {"", "x", "3 0 0 ", "-1 0 0 ", "1 256 0 ", "1 -1 0 ", "1 1"}) {
    EXPECT_EQ(Verdict::decode(bad).status().code(), BP_INCOMPATIBLE) << bad;
  }
}

}  // namespace
}  // namespace bp::ccl
