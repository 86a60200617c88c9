// SPDX-License-Identifier: Apache-2.0
//
// The one table of BACKPLANE_* environment variables: name, type, default and a line of help. The
// environment is read once, when the first Runtime is made; an unknown BACKPLANE_* name warns.
#ifndef BACKPLANE_CORE_BASE_OPTIONS_HPP
#define BACKPLANE_CORE_BASE_OPTIONS_HPP

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.hpp"

namespace bp {

struct OptionRow {
  std::string_view name;  // "BACKPLANE_FALLBACK"
  std::string_view type;  // "choice", "bool", "list", "path", "paths", "name", "seconds", "count",
                          // "number", "text", "secret": never kept
  std::string_view default_value;
  std::string_view choices;  // for "choice": "allow|warn|deny"
  std::string_view help;
};

/// Every option there is, in order of name.
std::span<const OptionRow> option_rows();

/// The values in force: the environment's where set and valid, else the defaults.
class Options {
 public:
  /// Reads the environment. An unknown BACKPLANE_* variable is a warning, named; a bad value is an
  /// error that names the variable, what is allowed and what was found. With `privileged`, the
  /// environment is not read at all.
  static Result<Options> from_environment(bool privileged);

  /// The value of a row of option_rows(). Any other name is a bug.
  const std::string& text(std::string_view name) const;
  bool flag(std::string_view name) const { return text(name) == "1"; }
  /// Comma- (list) or colon- (paths) separated parts, empty ones left out.
  std::vector<std::string> parts(std::string_view name) const;
  /// Overrides one value (command line, application); checked like the environment.
  Status set(std::string_view name, std::string_view value);

 private:
  std::vector<std::string> values_;  // in the order of option_rows()
};

/// Whether an option may have the value: for who reads a single one, without a Runtime. Errors: as
/// Options::set().
Status check_option(std::string_view name, std::string_view value);

/// The candidate nearest to `word` by edit distance, if it is near enough to be a slip. Both may
/// come from files: names over 256 bytes, and what is too much to compare, are passed over.
std::optional<std::string> nearest_match(std::string_view word,
                                         std::span<const std::string> candidates);

/// The words of an error about `word`, with the nearest candidate, or else all that there are.
std::string with_nearest(std::string words, std::string_view word,
                         std::span<const std::string> candidates);

}  // namespace bp

#endif
