// SPDX-License-Identifier: Apache-2.0
//
// What a parent hears of a child that ends well, badly, or not at all.
#include "core/cli/supervised.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <thread>

namespace bp::cli {
namespace {

using ::testing::ElementsAre;

constexpr std::chrono::seconds kPatience(60);

SupervisedResult supervised(std::chrono::seconds patience,
                            const std::function<void(const Progress&)>& body) {
  auto result = run_supervised(patience, body);
  EXPECT_TRUE(result.ok()) << result.status().to_string();
  return result.ok() ? *result : SupervisedResult{};
}

TEST(Supervised, Report_OfManyLines_ComesWhole) {
  const std::string text = std::string(100'000, 'x') + "\nreport 3 4\nbegin y\n";
  const SupervisedResult result = supervised(kPatience, [&](const Progress& progress) {
    progress.begin("first");
    progress.log("one\nline");
    progress.report(5, text);
  });
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_EQ(result.report, text);
  EXPECT_THAT(result.log, ElementsAre("one line"));
  EXPECT_EQ(result.defect, "");
}

TEST(Supervised, Crash_IsToldWithTheStep) {
  const SupervisedResult result = supervised(kPatience, [](const Progress& progress) {
    progress.begin("first");
    progress.begin("npu:0: copies");
    std::signal(SIGABRT, SIG_DFL);
    std::abort();
  });
  EXPECT_EQ(result.exit_code, -1);
  EXPECT_EQ(result.step, "npu:0: copies");
  EXPECT_EQ(result.defect, "ended by signal 6 (Aborted)");
}

TEST(Supervised, EndAfterTheReport_IsToldBesideIt) {
  const SupervisedResult result = supervised(kPatience, [](const Progress& progress) {
    progress.report(0, "all is well");
    std::_Exit(9);
  });
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.report, "all is well");
  EXPECT_EQ(result.defect, "ended by exit code 9");
}

TEST(Supervised, NoStepWithinPatience_IsEnded) {
  const SupervisedResult result = supervised(std::chrono::seconds(4), [](const Progress& progress) {
    progress.begin("npu:0: copies");
    std::this_thread::sleep_for(std::chrono::hours(1));
  });
  EXPECT_EQ(result.exit_code, -1);
  EXPECT_EQ(result.step, "npu:0: copies");
  EXPECT_EQ(result.defect, "did not return within 4 s");
}

}  // namespace
}  // namespace bp::cli
