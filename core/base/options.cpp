// SPDX-License-Identifier: Apache-2.0
//
// The table itself, and the checks on what the environment says.
#include "core/base/options.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <climits>

#include "core/base/log.hpp"
#include "core/base/quoted.hpp"

extern char** environ;

namespace bp {
namespace {

constexpr std::string_view kPrefix = "BACKPLANE_";

constexpr std::array<OptionRow, 30> kRows = {{
    {"BACKPLANE_CCL_ALGORITHM", "list", "", "",
     "algorithms of collectives: KIND:NAME,...; empty: the fastest"},
    {"BACKPLANE_CCL_CHECK", "bool", "0", "",
     "1: ranks compare their calls before native collectives begin"},
    {"BACKPLANE_CCL_CHUNK", "number", "4194304", "",
     "bytes of a tensor that are staged at once; 0: all of them"},
    {"BACKPLANE_CCL_DEVICE", "text", "", "", "the device of this rank, for a program that asks"},
    {"BACKPLANE_CCL_ENGINE", "name", "auto", "",
     "carries messages between ranks: auto, loop (in one process) or ucx"},
    {"BACKPLANE_CCL_INTERFACE", "name", "", "",
     "interface between hosts, such as eth0; empty: one host only"},
    {"BACKPLANE_CCL_JOB", "text", "", "", "the name of the job; the same on all ranks"},
    {"BACKPLANE_CCL_LOCAL_COUNT", "number", "", "", "ranks of the job on this host"},
    {"BACKPLANE_CCL_LOCAL_RANK", "number", "", "", "which of them this process is, from 0"},
    {"BACKPLANE_CCL_NODE_RANK", "number", "", "", "which of the job's hosts this is, from 0"},
    {"BACKPLANE_CCL_RANK", "number", "", "", "which rank of its job this process is, from 0"},
    {"BACKPLANE_CCL_RANK_COUNT", "number", "", "", "ranks of the job"},
    {"BACKPLANE_CCL_RESTART", "number", "", "", "how often the job was started anew"},
    {"BACKPLANE_CCL_STATUS", "path", "", "",
     "socket, or folder for it, that tells where groups are"},
    {"BACKPLANE_CCL_STORE", "text", "", "",
     "where the job's ranks meet: tcp://ADDRESS:PORT or file:PATH"},
    {"BACKPLANE_CCL_TIMEOUT", "seconds", "", "",
     "longest wait for other ranks; empty: BACKPLANE_TIMEOUT less 2 s"},
    {"BACKPLANE_CCL_TOKEN", "secret", "", "", "the job's token itself; a file is better"},
    {"BACKPLANE_CCL_TOKEN_FILE", "path", "", "", "file with the job's token, mode 0600"},
    {"BACKPLANE_CCL_TRACE", "path", "", "",
     "folder for the records of groups that fail; empty: none"},
    {"BACKPLANE_CHECK_ARITHMETIC", "bool", "0", "",
     "1: a plugin call that changes its thread's arithmetic is an error"},
    {"BACKPLANE_CONFIG", "path", "", "", "JSON file with plugin options and device aliases"},
    {"BACKPLANE_FALLBACK", "choice", "warn", "allow|warn|deny",
     "what to do when a device has no kernel for an operator"},
    {"BACKPLANE_HOST_OPS", "list", "", "", "operators that always run on the host device"},
    {"BACKPLANE_LOG", "choice", "warning", "error|warning|info|debug", "how much is logged"},
    {"BACKPLANE_PLUGIN_OPTIONS", "list", "", "", "plugin options: ID.NAME=VALUE,..."},
    {"BACKPLANE_PLUGIN_PATH", "paths", "", "",
     "folders searched for plugins before the installed ones"},
    {"BACKPLANE_PLUGINS", "list", "", "", "the plugins that are loaded, by id; empty: all"},
    {"BACKPLANE_SYNC", "bool", "0", "", "1: wait after every launch"},
    {"BACKPLANE_TIMEOUT", "seconds", "300", "", "the longest that any wait of the core may take"},
    {"BACKPLANE_WORKERS", "count", "2", "", "asynchronous runs at once"},
}};

size_t row_index(std::string_view name) {
  const auto row =
      std::find_if(kRows.begin(), kRows.end(), [&](const OptionRow& r) { return r.name == name; });
  return static_cast<size_t>(row - kRows.begin());
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

Status check_value(const OptionRow& row, std::string_view value) {
  const auto refuse = [&](const std::string& expected) {
    return Status(BP_INVALID_ARGUMENT,
                  std::string(row.name) + ": expected " + expected + ", found " + quoted(value));
  };
  if (row.type == "choice") {
    const auto choices = split(row.choices, '|');
    if (std::find(choices.begin(), choices.end(), value) == choices.end()) {
      return refuse("one of " + std::string(row.choices));
    }
  } else if (row.type == "bool" && value != "0" && value != "1") {
    return refuse("0 or 1");
  } else if (row.type == "seconds" || row.type == "count" || row.type == "number") {
    int number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    const bool whole = error == std::errc() && end == value.data() + value.size();
    if (row.type == "seconds" && (!whole || number < 1)) {
      return refuse("a whole number of seconds from 1 to " + std::to_string(INT_MAX));
    }
    if (row.type == "count" && (!whole || number < 1 || number > 1024)) {
      return refuse("a whole number from 1 to 1024");
    }
    if (row.type == "number" && (!whole || number < 0)) {
      return refuse("a whole number from 0 to " + std::to_string(INT_MAX));
    }
  }
  return {};
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

/// " (did you mean BACKPLANE_LOG?)", or nothing.
std::string nearest_option(std::string_view name) {
  std::vector<std::string> names;
  for (const OptionRow& row : kRows) names.emplace_back(row.name);
  const auto near = nearest_match(name, names);
  return near ? " (did you mean " + *near + "?)" : "";
}

void warn_unknown(std::string_view name) {
  log(BP_LOG_WARNING, "environment variable " + foreign_text(name) + " is not an option; ignored" +
                          nearest_option(name));
}

}  // namespace

std::span<const OptionRow> option_rows() { return kRows; }

Result<Options> Options::from_environment(bool privileged) {
  Options options;
  for (const OptionRow& row : kRows) options.values_.emplace_back(row.default_value);
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!text.starts_with(kPrefix)) continue;
    if (privileged) {
      log(BP_LOG_WARNING,
          "BACKPLANE_* environment variables are ignored: the process runs with "
          "raised privileges");
      break;
    }
    const size_t equals = std::min(text.find('='), text.size());
    const std::string_view name = text.substr(0, equals);
    if (row_index(name) == kRows.size()) {
      warn_unknown(name);
      continue;
    }
    BP_TRY(options.set(name, text.substr(std::min(equals + 1, text.size()))));
  }
  return options;
}

const std::string& Options::text(std::string_view name) const {
  assert(row_index(name) < kRows.size());
  return values_[row_index(name)];
}

std::vector<std::string> Options::parts(std::string_view name) const {
  return split(text(name), kRows[row_index(name)].type == "paths" ? ':' : ',');
}

Status Options::set(std::string_view name, std::string_view value) {
  const size_t index = row_index(name);
  if (index == kRows.size()) {
    return Status(BP_INVALID_ARGUMENT,
                  "unknown option " + foreign_text(name) + nearest_option(name));
  }
  BP_TRY(check_value(kRows[index], value));
  if (kRows[index].type != "secret") values_[index] = value;  // who needs it reads the environment
  return {};
}

Status check_option(std::string_view name, std::string_view value) {
  assert(row_index(name) < kRows.size());
  return check_value(kRows[row_index(name)], value);
}

std::optional<std::string> nearest_match(std::string_view word,
                                         std::span<const std::string> candidates) {
  constexpr size_t kMaxBytes = 256;
  constexpr size_t kMaxCells = size_t{1} << 26;  // of all tables together: a part of a second
  std::optional<std::string> best;
  if (word.size() > kMaxBytes) return best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  size_t cells = 0;
  for (const std::string& candidate : candidates) {
    const size_t size = candidate.size();
    const size_t longer = std::max(size, word.size()) - std::min(size, word.size());
    if (size > kMaxBytes || longer >= best_distance) continue;
    cells += size * word.size();
    if (cells > kMaxCells) break;
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string with_nearest(std::string words, std::string_view word,
                         std::span<const std::string> candidates) {
  if (const auto near = nearest_match(word, candidates)) {
    return words + "; did you mean " + *near + "?";
  }
  words += "; there is";
  for (const std::string& candidate : candidates) words += " " + candidate;
  return words;
}

}  // namespace bp
