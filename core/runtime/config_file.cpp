// SPDX-License-Identifier: Apache-2.0
//
// Reading the configuration file. It is the user's own, so a plain DOM parse is enough.
#include "core/runtime/config_file.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace bp {
namespace {

Status refuse(const std::string& path, const std::string& words) {
  return Status(BP_INVALID_ARGUMENT, "configuration file " + path + ": " + words);
}

Result<std::string> scalar_text(const std::string& path, const std::string& key,
                                const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean() || value.is_number_integer()) return value.dump();
  return refuse(path, "'" + key + "': expected a text, whole number, true or false, found " +
                          value.type_name());
}

}  // namespace

Result<ConfigFile> read_config_file(const std::string& path) {
  std::ifstream stream(path);
  if (!stream) return refuse(path, "cannot be read");
  std::stringstream text;
  text << stream.rdbuf();
  const nlohmann::json root = nlohmann::json::parse(text.str(), nullptr, false);
  if (!root.is_object()) return refuse(path, "expected a JSON object");
  ConfigFile config;
  for (const auto& [section, values] : root.items()) {
    if (section != "options" && section != "aliases") {
      return refuse(path, "unknown key '" + section + "'; expected options or aliases");
    }
    if (!values.is_object()) return refuse(path, "'" + section + "': expected an object");
    for (const auto& [key, value] : values.items()) {
      BP_TRY_ASSIGN(std::string value_text, scalar_text(path, key, value));
      if (section == "options") {
        config.plugin_options.push_back({key, value_text});
      } else {
        config.aliases.emplace(key, value_text);
      }
    }
  }
  return config;
}

}  // namespace bp
