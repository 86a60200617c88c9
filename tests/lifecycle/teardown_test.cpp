// SPDX-License-Identifier: Apache-2.0
//
// Runs the modes of teardown_scenario on each device: a sample of the orders, all of them under the
// label full (the argument --full).
#include <gtest/gtest.h>

#include <cstring>

#include "tests/lifecycle/devices.hpp"

namespace bp::life {
namespace {

bool full = false;

struct Mode {
  const char* name;
  const char* id;
  int every;  // of the quick run
  int exit_code = 0;
};

void PrintTo(const Mode& mode, std::ostream* out) { *out << mode.name << " " << mode.id; }

class Teardown : public testing::TestWithParam<Mode> {};

TEST_P(Teardown, Objects_LetGoInAnyOrder_LeaveNothingAndHangNowhere) {
  const Mode& mode = GetParam();
  if (!is_here(mode.id)) GTEST_SKIP() << mode.id << " is not on this machine";
  ChildArgs args;
  args.command = {BP_TEARDOWN_SCENARIO, mode.name};
  add_device(mode.id, &args.command);
  args.command.push_back(std::to_string(full ? 1 : mode.every));
  args.timeout = std::chrono::seconds(full ? 3600 : BP_CHILD_SECONDS);
  const ChildResult result = run_child(args);
  EXPECT_EQ(result.exit_code, mode.exit_code) << result.describe();
  if (mode.exit_code == 0) EXPECT_NE(result.output.find(" orders"), std::string::npos);
}

// Of 120 orders, 720 with close. The OpenCL driver takes its time to start.
INSTANTIATE_TEST_SUITE_P(
    Modes, Teardown,
    testing::Values(Mode{"orders", "cpu", 3}, Mode{"orders", "npu", 1}, Mode{"orders", "good", 1},
                    Mode{"orders", "xpu", 20}, Mode{"orders_with_close", "cpu", 24},
                    Mode{"orders_with_close", "npu", 5}, Mode{"orders_with_close", "good", 5},
                    Mode{"orders_with_close", "xpu", 120}, Mode{"orders_on_threads", "cpu", 48},
                    Mode{"orders_on_threads", "npu", 12}, Mode{"orders_on_threads", "good", 12},
                    Mode{"orders_on_threads", "xpu", 180}, Mode{"at_once", "cpu", 6},
                    Mode{"at_once", "npu", 2}, Mode{"at_once", "good", 2},
                    Mode{"at_once", "xpu", 30}, Mode{"exit_in_host_call", "cpu", 1, 7},
                    Mode{"exit_in_host_call", "npu", 1, 7}, Mode{"exit_in_host_call", "good", 1, 7},
                    Mode{"exit_in_host_call", "xpu", 1, 7}),
    [](const auto& test) {
      return std::string(test.param.name) + "_" + std::string(test.param.id);
    });

}  // namespace
}  // namespace bp::life

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  bp::life::full = argc > 1 && std::strcmp(argv[1], "--full") == 0;
  return RUN_ALL_TESTS();
}
