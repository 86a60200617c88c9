// SPDX-License-Identifier: Apache-2.0
//
// Every collective by every schedule, and in groups of several vendors, against an oracle. Ranks
// are processes up to four and where they are on several hosts, else threads, also where vendors
// mix.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>
#include <thread>

#include "ccl/group/process_harness_test.hpp"
#include "ccl/store/file_store.hpp"
#include "ops/register.hpp"
#include "tests/ccl/case_report.hpp"
#include "tests/ccl/case_table.hpp"
#include "tests/ccl/rank_run.hpp"
#include "tests/plugins.hpp"

namespace bp::ccl::cases {
namespace {

// Edited on purpose: a case that comes or goes is seen.
constexpr size_t kScheduleCases = 606;
constexpr size_t kMixedCases = 5221;

constexpr uint32_t kMostProcesses = 4;
constexpr uint32_t kMostHosts = 3;
constexpr std::chrono::seconds kTimeout{60};
constexpr std::chrono::seconds kLongestProcess{300};

std::vector<CaseResult>& results() {
  static std::vector<CaseResult> all;
  return all;
}

Ref<Runtime> make_runtime(const std::string& algorithms) {
  RuntimeArgs args;
  args.register_ops = register_ops;
  args.plugin_path = {BP_PLUGIN_DIR};
  args.install_directory = "";
  args.options = {{"BACKPLANE_TIMEOUT", "120"},
                  {"BACKPLANE_FALLBACK", "deny"},
                  {"BACKPLANE_CCL_ALGORITHM", algorithms}};
  args.plugin_options = {{"npu.devices", "4"}, {"npu.memory", "16777216"}};
  auto runtime = Runtime::create(args);
  if (!runtime.ok()) throw std::runtime_error(runtime.status().to_string());
  return *std::move(runtime);
}

struct Place {
  std::shared_ptr<Store> store;
  RankPlace rank;
  std::string device;
};

/// What the rank says; where it cannot even join, one verdict that says so.
std::vector<RankVerdict> run_rank(Runtime& runtime, const Place& place,
                                  const std::vector<Case>& cases, RankRunArgs args) {
  const auto device = runtime.find_device(place.device);
  if (!device.ok()) return {{.problem = device.status().to_string()}};
  auto group = ProcessGroup::create({.store = place.store,
                                     .name = "cases",
                                     .place = place.rank,
                                     .device = *device,
                                     .timeout = kTimeout});
  if (!group.ok()) return {{.problem = group.status().to_string()}};
  args.group = &**group;
  return run_cases(args, cases);
}

using Verdicts = std::vector<std::vector<RankVerdict>>;  // of each rank

/// Of cases whose schedule is forced.
RankRunArgs forced_args() { return {.checks_wire = true, .folder = variable("BP_CCL_CASES_KEEP")}; }

Verdicts run_threads(const std::vector<std::string>& devices, const std::string& algorithms,
                     const std::vector<Case>& cases, const RankRunArgs& args,
                     const std::vector<Way>& ways = {}) {
  const Ref<Runtime> runtime = make_runtime(algorithms);
  const std::shared_ptr<Store> store = make_memory_store();
  const auto rank_count = static_cast<uint32_t>(devices.size());
  Verdicts verdicts(rank_count);
  std::barrier others(rank_count);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < rank_count; ++rank) {
    threads.emplace_back([&, rank] {
      RankRunArgs own = args;
      if (!ways.empty()) own.way = ways[rank];
      own.await_others = [&] { others.arrive_and_wait(); };
      verdicts[rank] =
          run_rank(*runtime, {store, {rank, rank_count}, devices[rank]}, cases, std::move(own));
      others.arrive_and_drop();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return verdicts;
}

/// Cases that one group runs.
struct Portion {
  uint32_t variant = 0;
  uint32_t rank_count = 1;
  uint32_t host_count = 1;

  std::vector<Case> cases() const {
    std::vector<Case> cases = schedule_cases();
    std::erase_if(cases, [this](const Case& c) {
      return c.rank_count != rank_count || c.host_count != host_count || variant_of(c) != variant;
    });
    return cases;
  }
  /// Empty: all ranks are on this one.
  Hosts hosts() const {
    if (host_count == 1) return {};
    Hosts hosts(host_count);
    const Case on_hosts{.rank_count = rank_count, .host_count = host_count};
    for (uint32_t rank = 0; rank < rank_count; ++rank) {
      hosts[on_hosts.host_of(rank)].push_back(rank);
    }
    return hosts;
  }
};

// --- A rank that is a process

class Ranks : public testing::Test {};

TEST_F(Ranks, DISABLED_Part) {
  const auto number = [](const char* name) {
    return static_cast<uint32_t>(std::atoi(variable(name).c_str()));
  };
  const std::string folder = variable("BP_TEST_FOLDER");
  const RankPlace rank{number("BP_TEST_RANK"), number("BP_TEST_RANKS")};
  const Portion portion{number("BP_TEST_VARIANT"), rank.rank_count, number("BP_TEST_HOSTS")};
  const auto store = open_file_store({.path = folder + "/store", .job = "cases"});
  ASSERT_TRUE(store.ok()) << store.status().to_string();
  const Ref<Runtime> runtime = make_runtime(rules_of_variant(portion.variant));
  const auto verdicts = run_rank(*runtime, {*store, rank, variable("BP_TEST_DEVICE")},
                                 portion.cases(), forced_args());
  std::ofstream file(folder + "/told." + std::to_string(rank.rank));
  write(verdicts, file);
  ASSERT_TRUE(file.flush());
}

Verdicts run_processes(const Portion& portion) {
  Variables more = {{"BP_TEST_VARIANT", std::to_string(portion.variant)},
                    {"BP_TEST_HOSTS", std::to_string(portion.host_count)}};
  const Hosts hosts = portion.hosts();
  if (!hosts.empty()) more["BACKPLANE_CCL_INTERFACE"] = "lo";  // which the hosts share
  Job job(Meeting::kFile, "cases", std::vector<std::string>(portion.rank_count, "cpu:0"), more,
          hosts);
  if (!hosts.empty()) EXPECT_THAT(job.end_hosts(), testing::Each(0));
  Verdicts verdicts;
  for (const uint32_t rank : job.all()) {
    if (hosts.empty()) {
      EXPECT_EQ(job.rank(rank).end(kLongestProcess), 0)
          << "rank " << rank << " of " << portion.rank_count;
    }
    std::istringstream told(job.told(rank));
    verdicts.push_back(read_verdicts(told));
  }
  return verdicts;
}

// --- Judging what all ranks say

CaseResult sum_up(const std::string& table, const Case& c, const Verdicts& verdicts, size_t i) {
  CaseResult result{.table = table, .what = c};
  bool is_refused = false;
  for (uint32_t rank = 0; rank < verdicts.size(); ++rank) {
    const auto& of_rank = verdicts[rank];
    const bool is_there = i < of_rank.size() && of_rank[i].number == c.number;
    std::string problem = is_there ? of_rank[i].problem : "says nothing";
    if (!is_there && !of_rank.empty()) problem += ", its last words: " + of_rank.back().problem;
    // Ranks that reduce apart from each other come to the same bits.
    if (problem.empty() && c.kind == Kind::kAllReduce &&
        of_rank[i].digest != verdicts[0][i].digest) {
      problem = "has other bits than rank 0";
    }
    is_refused = is_refused || (is_there && of_rank[i].is_refused);
    if (problem.empty()) continue;
    result.words +=
        (result.words.empty() ? "rank " : "; rank ") + std::to_string(rank) + " " + problem;
  }
  const Limit limit = limit_of(c);
  if (!result.words.empty()) {
    result.verdict = Verdict::kFailed;
  } else if (limit != Limit::kNone) {
    result.verdict = Verdict::kUnsupported;
    result.words = limit_words(limit);
  } else {
    result.verdict = is_refused ? Verdict::kFailed : Verdict::kPassed;
  }
  return result;
}

void take(const std::string& table, const std::vector<Case>& cases, const Verdicts& verdicts) {
  for (size_t i = 0; i < cases.size(); ++i) {
    CaseResult result = sum_up(table, cases[i], verdicts, i);
    EXPECT_NE(result.verdict, Verdict::kFailed) << table << ", case " << cases[i].number << ", "
                                                << cases[i].words() << ": " << result.words;
    results().push_back(std::move(result));
  }
}

class ScheduleCases : public testing::TestWithParam<uint32_t> {};

Verdicts run(const Portion& portion, const std::vector<Case>& cases) {
  const bool are_processes = portion.rank_count <= kMostProcesses || portion.host_count > 1;
  if (are_processes) return run_processes(portion);
  return run_threads(std::vector<std::string>(portion.rank_count, "cpu:0"),
                     rules_of_variant(portion.variant), cases, forced_args());
}

void take_as_not_run(const std::string& table, const std::vector<Case>& cases,
                     const std::string& why) {
  for (const Case& c : cases) results().push_back({.table = table, .what = c, .words = why});
}

TEST_P(ScheduleCases, EveryPair_IsRight) {
  const std::string no_hosts = why_no_hosts();
  bool has_skipped = false;
  for (uint32_t variant = 0; variant < variant_count(); ++variant) {
    for (uint32_t host_count = 1; host_count <= kMostHosts; ++host_count) {
      const Portion portion{variant, GetParam(), host_count};
      const std::vector<Case> cases = portion.cases();
      if (cases.empty()) continue;
      if (host_count > 1 && !no_hosts.empty()) {
        take_as_not_run("schedules", cases, no_hosts);
        has_skipped = true;
      } else {
        take("schedules", cases, run(portion, cases));
      }
    }
  }
  if (has_skipped) GTEST_SKIP() << "NOT RUN: " << no_hosts;
}

INSTANTIATE_TEST_SUITE_P(Ranks, ScheduleCases, testing::Values(1u, 2u, 3u, 4u, 5u, 8u),
                         testing::PrintToStringParamName());

// What a group is made of is what these are about. `npu`s are linked, and nothing else is: the last
// group has collectives of its own, and others have islands, or neither.
const std::vector<std::vector<std::string>> kMixes = {
    {"npu:0", "cpu:0"},
    {"npu:0", "xpu:0"},
    {"xpu:0", "cpu:0"},
    {"cpu:0", "npu:0", "npu:1", "npu:2"},
    {"xpu:0", "npu:0", "npu:1", "npu:2"},
    {"npu:0", "npu:1", "npu:2", "cpu:0"},
    {"npu:0", "npu:1", "cpu:0", "cpu:0"},
    {"xpu:0", "npu:0", "xpu:0", "npu:1"},
    {"npu:0", "npu:1", "npu:2", "cpu:0", "cpu:0"},
    {"npu:0", "npu:1", "xpu:0", "npu:2", "cpu:0"},
    {"npu:0", "npu:1", "npu:2", "npu:3"},
};

std::string name_of(const std::vector<std::string>& devices) {
  std::string name;
  for (const std::string& device : devices) {
    name += (name.empty() ? "" : "_") + device.substr(0, device.find(':'));
  }
  return name;
}

/// By rank.
std::vector<Way> ways_of(const std::vector<std::string>& devices) {
  const auto is_npu = [](const std::string& device) { return device.starts_with("npu:"); };
  const auto npus = static_cast<size_t>(std::count_if(devices.begin(), devices.end(), is_npu));
  std::vector<Way> ways;
  for (const std::string& device : devices) {
    const bool is_linked = is_npu(device) && npus > 1;
    ways.push_back(!is_linked               ? Way::kMessages
                   : npus == devices.size() ? Way::kNative
                                            : Way::kIslands);
  }
  return ways;
}

class MixedCases : public testing::TestWithParam<std::vector<std::string>> {};

/// A device that a machine may lack, and this one does.
std::string absent_device(const std::vector<std::string>& devices) {
  const Ref<Runtime> runtime = make_runtime("");
  for (const std::string& device : devices) {
    const auto found = runtime->find_device(device);
    if (tests::is_absent(device, found.status().code())) return found.status().to_string();
  }
  return "";
}

TEST_P(MixedCases, EveryKindDtypeAndRoot_IsRight) {
  const std::vector<std::string>& devices = GetParam();
  const std::vector<Case> cases = mixed_cases(static_cast<uint32_t>(devices.size()));
  const std::string absent = absent_device(devices);
  if (!absent.empty()) {
    take_as_not_run(name_of(devices), cases, absent);
    GTEST_SKIP() << absent;
  }
  take(name_of(devices), cases, run_threads(devices, "", cases, {}, ways_of(devices)));
}

INSTANTIATE_TEST_SUITE_P(Mixes, MixedCases, testing::ValuesIn(kMixes),
                         [](const auto& of) { return name_of(of.param); });

TEST(CaseTable, NumberOfCases_IsWhatIsWrittenHere) {
  EXPECT_EQ(schedule_cases().size(), kScheduleCases);
  size_t mixed = 0;
  for (const auto& devices : kMixes) {
    mixed += mixed_cases(static_cast<uint32_t>(devices.size())).size();
  }
  EXPECT_EQ(mixed, kMixedCases);
}

TEST(CaseTable, EverySchedule_RunsWithEveryDtypeThatItCanHave) {
  const std::vector<Case> cases = schedule_cases();
  for (uint32_t i = 0; i < kKindCount; ++i) {
    const auto kind = static_cast<Kind>(i);
    if (kind == Kind::kRecv || kind == Kind::kBarrier) continue;  // of send, and without a dtype
    for (const Algorithm& algorithm : algorithms_of(kind)) {
      for (const Format& format : formats()) {
        const bool is_summed =
            is_reduced(format, Reduction::kSum) && has_kernel(format, Reduction::kSum);
        if (kind_info(kind).reduces && !is_summed) continue;
        const bool runs = std::any_of(cases.begin(), cases.end(), [&](const Case& c) {
          return c.kind == kind && c.algorithm == algorithm.name && c.format == &format &&
                 limit_of(c) == Limit::kNone;
        });
        EXPECT_TRUE(runs) << kind_info(kind).name << " " << algorithm.name << " " << format.name;
      }
    }
  }
}

class Report : public testing::Environment {
 public:
  void SetUp() override {
    const std::string kept = variable("BP_CCL_CASES_KEEP");
    if (kept.empty() || !variable("BP_TEST_FOLDER").empty()) return;  // of this process's ranks
    std::filesystem::create_directories(kept);
    for (const auto& entry : std::filesystem::directory_iterator(kept)) {
      if (entry.path().extension() == ".out") std::filesystem::remove(entry.path());
    }
  }
  void TearDown() override {
    if (results().size() != kScheduleCases + kMixedCases) return;  // some were asked for only
    EXPECT_TRUE(write_report(BP_REPORTS_DIR, "ccl_cases", words(), results())) << BP_REPORTS_DIR;
    std::printf("collectives: %zu cases, seed %llu, see %s/ccl_cases.md\n", results().size(),
                static_cast<unsigned long long>(kSeed), BP_REPORTS_DIR);
  }

 private:
  static std::string words() {
    return "# Collectives: cases\n\nEvery pair of schedule, dtype, reduction, place, count, ranks, "
           "root and values that an operation can have is in a case (seed " +
           std::to_string(kSeed) +
           "); those that it cannot have, and dtypes that nothing reduces, have cases of their "
           "own. "
           "Up to 4 ranks are processes, more are threads; by the schedule hierarchical they are "
           "processes on 2 or 3 hosts, which are namespaces. Groups of several vendors, whose "
           "ranks "
           "are threads: every kind, dtype and root, and the operations by the devices' own "
           "collectives are counted. Unsupported: refused as it must be, or run by another "
           "schedule "
           "than was asked for, and right.";
  }
};

[[maybe_unused]] const testing::Environment* const kReport =
    testing::AddGlobalTestEnvironment(new Report);

}  // namespace
}  // namespace bp::ccl::cases
