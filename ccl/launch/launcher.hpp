// SPDX-License-Identifier: Apache-2.0
//
// Starts the ranks of a job on this node, and sees to their ends: a rank that fails takes the
// others with it, on all nodes, and no process of theirs is left. The launcher of node 0 serves the
// store in which ranks, and launchers, meet.
#ifndef BACKPLANE_CCL_LAUNCH_LAUNCHER_HPP
#define BACKPLANE_CCL_LAUNCH_LAUNCHER_HPP

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.hpp"

namespace bp::ccl {

struct LaunchArgs {
  static constexpr uint32_t kMostLocalRanks = 1024;

  std::vector<std::string> command = {};  // the program and its arguments
  uint32_t local_count = 1;               // ranks on this node
  uint32_t node_count = 1;
  uint32_t node_rank = 0;
  /// Where the store is: on node 0 an address or interface with a port; elsewhere that address. "":
  /// a free port of 127.0.0.1, for one node.
  std::string rendezvous = {};
  /// The job's token, for several nodes. "": one is made.
  std::string token_file = {};
  std::vector<std::string> devices = {};  // of each rank here; one: of all; none: none is told
  std::chrono::seconds grace{5};          // from the first signal to the last
  uint32_t restarts = 0;                  // after failures
  bool keeps_going = false;               // a rank here that fails does not end the others
  std::chrono::seconds timeout{300};      // by which all nodes have come
};

/// Errors: INVALID_ARGUMENT for arguments that cannot be, with the command's option.
Status check_launch(const LaunchArgs& args);

/// Runs the job; answers the exit status: 0, or that of the first rank that failed, 128 and the
/// signal for one that was ended by one, or for a launcher that was told to stop. Lines of ranks
/// and of the launcher go to standard output and error. For the main thread of a process that has
/// no other yet: it blocks signals, and ranks end with it. Errors: of what hinders the start.
Result<int> launch(const LaunchArgs& args);

}  // namespace bp::ccl

#endif
