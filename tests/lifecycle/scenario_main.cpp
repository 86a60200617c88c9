// SPDX-License-Identifier: Apache-2.0
//
// The program in which scenarios of life and death run, one per process, over libbackplane.so as an
// application has it.
#include <cstdlib>
#include <exception>

#include "tests/lifecycle/rig.hpp"

namespace bp::life {
namespace {
const Arguments* parsed;  // outlives exit(), under which threads of some scenarios still run
}
const Arguments& arguments() { return *parsed; }
}  // namespace bp::life

int main(int argc, char** argv) try {
  using namespace bp::life;
  if (argc < 6) {
    std::fputs("usage: lifecycle_scenario NAME DEVICE DEVICE_FOLDER HOST_FOLDER MODEL [COUNT]\n",
               stderr);
    return 2;
  }
  parsed = new Arguments{argv[2], argv[3], argv[4], argv[5], argc > 6 ? std::atoi(argv[6]) : 0};
  const std::string name = argv[1];
  if (run_exit_scenario(name) || run_fork_scenario(name) || run_close_scenario(name)) return 0;
  std::fprintf(stderr, "no scenario is called %s\n", argv[1]);
  return 2;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return bp::life::kExitFailed;
}
