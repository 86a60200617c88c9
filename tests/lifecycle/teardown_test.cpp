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
  std::string id;
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

// Of 120 orders, 720 with close, the quick run takes one of so many: fewer for cpu with its threads
// and for xpu, whose OpenCL driver takes its time to start.
struct Sample {
  const char* mode;
  int usual;
  int cpu;
  int xpu;
};
constexpr Sample kSamples[] = {{"orders", 1, 3, 20},
                               {"orders_with_close", 5, 24, 120},
                               {"orders_on_threads", 12, 48, 180},
                               {"at_once", 2, 6, 30}};

std::vector<Mode> modes() {
  std::vector<Mode> modes;
  for (const std::string& id : tests::plugin_ids({"good"})) {
    for (const Sample& sample : kSamples) {
      const int every = id == "cpu" ? sample.cpu : id == "xpu" ? sample.xpu : sample.usual;
      modes.push_back({sample.mode, id, every});
    }
    modes.push_back({"exit_in_host_call", id, 1, 7});
  }
  return modes;
}

INSTANTIATE_TEST_SUITE_P(Modes, Teardown, testing::ValuesIn(modes()), [](const auto& test) {
  return std::string(test.param.name) + "_" + test.param.id;
});

}  // namespace
}  // namespace bp::life

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  bp::life::full = argc > 1 && std::strcmp(argv[1], "--full") == 0;
  return RUN_ALL_TESTS();
}
