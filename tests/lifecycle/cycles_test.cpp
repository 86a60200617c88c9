// SPDX-License-Identifier: Apache-2.0
//
// Runtimes created and closed again and again in one process: 50 lives per device, and 1,000 under
// the label full (the argument --full). Heap, fds, threads and mappings must not grow.
#include <gtest/gtest.h>

#include <cstring>
#include <iostream>

#include "tests/lifecycle/devices.hpp"

namespace bp::life {
namespace {

bool full = false;

class Cycles : public testing::TestWithParam<std::string> {};

TEST_P(Cycles, CreateAndClose_ManyTimes_LeavesNothingBehind) {
  if (!is_here(GetParam())) GTEST_SKIP() << GetParam() << " is not on this machine";
  const ChildResult result = run_scenario("close_many_lives", GetParam(), full ? 1000 : 50,
                                          std::chrono::seconds(full ? 3600 : 2 * BP_CHILD_SECONDS));
  EXPECT_EQ(result.exit_code, 0) << result.describe();
  std::cout << result.output;
}

INSTANTIATE_TEST_SUITE_P(Devices, Cycles, testing::ValuesIn(tests::plugin_ids({"good"})),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace bp::life

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  bp::life::full = argc > 1 && std::strcmp(argv[1], "--full") == 0;
  return RUN_ALL_TESTS();
}
