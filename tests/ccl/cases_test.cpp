// SPDX-License-Identifier: Apache-2.0
//
// Every collective by every schedule, and in groups of several vendors, against an oracle. Ranks
// are processes up to four, and threads above and where vendors mix.
#include <gtest/gtest.h>

#include <barrier>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
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
constexpr size_t kScheduleCases = 572;
constexpr size_t kMixedCases = 5221;

constexpr uint32_t kMostProcesses = 4;
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
                     const std::vector<Case>& cases, const RankRunArgs& args) {
  const Ref<Runtime> runtime = make_runtime(algorithms);
  const std::shared_ptr<Store> store = make_memory_store();
  const auto rank_count = static_cast<uint32_t>(devices.size());
  Verdicts verdicts(rank_count);
  std::barrier others(rank_count);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < rank_count; ++rank) {
    threads.emplace_back([&, rank] {
      RankRunArgs own = args;
      own.await_others = [&] { others.arrive_and_wait(); };
      verdicts[rank] =
          run_rank(*runtime, {store, {rank, rank_count}, devices[rank]}, cases, std::move(own));
      others.arrive_and_drop();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return verdicts;
}

std::vector<Case> cases_of(uint32_t variant, uint32_t rank_count) {
  std::vector<Case> cases = schedule_cases();
  std::erase_if(
      cases, [&](const Case& c) { return c.rank_count != rank_count || variant_of(c) != variant; });
  return cases;
}

// --- A rank that is a process

class Ranks : public testing::Test {};

TEST_F(Ranks, DISABLED_Part) {
  const auto number = [](const char* name) {
    return static_cast<uint32_t>(std::atoi(variable(name).c_str()));
  };
  const std::string folder = variable("BP_TEST_FOLDER");
  const RankPlace rank{number("BP_TEST_RANK"), number("BP_TEST_RANKS")};
  const uint32_t variant = number("BP_TEST_VARIANT");
  const auto store = open_file_store({.path = folder + "/store", .job = "cases"});
  ASSERT_TRUE(store.ok()) << store.status().to_string();
  const Ref<Runtime> runtime = make_runtime(rules_of_variant(variant));
  const auto verdicts = run_rank(*runtime, {*store, rank, "cpu:0"},
                                 cases_of(variant, rank.rank_count), forced_args());
  std::ofstream file(folder + "/told." + std::to_string(rank.rank));
  write(verdicts, file);
  ASSERT_TRUE(file.flush());
}

Verdicts run_processes(uint32_t variant, uint32_t rank_count) {
  char folder[] = "/tmp/bp_ccl_cases_XXXXXX";
  if (mkdtemp(folder) == nullptr) throw std::runtime_error("no folder in /tmp");
  Verdicts verdicts(rank_count);
  {
    std::vector<std::unique_ptr<RankProcess>> ranks;
    for (uint32_t rank = 0; rank < rank_count; ++rank) {
      ranks.push_back(std::make_unique<RankProcess>(
          "Ranks.DISABLED_Part", Variables{{"BP_TEST_FOLDER", folder},
                                           {"BP_TEST_RANK", std::to_string(rank)},
                                           {"BP_TEST_RANKS", std::to_string(rank_count)},
                                           {"BP_TEST_VARIANT", std::to_string(variant)}}));
    }
    for (uint32_t rank = 0; rank < rank_count; ++rank) {
      EXPECT_EQ(ranks[rank]->end(kLongestProcess), 0) << "rank " << rank << " of " << rank_count;
      std::ifstream file(folder + ("/told." + std::to_string(rank)));
      verdicts[rank] = read_verdicts(file);
    }
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
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

TEST_P(ScheduleCases, EveryPair_IsRight) {
  const uint32_t rank_count = GetParam();
  for (uint32_t variant = 0; variant < variant_count(); ++variant) {
    const std::vector<Case> cases = cases_of(variant, rank_count);
    if (cases.empty()) continue;
    const Verdicts verdicts = rank_count <= kMostProcesses
                                  ? run_processes(variant, rank_count)
                                  : run_threads(std::vector<std::string>(rank_count, "cpu:0"),
                                                rules_of_variant(variant), cases, forced_args());
    take("schedules", cases, verdicts);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, ScheduleCases, testing::Values(1u, 2u, 3u, 4u, 5u, 8u),
                         testing::PrintToStringParamName());

// What a group is made of is what these are about. The last one has collectives of its own.
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
    for (const Case& c : cases)
      results().push_back({.table = name_of(devices), .what = c, .words = absent});
    GTEST_SKIP() << absent;
  }
  take(name_of(devices), cases, run_threads(devices, "", cases, {}));
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

class Report : public testing::Environment {
 public:
  void SetUp() override {
    const std::string kept = variable("BP_CCL_CASES_KEEP");
    if (kept.empty() || !variable("BP_TEST_FOLDER").empty()) return;  // of this process's ranks
    std::filesystem::create_directories(kept);
    for (const auto& entry : std::filesystem::directory_iterator(kept)) {
      const std::string extension = entry.path().extension();
      if (extension == ".in" || extension == ".out") std::filesystem::remove(entry.path());
    }
  }
  void TearDown() override {
    if (results().size() != kScheduleCases + kMixedCases) return;  // some were asked for only
    EXPECT_TRUE(write_report(BP_REPORTS_DIR, "ccl_cases", results())) << BP_REPORTS_DIR;
    std::printf("collectives: %zu cases, seed %llu, see %s/ccl_cases.md\n", results().size(),
                static_cast<unsigned long long>(kSeed), BP_REPORTS_DIR);
  }
};

[[maybe_unused]] const testing::Environment* const kReport =
    testing::AddGlobalTestEnvironment(new Report);

}  // namespace
}  // namespace bp::ccl::cases
