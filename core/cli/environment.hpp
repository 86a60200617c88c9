// SPDX-License-Identifier: Apache-2.0
//
// What the commands share about the machine: opening the Runtime as the command line says, and
// telling which plugins were left out.
#ifndef BACKPLANE_CORE_CLI_ENVIRONMENT_HPP
#define BACKPLANE_CORE_CLI_ENVIRONMENT_HPP

#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.hpp"
#include "core/cli/cli.hpp"
#include "core/cli/json.hpp"
#include "core/runtime/runtime.hpp"

namespace bp::cli {

/// With every operator of ops/. Errors: Runtime::create's.
Result<Ref<Runtime>> open_runtime(const GlobalArgs& global);
/// Which exit code an error of open_runtime is: usage if a plugin option or folder of the
/// command line is what failed, else the environment. Opens a Runtime once more to find out.
int open_failure_code(const GlobalArgs& global, const Status& error);

/// The named device, or the first one for "". Errors: UNAVAILABLE, saying what there is.
Result<Device*> choose_device(const Runtime& runtime, const std::string& name);
/// Environment if there is no device at all, else device.
int device_failure_code(const Runtime& runtime);

/// Hardware that is not in this machine: no failure of the plugin.
bool is_absent(const SkippedPlugin& skipped);

/// A key "skipped" with one object for each plugin.
void write_skipped(const PluginSet& plugins, JsonWriter* out_json);
/// A key "missing" with one object for each device that could not be opened.
void write_missing(const Runtime& runtime, JsonWriter* out_json);

struct BandState {
  std::string_view band;   // "async"
  std::string_view state;  // "native", "emulated", "absent"
};
/// How each optional group of functions works on a device.
std::vector<BandState> band_states(const Device& device);

std::string text_of(bp_str text);

}  // namespace bp::cli

#endif
