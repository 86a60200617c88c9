// SPDX-License-Identifier: Apache-2.0
//
// The plugins of this build, as its CMakeLists.txt files list them: a test that runs once per
// plugin asks here, so that a plugin in the tree is its folder and one line. Only a test of what
// one plugin alone has names that plugin.
#ifndef BACKPLANE_TESTS_PLUGINS_HPP
#define BACKPLANE_TESTS_PLUGINS_HPP

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "backplane/status.h"

namespace bp::tests {

/// "a,b" as {"a", "b"}.
inline std::vector<std::string> split_ids(const std::string& text) {
  std::vector<std::string> ids;
  std::istringstream stream(text);
  for (std::string id; std::getline(stream, id, ',');) ids.push_back(id);
  return ids;
}

/// Of every plugin of this build, then the ids given.
inline std::vector<std::string> plugin_ids(const std::vector<std::string>& more = {}) {
  std::vector<std::string> ids = split_ids(BP_PLUGIN_IDS);
  ids.insert(ids.end(), more.begin(), more.end());
  return ids;
}

/// The same without some plugins, for tests that say why these differ.
inline std::vector<std::string> plugin_ids_but(const std::vector<std::string>& without) {
  std::vector<std::string> ids = plugin_ids();
  std::erase_if(ids, [&](const std::string& id) {
    return std::find(without.begin(), without.end(), id) != without.end();
  });
  return ids;
}

/// The first device of every plugin of this build, then those of the ids given.
inline std::vector<std::string> device_names(const std::vector<std::string>& more = {}) {
  std::vector<std::string> names = plugin_ids(more);
  for (std::string& name : names) name += ":0";
  return names;
}

/// The first device of every plugin that may have queues, then the devices given. cpu has none: its
/// calls are done when they return.
inline std::vector<std::string> queued_device_names(const std::vector<std::string>& more = {}) {
  std::vector<std::string> names = plugin_ids_but({"cpu"});
  for (std::string& name : names) name += ":0";
  names.insert(names.end(), more.begin(), more.end());
  return names;
}

/// Whether a machine may lack this plugin's devices: a plugin id, or the name of a device. Those of
/// any other plugin that are not here are a failure. So are all with BP_REQUIRE_DEVICES in the
/// environment: continuous integration has every device, and a driver that stops working shows.
inline bool may_be_absent(const std::string& id_or_device) {
  if (std::getenv("BP_REQUIRE_DEVICES") != nullptr) return false;
  const std::vector<std::string> ids = split_ids(BP_ABSENT_PLUGIN_IDS);
  return std::find(ids.begin(), ids.end(), id_or_device.substr(0, id_or_device.find(':'))) !=
         ids.end();
}

/// Whether a test of the device is to be skipped, its opening having answered `status`: absent is
/// what the plugin calls absent, and not what went wrong.
inline bool is_absent(const std::string& id_or_device, bp_status status) {
  return status == BP_UNAVAILABLE && may_be_absent(id_or_device);
}

}  // namespace bp::tests

#endif
