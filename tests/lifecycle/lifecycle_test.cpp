// SPDX-License-Identifier: Apache-2.0
//
// Runs each scenario of lifecycle_scenario on each device, and says how it must end.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/lifecycle/devices.hpp"
#include "tests/lifecycle/rig.hpp"

namespace bp::life {
namespace {

struct Case {
  std::string scenario;
  std::string id;  // of the plugin
  int exit_code;
};

void PrintTo(const Case& life, std::ostream* out) { *out << life.scenario << " " << life.id; }

class Life : public testing::TestWithParam<Case> {};

#ifdef __SANITIZE_THREAD__
// The forked child ends as its only thread returns: exit() runs on a thread whose state
// ThreadSanitizer has already dropped, and dies inside that tool.
bool ends_by_a_thread(const std::string& scenario) {
  return scenario == "fork_in_run_callback" || scenario == "fork_in_log_sink";
}
#endif

TEST_P(Life, Scenario_InItsOwnProcess_EndsAsItWants) {
  const Case& life = GetParam();
  if (!is_here(life.id)) GTEST_SKIP() << life.id << " is not on this machine";
#ifdef __SANITIZE_THREAD__
  if (ends_by_a_thread(life.scenario)) GTEST_SKIP() << "ThreadSanitizer cannot follow it";
#endif
  const ChildResult result = run_scenario(life.scenario, life.id);
  EXPECT_FALSE(result.timed_out) << result.describe();
  EXPECT_EQ(result.exit_code, life.exit_code) << result.describe();
}

const std::vector<std::string> kIds = tests::plugin_ids({"good"});

std::vector<Case> cases(const std::string& prefix, const std::vector<std::string>& names,
                        const std::vector<std::string>& ids, int exit_code) {
  std::vector<Case> result;
  for (const std::string& name : names) {
    for (const std::string& id : ids) result.push_back({prefix + name, id, exit_code});
  }
  return result;
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  return info.param.scenario + "_" + info.param.id;
}

INSTANTIATE_TEST_SUITE_P(
    Exit, Life,
    testing::ValuesIn(cases("exit_",
                            {"main", "all_released", "worker_while_main_works",
                             "worker_while_main_waits", "threads_create_and_close", "run_callback",
                             "run_callback_with_statics", "runs_queued", "sink_in_create",
                             "sink_while_others_log", "statics_runtime_first",
                             "statics_runtime_last", "static_that_closes", "atexit_made_first",
                             "atexit_made_last", "atexit_creates", "quick_exit", "thread_locals"},
                            kIds, kExitWanted)),
    case_name);

// Lines that not every device has a reason to write.
INSTANTIATE_TEST_SUITE_P(ExitInFallback, Life,
                         testing::ValuesIn(cases("exit_", {"sink_in_call", "sink_in_close"},
                                                 {"npu", "good"}, kExitWanted)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(ExitInPlugin, Life,
                         testing::ValuesIn(cases("exit_", {"sink_in_plugin_call", "init_hangs"},
                                                 {"good"}, kExitWanted)),
                         case_name);

INSTANTIATE_TEST_SUITE_P(Fork, Life,
                         testing::ValuesIn(cases("fork_",
                                                 {"before_anything", "before_anything_twice",
                                                  "with_pending_work", "child_exits",
                                                  "while_threads_work", "from_another_thread",
                                                  "in_log_sink", "in_run_callback", "grandchild",
                                                  "after_release", "exec"},
                                                 kIds, 0)),
                         case_name);

INSTANTIATE_TEST_SUITE_P(Close, Life,
                         testing::ValuesIn(cases("close_",
                                                 {"every_call", "create_again", "two_at_once",
                                                  "by_threads", "released_in_callback"},
                                                 kIds, 0)),
                         case_name);

INSTANTIATE_TEST_SUITE_P(
    Broken, Life,
    testing::ValuesIn(cases("close_", {"every_call_poisoned", "every_call_lost"}, {"good"}, 0)),
    case_name);

TEST(LifeHarness, UnknownScenario_IsAnError) {
  EXPECT_EQ(run_scenario("exit_nowhere", "cpu").exit_code, 2);
}

TEST(LifeHarness, RunChild_HangCrashAndFailure_AreSeen) {
  ChildArgs args;
  args.command = {"/bin/sh", "-c", "echo before; sleep 600 & wait"};
  ChildResult hung;
  // On a busy machine a shell may need longer to start than the first of these.
  for (const int seconds : {1, 5, 30}) {
    args.timeout = std::chrono::seconds(seconds);
    hung = run_child(args);
    EXPECT_TRUE(hung.timed_out);
    if (!hung.output.empty()) break;
  }
  EXPECT_EQ(hung.output, "before\n");
  args.timeout = std::chrono::seconds(60);
  args.command = {"/bin/sh", "-c", "kill -SEGV $$"};
  EXPECT_EQ(run_child(args).signal, 11);
  args.command = {"/bin/sh", "-c", "echo $NAME; pwd; exit 3"};
  args.environment = {{"NAME", "value"}};
  args.folder = "/";
  const ChildResult failed = run_child(args);
  EXPECT_EQ(failed.exit_code, 3);
  EXPECT_EQ(failed.output, "value\n/\n");
}

TEST(ApiCalls, Rows_ComparedWithTheHeader_NameEveryFunction) {
  std::set<std::string> declared;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(BP_API_FOLDER)) {
    if (entry.path().extension() != ".h") continue;
    std::ifstream header(entry.path());
    for (std::string line; std::getline(header, line);) {
      const size_t call = line.find('(');
      if (!line.starts_with("BPA_API ") || call == std::string::npos) continue;
      const size_t name = line.rfind("bpa_", call);
      ASSERT_NE(name, std::string::npos) << entry.path() << ": " << line;
      declared.insert(line.substr(name, call - name));
    }
  }
  EXPECT_GE(declared.size(), 25u);
  std::set<std::string> called;
  std::istringstream rows(run_scenario("close_functions", "cpu").output);
  for (std::string word; rows >> word;) {
    if (word != "function") called.insert(word);
  }
  EXPECT_EQ(called, declared);
}

}  // namespace
}  // namespace bp::life
