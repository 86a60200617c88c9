// SPDX-License-Identifier: Apache-2.0
//
// `backplane launch`: starts the ranks of a job as processes. It loads no plugin.
#include "ccl/launch/job.hpp"
#include "ccl/launch/launcher.hpp"
#include "core/cli/cli.hpp"

namespace bp::cli {

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
                          .restarts = static_cast<uint32_t>(command.restarts)};
  if (args.token_file.empty() && args.node_count > 1) {
    args.token_file = ccl::process_variable("BACKPLANE_CCL_TOKEN_FILE").value_or("");
  }
  const auto timeout = ccl::read_timeout(ccl::process_variable);
  if (!timeout.ok()) return fail(kCommand, timeout.status().message(), kExitEnvironment);
  args.timeout = *timeout;
  if (const Status wrong = ccl::check_launch(args); !wrong.ok()) {
    return fail(kCommand, wrong.message(), kExitUsage);
  }
  const auto status = ccl::launch(args);
  if (!status.ok()) return fail(kCommand, status.status().message(), kExitEnvironment);
  return *status;
}

}  // namespace bp::cli
