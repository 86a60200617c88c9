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

Status refuse(const std::string& path, const std::string& words) {
  return Status(BP_INVALID_ARGUMENT, "configuration file " + path + ": " + words);
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
        config.plugin_options.push_back({key, text});
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
