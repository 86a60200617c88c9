// SPDX-License-Identifier: Apache-2.0
//
// Several cores and several Runtimes in one process.
#include <gtest/gtest.h>

#include <filesystem>

#include "core/base/temp_folder_test.hpp"
#include "core/runtime/runtime.hpp"
#include "ops/register.hpp"
#include "tests/lifecycle/devices.hpp"

namespace bp::life {
namespace {

class Copies : public testing::TestWithParam<std::string> {};

TEST_P(Copies, TwoLibraries_OverTheSamePlugins_DoNotMeet) {
  if (!is_here(GetParam())) GTEST_SKIP() << GetParam() << " is not on this machine";
  const TempFolder folder;
  ChildArgs args;
  args.command = {BP_COPIES_SCENARIO};
  for (const char* name : {"libfirst.so", "libsecond.so"}) {
    const std::string copy = folder.path(name);
    std::filesystem::copy_file(BP_LIBRARY, copy);
    args.command.push_back(copy);
  }
  add_device(GetParam(), &args.command);
  args.timeout = std::chrono::seconds(BP_CHILD_SECONDS);
  const ChildResult result = run_child(args);
  EXPECT_EQ(result.exit_code, 0) << result.describe();
  EXPECT_NE(result.output.find("both copies worked"), std::string::npos) << result.describe();
}

INSTANTIATE_TEST_SUITE_P(Devices, Copies, testing::ValuesIn(tests::plugin_ids({"good"})),
                         [](const auto& test) { return test.param; });

RuntimeArgs single_args() {
  RuntimeArgs args;
  args.register_ops = register_ops;
  args.plugin_path = {BP_FAKES_DIR "/single", BP_FAKES_DIR "/good"};
  args.install_directory = "";
  return args;
}

TEST(SingleInstance, SecondRuntime_WhileTheFirstLives_GoesWithoutThePlugin) {
  auto first = Runtime::create(single_args());
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  EXPECT_TRUE((*first)->find_device("single:0").ok());
  {
    auto second = Runtime::create(single_args());
    ASSERT_TRUE(second.ok()) << second.status().to_string();
    EXPECT_FALSE((*second)->find_device("single:0").ok());
    EXPECT_TRUE((*second)->find_device("good:0").ok());
    ASSERT_EQ((*second)->plugins().skipped.size(), 1u);
    const SkippedPlugin& skipped = (*second)->plugins().skipped[0];
    EXPECT_EQ(skipped.reason.to_string(),
              "BUSY: plugin single: init: one instance lives already (BUSY, status 8)");
    EXPECT_EQ(skipped.next_action(), "Close the Runtime or the process that uses it.");
  }
  // The one that was refused has taken nothing from the one that lives.
  EXPECT_TRUE((*first)->find_device("single:0").ok());
  (*first)->close();
  auto third = Runtime::create(single_args());
  ASSERT_TRUE(third.ok()) << third.status().to_string();
  EXPECT_TRUE((*third)->find_device("single:0").ok());
}

}  // namespace
}  // namespace bp::life
