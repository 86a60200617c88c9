// SPDX-License-Identifier: Apache-2.0
//
// Ranks that are processes: every kind, and what the others do when one is killed, stopped, gives
// up, or asks for what cannot be.
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <set>
#include <sstream>

#include "ccl/group/kind_cases_test.hpp"
#include "ccl/group/process_harness_test.hpp"
#include "ccl/store/file_store.hpp"
#include "ccl/store/tcp_store.hpp"
#include "core/base/log.hpp"

namespace bp::ccl {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::AnyOf;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

constexpr seconds kImpatience{3};
constexpr uint64_t kShort = 100;
constexpr uint64_t kLong = uint64_t{2} << 20;  // f32: 8 MiB, which stay in their sender's memory
constexpr uint64_t kCountsOfEach[] = {1, 7, 1000, 100'003};

/// The log's lines while it lives.
class Lines {
 public:
  Lines() {
    set_log_sink([this](uint32_t, std::string_view line) { text_ += std::string(line) + "\n"; });
  }
  ~Lines() { set_log_sink({}); }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// What a rank does, as the child process that it is.
class Ranks : public GroupKinds {
 protected:
  const std::string part_ = variable("BP_TEST_PART");
  const std::string folder_ = variable("BP_TEST_FOLDER");
  const RankPlace place_ = {static_cast<uint32_t>(std::atoi(variable("BP_TEST_RANK").c_str())),
                            static_cast<uint32_t>(std::atoi(variable("BP_TEST_RANKS").c_str()))};

  std::shared_ptr<Store> open_store() {
    const std::string endpoint = variable("BP_TEST_ENDPOINT");
    auto store = endpoint.empty()
                     ? open_file_store({.path = folder_ + "/store", .job = Job::kName})
                     : connect_tcp_store({.endpoint = endpoint,
                                          .token = *Token::from_file(folder_ + "/token"),
                                          .job = Job::kName});
    EXPECT_TRUE(store.ok()) << store.status().to_string();
    return *store;
  }
  Result<Ref<ProcessGroup>> join(const std::string& name = "test") {
    GroupArgs args;
    args.store = open_store();
    args.name = name;
    args.place = place_;
    args.device = &device(variable("BP_TEST_DEVICE"));
    args.timeout = seconds(30);
    return ProcessGroup::create(args);
  }
  void write(const std::string& what, const std::string& text) const {
    const std::string path = folder_ + "/" + what + "." + std::to_string(place_.rank);
    std::ofstream(path + ".new") << text;
    std::filesystem::rename(path + ".new", path);
  }
  void tell(const std::string& words) const {
    write("time", std::to_string(now_ns()));
    write("told", words);
  }
  void be_ready() const { write("ready", ""); }
  void await_all_ready() const {
    for (uint32_t rank = 0; rank < place_.rank_count; ++rank) {
      await("ready", rank);
    }
  }
  void await(const std::string& what, uint32_t rank) const {
    const std::string path = folder_ + "/" + what + "." + std::to_string(rank);
    const auto end = Clock::now() + seconds(30);
    while (!std::filesystem::exists(path) && Clock::now() < end) {
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
  Call sum_of(ProcessGroup& group, uint64_t count) {
    return {.send = upload(group.device(), BP_DTYPE_F32, std::vector<double>(count, 1)),
            .recv = room(group.device(), BP_DTYPE_F32, count)};
  }

  void every_kind() {
    auto group = join();
    ASSERT_TRUE(group.ok()) << group.status().to_string();
    std::vector<KindCase> cases = cases_of(place_.rank_count);
    for (const Kind kind : kAllKinds) {
      cases.push_back({.kind = kind, .count = kLong / (kind == Kind::kAllReduce ? 1 : 4)});
    }
    for (const KindCase& what : cases) run_case(what, place_.rank, **group);
    for (const uint64_t count : {uint64_t{0}, kShort, kLong / 8}) exchange(**group, count);
    if (HasFailure()) return;
    const GroupCounters& counters = (*group)->counters();
    if ((*group)->is_native()) {
      EXPECT_GT(counters.native_operations, cases.size());
      EXPECT_EQ(counters.host_operations + counters.staged_operations, 0u);
      EXPECT_EQ(counters.staged_bytes, 0u);
    } else {
      EXPECT_EQ(counters.native_operations, 0u);
    }
    if (!HasFailure()) tell((*group)->is_native() ? "natively" : "by messages");
  }
  /// With the next rank and the one before, in one batch.
  void exchange(ProcessGroup& group, uint64_t count) {
    const uint32_t ranks = place_.rank_count;
    const uint32_t before = (place_.rank + ranks - 1) % ranks;
    const Ref<Tensor> recv = room(group.device(), BP_DTYPE_F32, count);
    const Call calls[] = {
        {.kind = Kind::kSend,
         .root = (place_.rank + 1) % ranks,
         .send = upload(group.device(), BP_DTYPE_F32, std::vector<double>(count, place_.rank))},
        {.kind = Kind::kRecv, .root = before, .recv = recv}};
    const auto work = group.enqueue(calls);
    ASSERT_TRUE(work.ok()) << work.status().to_string();
    ASSERT_TRUE((*work)->wait(Clock::now() + seconds(60)).ok());
    EXPECT_THAT(floats(recv), Each(static_cast<float>(before)));
  }
  void count_in_island() {
    auto group = join();
    ASSERT_TRUE(group.ok()) << group.status().to_string();
    const Call call = sum_of(**group, kShort);
    ASSERT_TRUE((*group)->enqueue(call, {.waits = true}).ok());
    EXPECT_THAT(floats(call.recv), Each(static_cast<float>(place_.rank_count)));
    if (!HasFailure()) tell(words_of((*group)->counters()));
  }
  static std::string words_of(const GroupCounters& counters) {
    std::ostringstream words;
    words << counters.native_operations << " native, " << counters.staged_operations << " staged, "
          << counters.host_operations << " by the host, " << counters.staged_bytes << " bytes";
    return words.str();
  }
  /// Of four ranks: in the first element the others show who was summed first. It is 2 where ranks
  /// 0 and 2 are on one side, and 0 or 1 in the order of ranks or by pairs of neighbours.
  void sum_of_each() {
    constexpr double kInTurn[] = {1e8, 1, -1e8, 1};
    const Lines lines;
    auto group = join();
    ASSERT_TRUE(group.ok()) << group.status().to_string();
    for (const uint64_t count : kCountsOfEach) {
      std::vector<double> values(count);
      std::vector<float> expected(count);
      for (uint64_t i = 0; i < count; ++i) {
        values[i] = static_cast<double>((1u << place_.rank) * (1 + i % 5));
        expected[i] = static_cast<float>(15 * (1 + i % 5));
      }
      values[0] = kInTurn[place_.rank];
      expected[0] = 2;
      const Call call{.send = upload((*group)->device(), BP_DTYPE_F32, values),
                      .recv = room((*group)->device(), BP_DTYPE_F32, count)};
      ASSERT_TRUE((*group)->enqueue(call, {.waits = true}).ok()) << count;
      const std::vector<float> sums = floats(call.recv);
      EXPECT_TRUE(sums == expected) << "of " << count << ", the first is " << sums[0];
    }
    // An algorithm that is asked for and does not serve gives way to another, with a warning.
    EXPECT_THAT(lines.text(), Not(HasSubstr("which it cannot run")));
    if (!HasFailure()) tell(words_of((*group)->counters()));
  }
  /// Sums until that fails, and tells how. The first has time for ranks that begin late.
  void sum_for_ever(uint64_t count, std::chrono::nanoseconds timeout) {
    auto group = join();
    ASSERT_TRUE(group.ok()) << group.status().to_string();
    const Call call = sum_of(**group, count);
    bool was_told = false;
    for (;;) {
      const auto most = was_told ? timeout : seconds(20);
      const auto work = (*group)->enqueue(call, {.timeout = most, .waits = true});
      if (!work.ok()) break;
      if (!std::exchange(was_told, true)) be_ready();
    }
    tell((*group)->failure().to_status().to_string());
  }
  void abort_or_wait() {
    auto group = join();
    ASSERT_TRUE(group.ok()) << group.status().to_string();
    const Call call = sum_of(**group, kShort);
    ASSERT_TRUE((*group)->enqueue(call, {.waits = true}).ok());
    be_ready();
    if (place_.rank == 1) {
      await_all_ready();  // or its abort would end sums that go on
      tell("aborted");
      (*group)->abort("the user has pressed a key");
      _exit(0);  // nothing that comes later tells the others
    }
    const Status status = (*group)->enqueue(call, {.waits = true}).status();
    tell(status.to_string());
  }
  /// Until no more is open than was: what another rank has, and threads that were joined, go when
  /// they like.
  static void settle(size_t descriptors, size_t threads) {
    await_that([&] {
      return entries_of("/proc/self/fd") <= descriptors && entries_of("/proc/self/task") <= threads;
    });
  }
  /// Groups come and go, and nothing stays.
  void many_groups() {
    size_t descriptors = 0;
    size_t threads = 0;
    for (int round = 0; round < 10; ++round) {
      // After one of either end there is all that stays: pools of threads, the engine's library.
      if (round == 2) descriptors = entries_of("/proc/self/fd");
      if (round == 2) threads = entries_of("/proc/self/task");
      const bool ends_badly = round % 2 != 0;
      auto group = join("group " + std::to_string(round));
      ASSERT_TRUE(group.ok()) << group.status().to_string();
      ASSERT_TRUE(device(variable("BP_TEST_DEVICE")).default_stream().reset().ok());
      const Call call = sum_of(**group, 65536);
      const bool is_summed = (*group)->enqueue(call, {.waits = true}).ok();
      EXPECT_TRUE(is_summed || (ends_badly && place_.rank != 0));
      if (ends_badly && place_.rank == 0) (*group)->abort("done");
      while (ends_badly && (*group)->enqueue(call, {.waits = true}).ok()) continue;
    }
    settle(descriptors, threads + 1);
    EXPECT_EQ(entries_of("/proc/self/fd"), descriptors);
    // One more thread that makes control calls, where two were made at once since.
    EXPECT_LE(entries_of("/proc/self/task"), threads + 1);
    if (!HasFailure()) tell("clean");
  }
  /// Sums until a rank is lost, and goes on with those that are left.
  Ref<ProcessGroup> lose_one(ProcessGroup& group) {
    const Call call = sum_of(group, kShort);
    EXPECT_TRUE(group.enqueue(call, {.waits = true}).ok());
    EXPECT_EQ(floats(call.recv)[0], static_cast<float>(group.place().rank_count));
    write("epoch-" + std::to_string(group.epoch()), "");
    while (group.enqueue(call, {.waits = true}).ok()) continue;
    const std::vector<uint32_t> lost = group.failure().culprits;
    std::vector<uint32_t> members;
    for (uint32_t rank = 0; rank < group.place().rank_count; ++rank) {
      if (std::count(lost.begin(), lost.end(), rank) == 0) members.push_back(rank);
    }
    EXPECT_EQ(members.size() + 1, group.place().rank_count);
    EXPECT_TRUE(group.device().default_stream().reset().ok());
    auto next = group.rebuild({.epoch = group.epoch() + 1, .members = members});
    EXPECT_TRUE(next.ok()) << next.status().to_string();
    return next.ok() ? *std::move(next) : Ref<ProcessGroup>();
  }
  void rebuild() {
    auto joined = join();
    ASSERT_TRUE(joined.ok()) << joined.status().to_string();
    Ref<ProcessGroup> group = *std::move(joined);
    for (int losses = 0; losses < 2; ++losses) {
      group = lose_one(*group);
      ASSERT_TRUE(group);
    }
    const std::vector<uint32_t> left = group->job_ranks();
    size_t descriptors = 0;
    size_t threads = 0;
    for (uint64_t epoch = 3; epoch <= 22; ++epoch) {
      // Not while the other rank is still on its way out of the sum.
      if (group->place().rank == 0 && epoch > 3) {
        await("summed-" + std::to_string(epoch - 1), left[1]);
      }
      if (group->place().rank == 0) group->abort("once more");
      ASSERT_FALSE(await_failure(*group).ok());
      ASSERT_TRUE(group->device().default_stream().reset().ok());
      const uint32_t members[] = {0, 1};
      auto next = group->rebuild({.epoch = epoch, .members = members});
      ASSERT_TRUE(next.ok()) << next.status().to_string();
      group = *std::move(next);
      const Call call = sum_of(*group, 65536);
      ASSERT_TRUE(group->enqueue(call, {.waits = true}).ok());
      EXPECT_EQ(floats(call.recv).back(), 2);
      write("summed-" + std::to_string(epoch), "");
      if (epoch == 4) descriptors = entries_of("/proc/self/fd");
      if (epoch == 4) threads = entries_of("/proc/self/task");
    }
    settle(descriptors, threads + 1);
    EXPECT_LE(entries_of("/proc/self/fd"), descriptors);
    // One more thread that makes control calls, where two were made at once since.
    EXPECT_LE(entries_of("/proc/self/task"), threads + 1);
    if (!HasFailure()) tell("clean, by ranks " + testing::PrintToString(left));
  }
  void only_join() {
    const Lines lines;
    const auto group = join();
    tell(group.ok() ? "OK" + lines.text() : group.status().to_string());
  }
};

TEST_F(Ranks, DISABLED_Part) {
  if (part_ == "every kind") return every_kind();
  if (part_ == "island") return count_in_island();
  if (part_ == "sums of each") return sum_of_each();
  if (part_ == "short sums") return sum_for_ever(kShort, seconds(20));
  if (part_ == "long sums") return sum_for_ever(kLong, seconds(20));
  if (part_ == "impatient sums") return sum_for_ever(kShort, kImpatience);
  if (part_ == "abort") return abort_or_wait();
  if (part_ == "many groups") return many_groups();
  if (part_ == "rebuild") return rebuild();
  if (part_ == "join") return only_join();
  FAIL() << "no part " << part_;
}

const Devices kMixes[] = {{"cpu:0", "cpu:0"},
                          {"npu:0", "cpu:0"},
                          {"npu:0", "xpu:0", "cpu:0"},
                          {"cpu:0", "cpu:0", "xpu:0", "cpu:0"}};

/// The names of the engine's shared memory on this system, and of segments, which others have, too.
std::set<std::string> shared_memory() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string name = entry.path().filename();
    if (name.starts_with("ucx_")) names.insert(name);
  }
  std::istringstream segments(read_file("/proc/sysvipc/shm"));
  std::string line;
  std::getline(segments, line);  // what the columns are
  while (std::getline(segments, line)) {
    std::istringstream columns(line);
    std::string key, id;
    columns >> key >> id;
    names.insert("segment " + id);
  }
  return names;
}

class ProcessGroups : public testing::TestWithParam<Meeting> {
 protected:
  /// What others have made meanwhile goes with them; what they make from now on is none of ours.
  void TearDown() override {
    std::set<std::string> left = shared_memory();
    std::erase_if(left, [this](const std::string& name) { return before_.contains(name); });
    const auto deadline = Clock::now() + seconds(30);
    while (!left.empty() && Clock::now() < deadline) {
      std::this_thread::sleep_for(milliseconds(20));
      const std::set<std::string> now = shared_memory();
      std::erase_if(left, [&](const std::string& name) { return !now.contains(name); });
    }
    EXPECT_THAT(left, testing::IsEmpty());
  }
  const std::set<std::string> before_ = shared_memory();
};

TEST_P(ProcessGroups, EveryKind_OnEveryMix) {
  for (const Devices& devices : kMixes) {
    Job job(GetParam(), "every kind", devices);
    for (const uint32_t rank : job.all()) {
      EXPECT_EQ(job.rank(rank).end(), 0) << devices[rank] << " as rank " << rank;
      EXPECT_EQ(job.told(rank), "by messages");
    }
  }
}

/// Each rank in its turn, in the middle of some sum.
void kill_each(Meeting meeting, const char* part,
               const Devices& devices = {"cpu:0", "npu:0", "cpu:0"}) {
  for (const uint32_t victim : {0u, 1u, 2u}) {
    expect_within(seconds(2), [&](Delays& delays) {
      Job job(meeting, part, devices);
      ASSERT_TRUE(job.await_ready(job.all()));
      std::this_thread::sleep_for(milliseconds(10 * victim));
      const int64_t begin = now_ns();
      job.rank(victim).signal(SIGKILL);
      const std::string lost = "rank " + std::to_string(victim);
      for (const uint32_t rank : job.all()) {
        const int code = job.rank(rank).end();
        if (rank == victim) continue;
        EXPECT_EQ(code, 0);
        EXPECT_THAT(job.told(rank), AllOf(HasSubstr("UNAVAILABLE"), HasSubstr(lost)));
        delays.note(nanoseconds(job.told_ns(rank) - begin),
                    lost + " is killed in " + part + ", told on " + std::to_string(rank));
      }
    });
  }
}

TEST_P(ProcessGroups, KilledRank_IsNamedByAllWithinTwoSeconds) {
  kill_each(GetParam(), "short sums");
}
TEST_P(ProcessGroups, RankKilledInALongSum_IsNamedByAllWithinTwoSeconds) {
  kill_each(GetParam(), "long sums");
}

TEST_P(ProcessGroups, RanksThatAreLeft_ComputeOnInTheirProcesses) {
  Job job(GetParam(), "rebuild", {"cpu:0", "npu:0", "cpu:0", "npu:0"});
  ASSERT_TRUE(job.await_ready(job.all(), "epoch-0"));
  job.rank(0).signal(SIGKILL);
  ASSERT_TRUE(job.await_ready({1, 2, 3}, "epoch-1"));
  job.rank(2).signal(SIGKILL);
  for (const uint32_t rank : {1u, 3u}) {
    EXPECT_EQ(job.rank(rank).end(), 0);
    EXPECT_EQ(job.told(rank), "clean, by ranks { 1, 3 }");
  }
}

void expect_stopped_rank_is_named(Meeting meeting, const Devices& devices) {
  // The one that stopped is asked, and has a second to answer.
  expect_within(kImpatience + seconds(3), [&](Delays& delays) {
    Job job(meeting, "impatient sums", devices);
    ASSERT_TRUE(job.await_ready(job.all()));
    const int64_t begin = now_ns();
    job.rank(1).signal(SIGSTOP);
    for (const uint32_t rank : {0u, 2u}) {
      EXPECT_EQ(job.rank(rank).end(), 0);
      EXPECT_THAT(job.told(rank),
                  AllOf(HasSubstr("TIMEOUT"),
                        HasSubstr("rank 1 (npu:0) does not answer: its process is stopped")));
      const nanoseconds took(job.told_ns(rank) - begin);
      EXPECT_GT(took, kImpatience * 9 / 10);
      delays.note(took, "told on " + std::to_string(rank));
    }
  });
}

TEST_P(ProcessGroups, StoppedRank_IsNamedAtTheDeadlineAndNotBefore) {
  expect_stopped_rank_is_named(GetParam(), {"cpu:0", "npu:0", "cpu:0"});
}

TEST_P(ProcessGroups, Abort_ReachesAllWithinASecond) {
  expect_within(seconds(1), [&](Delays& delays) {
    Job job(GetParam(), "abort", {"cpu:0", "cpu:0", "npu:0", "cpu:0"});
    for (const uint32_t rank : job.all()) EXPECT_EQ(job.rank(rank).end(), 0);
    EXPECT_EQ(job.told(1), "aborted");
    for (const uint32_t rank : {0u, 2u, 3u}) {
      EXPECT_THAT(job.told(rank), AllOf(HasSubstr("CANCELLED"), HasSubstr("rank 1"),
                                        HasSubstr("the user has pressed a key")));
      delays.note(nanoseconds(job.told_ns(rank) - job.told_ns(1)), std::to_string(rank));
    }
  });
}

TEST_P(ProcessGroups, ManyGroups_LeaveNothing) {
  for (const char* const other : {"cpu:0", "npu:0"}) {
    Job job(GetParam(), "many groups", {other, "npu:0"});
    for (const uint32_t rank : job.all()) {
      EXPECT_EQ(job.rank(rank).end(), 0) << "beside " << other;
      EXPECT_EQ(job.told(rank), "clean");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ProcessGroups, testing::Values(Meeting::kFile, Meeting::kTcp),
                         [](const auto& of) {
                           return of.param == Meeting::kFile ? "file_store" : "tcp_store";
                         });

// --- Devices that are linked between processes, whatever the ranks' store is

TEST(ProcessNative, EveryKind_GoesBetweenDevicesAlone) {
  for (size_t count = 2; count <= 4; ++count) {
    Job job(Meeting::kFile, "every kind", Devices(count, "npu:0"));
    for (const uint32_t rank : job.all()) {
      EXPECT_EQ(job.rank(rank).end(), 0) << "rank " << rank << " of " << count;
      EXPECT_EQ(job.told(rank), "natively");
    }
  }
}

TEST(ProcessNative, Island_OfTwoProcesses_IsNativeInside) {
  Job job(Meeting::kFile, "island", {"npu:0", "cpu:0", "npu:0"});
  for (const uint32_t rank : job.all()) EXPECT_EQ(job.rank(rank).end(), 0);
  // The leader: out of the device, and in.
  EXPECT_EQ(job.told(0), "2 native, 1 staged, 0 by the host, 800 bytes");
  EXPECT_EQ(job.told(1), "0 native, 0 staged, 1 by the host, 0 bytes");
  EXPECT_EQ(job.told(2), "2 native, 0 staged, 0 by the host, 0 bytes");
}

TEST(ProcessNative, KilledRank_IsNamedByAllWithinTwoSeconds) {
  for (const char* const part : {"short sums", "long sums"}) {
    kill_each(Meeting::kFile, part, {"npu:0", "npu:0", "npu:0"});
  }
}

TEST(ProcessNative, KilledRank_OfAGroupWithAnIsland_IsNamedByAllWithinTwoSeconds) {
  for (const char* const part : {"short sums", "long sums"}) {
    kill_each(Meeting::kFile, part, {"npu:0", "npu:0", "cpu:0"});
  }
}

TEST(ProcessNative, StoppedRank_IsNamedAtTheDeadlineAndNotBefore) {
  expect_stopped_rank_is_named(Meeting::kFile, {"npu:0", "npu:0", "npu:0"});
}

// --- Ranks of two hosts, which messages go between over the network

class ProcessHosts : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why = why_no_hosts();
    if (!why.empty()) GTEST_SKIP() << "NOT RUN: " << why;
  }
  /// Each rank's words.
  static std::vector<std::string> sums_of_each(const std::string& device, const Hosts& hosts,
                                               Variables more = {}) {
    more["BACKPLANE_CCL_INTERFACE"] = "lo";  // which the hosts share
    Job job(Meeting::kFile, "sums of each", Devices(4, device), more, hosts);
    EXPECT_THAT(job.end_hosts(), Each(0));
    std::vector<std::string> words;
    for (const uint32_t rank : job.all()) words.push_back(job.told(rank));
    return words;
  }
};

TEST_F(ProcessHosts, NpusOfTwoHosts_AreTwoIslands) {
  // The leader of each island: its island's sums out of the device, and all sums in.
  const uint64_t count = std::accumulate(std::begin(kCountsOfEach), std::end(kCountsOfEach), 0ull);
  const std::string leader =
      "8 native, 4 staged, 0 by the host, " + std::to_string(2 * count * sizeof(float)) + " bytes";
  const std::string other = "8 native, 0 staged, 0 by the host, 0 bytes";
  EXPECT_THAT(sums_of_each("npu:0", {{0, 2}, {1, 3}}),
              testing::ElementsAre(leader, leader, other, other));
}

TEST_F(ProcessHosts, HierarchicalSum_OfHostsWithAsManyRanks) {
  EXPECT_THAT(sums_of_each("cpu:0", {{0, 2}, {1, 3}},
                           {{"BACKPLANE_CCL_ALGORITHM", "all_reduce:hierarchical"}}),
              Each("0 native, 0 staged, 4 by the host, 0 bytes"));
}

TEST_F(ProcessHosts, HierarchicalSum_OfHostsThatDiffer) {
  EXPECT_THAT(sums_of_each("cpu:0", {{0, 2, 3}, {1}},
                           {{"BACKPLANE_CCL_ALGORITHM", "all_reduce:hierarchical"}}),
              Each("0 native, 0 staged, 4 by the host, 0 bytes"));
}

// --- Options

/// Each rank's words when it has joined, or has not.
std::vector<std::string> join_with(const Variables& variables) {
  Job job(Meeting::kFile, "join", {"cpu:0", "cpu:0", "cpu:0"}, variables);
  std::vector<std::string> words;
  for (const uint32_t rank : job.all()) {
    [[maybe_unused]] const int code = job.rank(rank).end();
    words.push_back(job.told(rank));
  }
  return words;
}

TEST(ProcessOptions, EngineBetweenProcesses_IsUcxByItselfAndByName) {
  EXPECT_THAT(join_with({}), Each("OK"));
  EXPECT_THAT(join_with({{"BACKPLANE_CCL_ENGINE", "ucx"}}), Each("OK"));
  EXPECT_THAT(join_with({{"BACKPLANE_CCL_ENGINE@2", "ucx"}}), Each("OK"));
}

TEST(ProcessOptions, SettingsOfUcxThatTheEngineHas_AreToldOfAsIgnored) {
  const auto words = join_with({{"UCX_TLS", "tcp"}, {"UCX_MEM_EVENTS", "yes"}});
  EXPECT_THAT(words, Each(AllOf(testing::StartsWith("OK"), HasSubstr("UCX_TLS has no effect"),
                                HasSubstr("UCX_MEM_EVENTS has no effect"))));
}

TEST(ProcessOptions, LoopBetweenProcesses_IsAnErrorThatNamesRanks) {
  EXPECT_THAT(join_with({{"BACKPLANE_CCL_ENGINE@1", "loop"}}),
              Each(AllOf(HasSubstr("rank 1 wants the engine loop"), HasSubstr("rank 0 and rank 1"),
                         HasSubstr("BACKPLANE_CCL_ENGINE"))));
}

TEST(ProcessOptions, EnginesThatDiffer_AreAnErrorThatNamesBoth) {
  EXPECT_THAT(
      join_with({{"BACKPLANE_CCL_ENGINE@0", "ucx"}, {"BACKPLANE_CCL_ENGINE@2", "loop"}}),
      Each(AllOf(HasSubstr("rank 0 wants the engine ucx"), HasSubstr("rank 2 wants loop"))));
}

TEST(ProcessOptions, UnknownEngine_IsAnErrorOnAllThatNamesTheRank) {
  EXPECT_THAT(join_with({{"BACKPLANE_CCL_ENGINE@1", "mpi"}}),
              Each(AllOf(HasSubstr("rank 1 wants the engine 'mpi'"),
                         HasSubstr("expected auto, loop or ucx"))));
}

TEST(ProcessOptions, UnknownInterface_IsToldOnTheRankAndToTheOthers) {
  const auto words = join_with({{"BACKPLANE_CCL_INTERFACE@1", "eth77"}});
  EXPECT_THAT(words[1], AllOf(HasSubstr("found 'eth77'"), HasSubstr("lo")));
  EXPECT_THAT(words[0], AllOf(HasSubstr("rank 1 cannot join"), HasSubstr("eth77")));
  EXPECT_THAT(words[2], AllOf(HasSubstr("rank 1 cannot join"), HasSubstr("eth77")));
}

}  // namespace
}  // namespace bp::ccl
