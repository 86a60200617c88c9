// SPDX-License-Identifier: Apache-2.0
//
// What a plugin's library would have as statics is here an exit handler, registered before the gate
// watches and so called after it.
#include "backplane/sdk/exit_gate.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <optional>

namespace bp::sdk {
namespace {

std::atomic<bool> g_entered{false};
std::atomic<bool> g_left{false};

void end_of_the_library() {
  std::fputs(g_left ? "nobody inside, " : "somebody inside, ", stderr);
  const ExitGate late;
  std::fputs(late.open() ? "open" : "closed", stderr);
}

/// `inside`: whether the other thread says that it is.
[[noreturn]] void exit_beside_a_thread(bool inside) {
  std::atexit(end_of_the_library);
  ExitGate::watch("the library");
  ExitGate::watch("the library");  // once is enough
  std::thread([inside] {
    std::optional<ExitGate> gate;
    if (inside) gate.emplace();
    g_entered = true;
    // Long for who is not inside, as the main thread may be late, but less than the gate's 5 s, so
    // that waiting for it would be seen.
    std::this_thread::sleep_for(std::chrono::milliseconds(inside ? 500 : 4000));
    g_left = true;
  }).detach();
  while (!g_entered) std::this_thread::yield();
  std::exit(0);
}

/// The gate waits 5 s for those inside; nobody of the child's is.
[[noreturn]] void exit_in_a_child_beside_a_thread() {
  ExitGate::watch("the library");
  std::thread([] {
    const ExitGate inside;
    g_entered = true;
    std::this_thread::sleep_for(std::chrono::hours(1));
  }).detach();
  while (!g_entered) std::this_thread::yield();
  const pid_t child = fork();
  if (child == 0) {
    alarm(4);
    std::exit(7);
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::_Exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

class ExitGateTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(ExitGateTest, Exit_SomebodyInside_WaitsAndTurnsLaterOnesAway) {
  EXPECT_EXIT(exit_beside_a_thread(true), testing::ExitedWithCode(0), "nobody inside, closed");
}

TEST_F(ExitGateTest, Exit_ThreadThatIsNotInside_IsNotWaitedFor) {
  EXPECT_EXIT(exit_beside_a_thread(false), testing::ExitedWithCode(0), "somebody inside, closed");
}

TEST_F(ExitGateTest, ExitOfAForkedChild_WaitsForNoThreadOfTheParent) {
  EXPECT_EXIT(exit_in_a_child_beside_a_thread(), testing::ExitedWithCode(7), "");
}

TEST_F(ExitGateTest, Gate_WhileTheProcessLives_IsOpenAlsoNested) {
  const ExitGate outer;
  const ExitGate inner;
  EXPECT_TRUE(inner.open());
  EXPECT_NO_THROW(outer.require_open());
}

TEST_F(ExitGateTest, RequireOpen_WhileTheProcessEnds_IsUnavailableWithWords) {
  const auto ask = [] {
    std::atexit([] {
      try {
        ExitGate().require_open();
      } catch (const Failure& failure) {
        std::fprintf(stderr, "%d %s", failure.status, failure.message.c_str());
      }
    });
    ExitGate::watch("the library");
    std::exit(0);
  };
  EXPECT_EXIT(ask(), testing::ExitedWithCode(0),
              std::to_string(BP_UNAVAILABLE) + " the process is ending");
}

}  // namespace
}  // namespace bp::sdk
