// SPDX-License-Identifier: Apache-2.0
//
// Runs one scenario in a process of its own, with a deadline: a hang, a crash or a wrong exit is a
// failed expectation of the test that started it, and never takes the test program along.
#ifndef BACKPLANE_TESTS_LIFECYCLE_CHILD_HPP
#define BACKPLANE_TESTS_LIFECYCLE_CHILD_HPP

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace bp::life {

struct ChildArgs {
  std::vector<std::string> command;                                // program first, by path
  std::vector<std::pair<std::string, std::string>> environment{};  // added to, or in place of, ours
  std::string folder{};                                            // to start in; empty: ours
  std::chrono::seconds timeout{120};
};

struct ChildResult {
  bool timed_out = false;  // it was killed, with all that it had started
  int exit_code = -1;      // -1: it ended by a signal
  int signal = 0;
  std::string output;  // standard output and error

  /// "exit code 1", "signal 11", "timed out", and the output: for messages.
  std::string describe() const;
};

ChildResult run_child(const ChildArgs& args);

}  // namespace bp::life

#endif
