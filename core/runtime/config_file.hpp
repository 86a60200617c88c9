// SPDX-License-Identifier: Apache-2.0
//
// The configuration file (BACKPLANE_CONFIG): plugin options and device aliases as JSON,
// {"options": {"npu.memory": "64MiB"}, "aliases": {"fast": "xpu:0"}}.
#ifndef BACKPLANE_CORE_RUNTIME_CONFIG_FILE_HPP
#define BACKPLANE_CORE_RUNTIME_CONFIG_FILE_HPP

#include <map>
#include <string>
#include <vector>

#include "core/base/status.hpp"
#include "core/plugin/manifest.hpp"

namespace bp {

struct ConfigFile {
  std::vector<OptionSetting> plugin_options;
  std::map<std::string, std::string, std::less<>> aliases;
};

/// Errors: INVALID_ARGUMENT naming the file and what in it is wrong; an unknown key is one.
Result<ConfigFile> read_config_file(const std::string& path);

}  // namespace bp

#endif
