// SPDX-License-Identifier: Apache-2.0
//
// Step 4: the user's options against the manifest. An unknown name or a bad value is refused with
// what was expected, and the plugin only ever sees one form of a value.
#include <algorithm>
#include <charconv>

#include "core/base/checked.hpp"
#include "core/base/options.hpp"
#include "core/plugin/load_steps.hpp"

namespace bp {
namespace {

Result<std::string> parse_integer(const OptionDecl& decl, std::string_view text) {
  const bool is_bytes = decl.type == OptionType::kBytes;
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  const std::string_view unit(parsed.ptr, static_cast<size_t>(end - parsed.ptr));
  const int shift = unit == "KiB" ? 10 : unit == "MiB" ? 20 : unit == "GiB" ? 30 : 0;
  if (parsed.ec == std::errc::invalid_argument || (!unit.empty() && (!is_bytes || shift == 0))) {
    return fail(BP_INVALID_ARGUMENT, "expected {}, found '{}'",
                is_bytes ? "a number, or one with KiB, MiB or GiB" : "a whole number", text);
  }
  const auto scaled = checked_mul(value, int64_t{1} << shift);
  if (parsed.ec != std::errc() || (is_bytes && value < 0) || !scaled) {
    return fail(BP_INVALID_ARGUMENT, "expected {} to 2^63 - 1, found '{}'",
                is_bytes ? "0" : "-2^63", text);
  }
  value = *scaled;
  const int64_t min = decl.min.value_or(INT64_MIN);
  const int64_t max = decl.max.value_or(INT64_MAX);
  if (value >= min && value <= max) return std::to_string(value);
  return fail(BP_INVALID_ARGUMENT, "expected {} {}, found '{}'",
              value < min ? "at least" : "at most", value < min ? min : max, text);
}

Result<std::string> parse_bool(std::string_view text) {
  if (text == "true" || text == "1") return std::string("true");
  if (text == "false" || text == "0") return std::string("false");
  return fail(BP_INVALID_ARGUMENT, "expected true, false, 1 or 0, found '{}'", text);
}

const OptionDecl* find_option(const Manifest& manifest, std::string_view name) {
  const auto at = std::find_if(manifest.options.begin(), manifest.options.end(),
                               [&](const OptionDecl& decl) { return decl.name == name; });
  return at == manifest.options.end() ? nullptr : &*at;
}

Status unknown_option(const Manifest& manifest, std::string_view name) {
  std::vector<std::string> names;
  for (const OptionDecl& decl : manifest.options) names.push_back(decl.name);
  const auto near = nearest_match(name, names);
  return fail(BP_INVALID_ARGUMENT, "plugin {} has no option '{}' {}", manifest.id, name,
              near ? "(did you mean '" + *near + "'?)"
                   : fmt::format("(it has: {})", fmt::join(names, ", ")));
}

Result<std::string> check_option(const Manifest& manifest, OptionScope scope,
                                 const OptionSetting& setting) {
  const OptionDecl* decl = find_option(manifest, setting.name);
  if (decl == nullptr) return unknown_option(manifest, setting.name);
  const std::string name = "option '" + manifest.id + "." + setting.name + "'";
  if (decl->scope != scope) {
    const bool of_device = decl->scope == OptionScope::kDevice;
    return fail(BP_INVALID_ARGUMENT, "{} is for {}", name, of_device ? "devices" : "the plugin");
  }
  Result<std::string> value = parse_option_value(*decl, setting.value);
  if (!value.ok()) return value.status().with_prefix(name);
  return value;
}

}  // namespace

Result<std::string> parse_option_value(const OptionDecl& decl, std::string_view text) {
  Result<std::string> value = decl.type == OptionType::kStr    ? std::string(text)
                              : decl.type == OptionType::kBool ? parse_bool(text)
                                                               : parse_integer(decl, text);
  const auto& choices = decl.choices;
  const auto allowed = [&] { return std::find(choices.begin(), choices.end(), *value); };
  if (!value.ok() || choices.empty() || allowed() != choices.end()) return value;
  return fail(BP_INVALID_ARGUMENT, "expected one of {}, found '{}'", fmt::join(choices, ", "),
              text);
}

Result<std::vector<OptionSetting>> check_options(const Manifest& manifest, OptionScope scope,
                                                 const std::vector<OptionSetting>& settings) {
  std::vector<OptionSetting> checked;
  for (const OptionSetting& setting : settings) {
    Result<std::string> value = check_option(manifest, scope, setting);
    if (!value.ok()) return setting.blame(value.status());
    std::erase_if(checked, [&](const auto& other) { return other.name == setting.name; });
    checked.push_back({setting.name, std::move(value).value()});
  }
  return checked;
}

Status choose_options(Attempt* attempt) {
  LoadedPlugin::Parts& parts = attempt->parts;
  const std::string prefix = parts.manifest.id + ".";
  std::vector<OptionSetting> of_instance;
  std::vector<OptionSetting> of_devices;
  for (const OptionSetting& given : attempt->options.plugin_options) {
    if (!given.name.starts_with(prefix)) continue;
    const OptionSetting setting{given.name.substr(prefix.size()), given.value, given.source};
    const OptionDecl* decl = find_option(parts.manifest, setting.name);
    const bool is_device = decl != nullptr && decl->scope == OptionScope::kDevice;
    (is_device ? of_devices : of_instance).push_back(setting);
  }
  BP_TRY_ASSIGN(parts.instance_options,
                check_options(parts.manifest, OptionScope::kInstance, of_instance));
  BP_TRY_ASSIGN(parts.device_options,
                check_options(parts.manifest, OptionScope::kDevice, of_devices));
  return {};
}

OptionArrays::OptionArrays(const std::vector<OptionSetting>& settings) {
  for (const OptionSetting& setting : settings) {
    names.push_back({setting.name.data(), setting.name.size()});
    values.push_back({setting.value.data(), setting.value.size()});
  }
}

}  // namespace bp
