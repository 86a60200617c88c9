// SPDX-License-Identifier: Apache-2.0
//
// Reading the configuration file.
#include "core/runtime/config_file.hpp"

#include <new>
#include <stdexcept>

#include "core/base/foreign_text.hpp"
#include "core/base/json.hpp"
#include "core/base/mapped_file.hpp"

namespace bp {
namespace {

constexpr const char* kFile = "configuration file ";

Status refuse(const std::string& path, const std::string& words) {
  return Status(BP_INVALID_ARGUMENT, kFile + path + ": " + words);
}

constexpr size_t kMaxBytes = 1024 * 1024;

Result<std::string> scalar_text(const std::string& path, const std::string& key,
                                const JsonValue& value) {
  using Kind = JsonValue::Kind;
  if (value.kind() == Kind::kString || value.kind() == Kind::kBool ||
      value.kind() == Kind::kInteger) {
    return value.text();
  }
  return refuse(path, "'" + foreign_text(key) +
                          "': expected a text, whole number, true or false, found " +
                          std::string(value.kind_name()));
}

/// Whether a plugin may give a device of this name: "ID:INDEX".
bool is_device_name(std::string_view name) {
  const size_t colon = name.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == name.size()) return false;
  const std::string_view index = name.substr(colon + 1);
  return index.find_first_not_of("0123456789") == std::string_view::npos;
}

Result<ConfigFile> read_sections(const std::string& path, const JsonValue& root) {
  if (root.kind() != JsonValue::Kind::kObject) return refuse(path, "expected a JSON object");
  ConfigFile config;
  for (size_t i = 0; i < root.keys().size(); ++i) {
    const std::string& section = root.keys()[i];
    const JsonValue& values = root.values()[i];
    if (section != "options" && section != "aliases") {
      return refuse(path,
                    "unknown key '" + foreign_text(section) + "'; expected options or aliases");
    }
    if (values.kind() != JsonValue::Kind::kObject) {
      return refuse(path, "'" + section + "': expected an object");
    }
    for (size_t j = 0; j < values.keys().size(); ++j) {
      const std::string& key = values.keys()[j];
      BP_TRY_ASSIGN(std::string text, scalar_text(path, key, values.values()[j]));
      if (section == "options") {
        config.plugin_options.push_back({key, text, kFile + path});
      } else if (is_device_name(key)) {
        // Also while no such device is there: one that comes later must not run elsewhere.
        return refuse(path, "alias '" + foreign_text(key) +
                                "': expected a name that no device can have, found one like "
                                "\"cpu:0\", which would hide that device");
      } else {
        config.aliases.emplace(key, text);
      }
    }
  }
  return config;
}

}  // namespace

Result<ConfigFile> read_config_file(const std::string& path) {
  const auto text = read_file(path, kMaxBytes);
  if (!text.ok()) {
    return Status(BP_INVALID_ARGUMENT, "configuration file " + text.status().message());
  }
  try {
    return read_sections(path, parse_json(*text, kMaxBytes));
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::runtime_error& error) {
    return refuse(path, error.what());
  }
}

}  // namespace bp
