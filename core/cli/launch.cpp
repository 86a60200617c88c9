// SPDX-License-Identifier: Apache-2.0
//
// `backplane launch`: starts the ranks of a job as processes. It loads no plugin.
#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "ccl/launch/job.hpp"
#include "ccl/launch/launcher.hpp"
#include "core/cli/cli.hpp"
#include "core/cli/text.hpp"

namespace bp::cli {
namespace {

using Words = std::vector<std::string>;

bool contains(const Words& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// Where other launchers have the number of ranks.
bool is_count_elsewhere(std::string_view name) {
  constexpr std::string_view kNames[] = {
      "-np", "--np", "--nproc-per-node", "--nproc_per_node", "--ntasks", "--ntasks-per-node"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

/// As a shell takes it.
std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:,=+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char letter : word) quoted += letter == '\'' ? "'\\''" : std::string(1, letter);
  return quoted + "'";
}

void warn_of_device(const LaunchCommand& command) {
  const auto device = ccl::process_variable("BACKPLANE_CCL_DEVICE");
  if (!device || !command.devices.empty()) return;
  std::fprintf(stderr,
               "backplane launch: BACKPLANE_CCL_DEVICE is set, to '%s', and is not used: the ranks "
               "get the devices of --devices\n",
               visible(*device).c_str());
}

}  // namespace

std::string launch_words(const Words& arguments, const Words& left, const Words& program) {
  std::string wrong;
  std::string better = "backplane launch";
  bool has_mark = false;
  const auto command = std::find(arguments.begin(), arguments.end(), "launch");
  for (auto next = command + (command != arguments.end()); next != arguments.end(); ++next) {
    const size_t equals = next->find('=');
    const std::string name = next->substr(0, equals);
    if (!has_mark && is_count_elsewhere(name)) {
      wrong = "unknown option '" + name + "'; the number of ranks on this node is -n N;";
      better += " -n";
      if (equals != std::string::npos) {
        better += " " + shell_word(next->substr(equals + 1));
      } else if (next + 1 != arguments.end()) {
        better += " " + shell_word(*++next);
      }
      continue;
    }
    if (!has_mark && contains(left, *next)) {
      if (next->starts_with('-')) return "";
      if (wrong.empty()) wrong = "launch takes no further argument, found '" + *next + "';";
      better += " --";
      has_mark = true;
    }
    better += " " + shell_word(*next);
  }
  if (wrong.empty()) return "";
  if (!has_mark || !program.empty()) better += " --";
  for (const std::string& word : program) better += " " + shell_word(word);
  if (!has_mark && program.empty()) better += " PROGRAM";
  return wrong + " put the program behind --: " + better;
}

int run_launch(const GlobalArgs& global, const LaunchCommand& command) {
  constexpr const char* kCommand = "launch";
  if (!global.plugin_path.empty() || !global.plugin_options.empty()) {
    return fail(kCommand,
                "--plugin-path and --option are not for the ranks; set BACKPLANE_PLUGIN_PATH and "
                "BACKPLANE_PLUGIN_OPTIONS, which they inherit",
                kExitUsage);
  }
  ccl::LaunchArgs args = {.command = command.program,
                          .local_count = static_cast<uint32_t>(command.local_count),
                          .node_count = static_cast<uint32_t>(command.node_count),
                          .node_rank = static_cast<uint32_t>(command.node_rank),
                          .rendezvous = command.rendezvous,
                          .token_file = command.token_file,
                          .devices = command.devices,
                          .grace = std::chrono::seconds(command.grace_seconds),
                          .restarts = static_cast<uint32_t>(command.restarts),
                          .keeps_going = command.keep_going};
  if (args.token_file.empty() && args.node_count > 1) {
    args.token_file = ccl::process_variable("BACKPLANE_CCL_TOKEN_FILE").value_or("");
  }
  const auto timeout = ccl::read_timeout(ccl::process_variable);
  if (!timeout.ok()) return fail(kCommand, timeout.status().message(), kExitEnvironment);
  args.timeout = *timeout;
  if (const Status wrong = ccl::check_launch(args); !wrong.ok()) {
    return fail(kCommand, wrong.message(), kExitUsage);
  }
  warn_of_device(command);
  const auto status = ccl::launch(args);
  if (!status.ok()) return fail(kCommand, status.status().message(), kExitEnvironment);
  return *status;
}

}  // namespace bp::cli
