// SPDX-License-Identifier: Apache-2.0
//
// See status.hpp. Written field by field, as dumps are.
#include "ccl/watch/status.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "ccl/watch/words.hpp"
#include "core/base/foreign_text.hpp"
#include "core/base/json.hpp"

namespace bp::ccl {
namespace {

using Sink = std::back_insert_iterator<std::string>;

constexpr size_t kMostStatusBytes = size_t{64} << 20;
constexpr double kNsInSecond = 1e9;

/// In quotes, whole; what is no UTF-8 becomes U+FFFD.
std::string quoted_json(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void write_group(const GroupStatus& group, Sink sink) {
  fmt::format_to(sink, R"({{"group": {}, "epoch": {}, "rank": {}, "rank_count": {}, )",
                 quoted_json(group.name), group.epoch, group.place.rank, group.place.rank_count);
  fmt::format_to(sink, R"("device": {}, "last_entered": {}, "last_started": {}, )",
                 quoted_json(group.device), group.last.entered, group.last.started);
  fmt::format_to(sink, R"("last_completed": {}, "operation": {}, "sequence": {}, "since_ns": {},)",
                 group.last.completed, quoted_json(group.operation), group.sequence,
                 group.since_ns);
  fmt::format_to(sink, "\n \"error\": {{\"code\": \"{}\", \"words\": {}, \"culprits\": [{}]}},",
                 status_name(group.error.code), quoted_json(group.error.words),
                 fmt::join(group.error.culprits, ", "));
  fmt::format_to(sink, "\n \"peers\": [");
  for (size_t i = 0; i < group.peers.size(); ++i) {
    const PeerStatus& peer = group.peers[i];
    fmt::format_to(sink, R"({}{{"rank": {}, "heard_ns": {}, "lost": {}}})", i == 0 ? "" : ", ",
                   peer.rank, peer.heard_ns, quoted_json(peer.lost));
  }
  fmt::format_to(sink, "]}}");
}

/// What is wrong throws std::runtime_error.
template <class Number>
Number whole(const JsonValue& object, std::string_view name) {
  const JsonValue& value = object.at(name);
  const std::string& text = value.text();
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = value.kind() == JsonValue::Kind::kInteger && error == std::errc() &&
                        end == text.data() + text.size();
  if (!is_whole || number < 0) {
    throw std::runtime_error(
        fmt::format("{}: expected a whole number, found {}", name, value.quoted()));
  }
  return number;
}

const std::vector<JsonValue>& array(const JsonValue& object, std::string_view name) {
  const JsonValue& value = object.at(name);
  if (value.kind() == JsonValue::Kind::kArray) return value.values();
  throw std::runtime_error(fmt::format("{}: expected an array, found {}", name, value.quoted()));
}

bp_status code_of(const std::string& name) {
  for (int code = 0; code <= BP_INTERNAL; ++code) {
    if (status_name(static_cast<bp_status>(code)) == name) return static_cast<bp_status>(code);
  }
  throw std::runtime_error("code: expected the name of a status, found " + json_quoted(name));
}

GroupStatus read_group(const JsonValue& object) {
  GroupStatus group;
  group.name = object.at("group").string();
  group.epoch = whole<uint64_t>(object, "epoch");
  group.place = {whole<uint32_t>(object, "rank"), whole<uint32_t>(object, "rank_count")};
  group.device = object.at("device").string();
  group.last = {whole<uint64_t>(object, "last_entered"), whole<uint64_t>(object, "last_started"),
                whole<uint64_t>(object, "last_completed")};
  group.operation = object.at("operation").string();
  group.sequence = whole<uint64_t>(object, "sequence");
  group.since_ns = whole<int64_t>(object, "since_ns");
  const JsonValue& error = object.at("error");
  group.error.code = code_of(error.at("code").string());
  group.error.words = error.at("words").string();
  for (const JsonValue& peer : array(object, "peers")) {
    group.peers.push_back({whole<uint32_t>(peer, "rank"), whole<int64_t>(peer, "heard_ns"),
                           peer.at("lost").string()});
  }
  return group;
}

std::string seconds_words(int64_t begin_ns, int64_t end_ns) {
  return fmt::format("{:.1f} s", static_cast<double>(end_ns - begin_ns) / kNsInSecond);
}

std::string peer_words(const PeerStatus& peer, int64_t now_ns) {
  if (!peer.lost.empty()) {
    return fmt::format("    rank {} is lost: {}\n", peer.rank, foreign_text(peer.lost));
  }
  if (peer.heard_ns == 0) return fmt::format("    rank {} was not heard yet\n", peer.rank);
  return fmt::format("    rank {} was heard {} ago\n", peer.rank,
                     seconds_words(peer.heard_ns, now_ns));
}

}  // namespace

std::string status_text(const ProcessStatus& status) {
  std::string text;
  const Sink sink(text);
  fmt::format_to(sink, "{{\n\"format\": \"{}\",\n", kStatusFormat);
  fmt::format_to(sink, R"("host": {}, "process_id": {}, "time_ns": {},)", quoted_json(status.host),
                 status.process_id, status.time_ns);
  text += "\n\"groups\": [";
  for (size_t i = 0; i < status.groups.size(); ++i) {
    text += i == 0 ? "\n" : ",\n";
    write_group(status.groups[i], sink);
  }
  return text + "\n]\n}\n";
}

Result<ProcessStatus> parse_status(std::string_view text, const std::string& path) {
  try {
    const JsonValue document = parse_json(text, kMostStatusBytes);
    ProcessStatus status;
    if (const std::string& format = document.at("format").string(); format != kStatusFormat) {
      throw std::runtime_error(
          fmt::format("format: expected \"{}\", found {}", kStatusFormat, json_quoted(format)));
    }
    status.host = document.at("host").string();
    status.process_id = whole<uint64_t>(document, "process_id");
    status.time_ns = whole<int64_t>(document, "time_ns");
    for (const JsonValue& group : array(document, "groups")) {
      status.groups.push_back(read_group(group));
    }
    return status;
  } catch (const std::runtime_error& error) {
    return Status(BP_INVALID_ARGUMENT,
                  fmt::format("{}: no status of a process: {}", foreign_text(path), error.what()));
  }
}

std::string status_words(const ProcessStatus& status) {
  std::string text =
      fmt::format("process {} on {}\n", status.process_id, foreign_text(status.host));
  if (status.groups.empty()) text += "  no group\n";
  for (const GroupStatus& group : status.groups) {
    text +=
        fmt::format("  group {}: rank {} of {} on {}, entered {}, completed {}\n",
                    group_words(group.name, group.epoch), group.place.rank, group.place.rank_count,
                    foreign_text(group.device), group.last.entered, group.last.completed);
    if (!group.operation.empty()) {
      text += fmt::format("    in {} as number {} for {}\n", foreign_text(group.operation),
                          group.sequence, seconds_words(group.since_ns, status.time_ns));
    }
    if (group.error.code != BP_OK) {
      text += fmt::format("    has failed: {}: {}\n", status_name(group.error.code),
                          foreign_text(group.error.words));
    }
    for (const PeerStatus& peer : group.peers) text += peer_words(peer, status.time_ns);
  }
  return text;
}

}  // namespace bp::ccl
