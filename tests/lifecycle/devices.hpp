// SPDX-License-Identifier: Apache-2.0
//
// The devices that the tests of this folder run their scenarios on, by plugin id: those of this
// build, and the fake with the required functions only.
#ifndef BACKPLANE_TESTS_LIFECYCLE_DEVICES_HPP
#define BACKPLANE_TESTS_LIFECYCLE_DEVICES_HPP

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "tests/lifecycle/child.hpp"
#include "tests/plugins.hpp"

namespace bp::life {

inline std::string plugin_folder(const std::string& id) {
  return (id == "good" ? BP_FAKES_DIR "/" : BP_PLUGIN_DIR "/") + id;
}

/// DEVICE DEVICE_FOLDER HOST_FOLDER, as all scenario programs take them.
inline void add_device(const std::string& id, std::vector<std::string>* command) {
  command->insert(command->end(), {id + ":0", plugin_folder(id), BP_PLUGIN_DIR "/cpu"});
}

/// lifecycle_scenario on one device.
inline ChildResult run_scenario(
    const std::string& name, const std::string& id, int count = 0,
    std::chrono::seconds timeout = std::chrono::seconds(BP_CHILD_SECONDS)) {
  ChildArgs args;
  args.command = {BP_SCENARIO, name};
  add_device(id, &args.command);
  args.command.insert(args.command.end(), {BP_MODEL, std::to_string(count)});
  args.timeout = timeout;
  if (name.starts_with("fork_") || name.starts_with("exit_threads_")) {
    // A forked child lets go of objects without freeing them, which is no leak to be reported. And
    // LeakSanitizer now and then crashes where threads of an OpenCL driver end under its eyes.
    const char* options = std::getenv("ASAN_OPTIONS");
    args.environment = {
        {"ASAN_OPTIONS", std::string(options == nullptr ? "" : options) + ":detect_leaks=0"}};
  }
  return run_child(args);
}

/// Whether this machine has a device of the plugin: one that may be absent is asked for it, once.
inline bool is_here(const std::string& id) {
  if (!tests::may_be_absent(id)) return true;
  static std::map<std::string, bool> known;
  const auto at = known.find(id);
  if (at != known.end()) return at->second;
  return known[id] = run_scenario("close_two_at_once", id).exit_code == 0;
}

}  // namespace bp::life

#endif
