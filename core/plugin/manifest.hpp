// SPDX-License-Identifier: Apache-2.0
//
// The manifest beside a plugin library, `<library stem>.backplane.json`: all that the core may know
// of a plugin before any of its code runs, and the declarations that user options are checked with.
#ifndef BACKPLANE_CORE_PLUGIN_MANIFEST_HPP
#define BACKPLANE_CORE_PLUGIN_MANIFEST_HPP

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backplane/types.h"
#include "core/base/status.hpp"

namespace bp {

enum class OptionType { kI64, kBytes, kBool, kStr };
enum class OptionScope { kInstance, kDevice };

/// An option that a plugin declares. Values are in the form that the plugin gets: i64 and bytes in
/// decimal, bool as "true" or "false".
struct OptionDecl {
  std::string name;
  OptionType type = OptionType::kStr;
  OptionScope scope = OptionScope::kInstance;
  std::optional<std::string> default_value;  // none: the plugin decides
  std::string help;
  std::optional<int64_t> min;  // i64 and bytes only
  std::optional<int64_t> max;
  std::vector<std::string> choices;  // empty: any value
};

struct Manifest {
  std::string id;  // [a-z][a-z0-9_]*, at most 32 characters
  std::string version;
  std::string description;
  uint32_t abi_min = 0;  // BP_ABI_VERSION numbers
  uint32_t abi_built = 0;
  std::string sanitizer = "none";  // "none", "address" or "thread"
  std::string compiler;            // "gcc" or "clang"; may be empty without a sanitizer
  std::vector<OptionDecl> options;
  std::vector<std::string> unknown_fields;  // the first ones, to be warned about
};

/// One `key = value` as the user wrote it.
struct OptionSetting {
  std::string name;
  std::string value;
  std::string source = {};  // for people: "BACKPLANE_PLUGIN_OPTIONS"; empty: nobody knows

  /// The error of this setting says where it comes from.
  Status blame(const Status& error) const {
    return source.empty() ? error : error.with_prefix(source);
  }
};

/// Parses and checks a manifest of at most 64 KiB and 16 levels. INVALID_ARGUMENT says where, what
/// was expected and what was found; the file's name is for the caller to add.
Result<Manifest> parse_manifest(std::string_view text);
/// ... of a regular file; a device or a pipe is not opened. Errors begin with the path.
Result<Manifest> read_manifest(const std::string& path);

/// A user's text as the plugin shall get it: checked for type, range and choices. Bytes may end in
/// KiB, MiB or GiB.
Result<std::string> parse_option_value(const OptionDecl& decl, std::string_view text);

/// Checks settings against the declarations of one scope and gives them in the plugin's form; of
/// those with one name the last wins. An unknown name, or one of the other scope, is refused.
Result<std::vector<OptionSetting>> check_options(const Manifest& manifest, OptionScope scope,
                                                 const std::vector<OptionSetting>& settings);

/// The arrays that bp_config and bp_open_args want. Points into the settings.
struct OptionArrays {
  explicit OptionArrays(const std::vector<OptionSetting>& settings);
  std::vector<bp_str> names;
  std::vector<bp_str> values;
};

/// What a control call reads of options: owned by its caller, or, where the call is abandoned, by
/// nobody.
struct OwnedOptions {
  explicit OwnedOptions(std::vector<OptionSetting> given)
      : settings(std::move(given)), arrays(settings) {}
  std::vector<OptionSetting> settings;
  OptionArrays arrays;
};

}  // namespace bp

#endif
