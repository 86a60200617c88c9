// SPDX-License-Identifier: Apache-2.0
//
// From JSON that may be anybody's to a dump. What a dump says twice, in our terms and in those of
// other tools, has to be the same.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <stdexcept>

#include "ccl/watch/dump.hpp"
#include "ccl/watch/recorder.hpp"
#include "core/base/dtype.hpp"
#include "core/base/foreign_text.hpp"
#include "core/base/json.hpp"

namespace bp::ccl {
namespace {

constexpr uint64_t kMostRanks = 65'536;
constexpr size_t kMostNameBytes = 4096;

/// The fields of one object. What is wrong throws std::runtime_error with the field's place.
class Fields {
 public:
  Fields(const JsonValue& object, std::string place) : object_(object), place_(std::move(place)) {}

  const JsonValue& at(std::string_view name) const { return object_.at(name); }
  const JsonValue* find(std::string_view name) const { return object_.find(name); }
  const std::string& string(std::string_view name) const { return at(name).string(); }

  uint64_t whole(std::string_view name, uint64_t most = UINT64_MAX) const {
    const JsonValue& value = at(name);
    const auto number = whole_of(value);
    if (!number || *number > most) {
      refuse(name, fmt::format("a whole number from 0 to {}", most), value.quoted());
    }
    return *number;
  }
  int64_t time(std::string_view name) const { return static_cast<int64_t>(whole(name, INT64_MAX)); }
  bool flag(std::string_view name) const {
    const JsonValue& value = at(name);
    if (value.kind() != JsonValue::Kind::kBool) refuse(name, "true or false", value.quoted());
    return value.text() == "true";
  }
  std::vector<uint32_t> ranks(std::string_view name) const {
    std::vector<uint32_t> ranks;
    for (const JsonValue& value : array(name)) {
      const auto rank = whole_of(value);
      if (!rank || *rank >= kMostRanks) refuse(name, "ranks", value.quoted());
      ranks.push_back(static_cast<uint32_t>(*rank));
    }
    return ranks;
  }
  const std::vector<JsonValue>& array(std::string_view name) const {
    const JsonValue& value = at(name);
    if (value.kind() != JsonValue::Kind::kArray) refuse(name, "an array", value.quoted());
    return value.values();
  }
  Fields object(std::string_view name) const {
    return {at(name), fmt::format("{}/{}", place_, foreign_name(name))};
  }

  /// One of `count` names, by its number.
  template <class NameOf>
  uint32_t choice(std::string_view name, uint32_t count, NameOf name_of) const {
    const std::string& text = string(name);
    for (uint32_t i = 0; i < count; ++i) {
      if (name_of(i) == text) return i;
    }
    refuse(name, fmt::format("a name such as \"{}\"", name_of(0)), json_quoted(text));
  }

  /// Where the dump says once more what is known already.
  void expect(std::string_view name, std::string_view expected) const {
    const JsonValue& value = at(name);
    if (value.text() != expected) refuse(name, json_quoted(expected), value.quoted());
  }
  void expect(std::string_view name, uint64_t expected) const {
    const uint64_t found = whole(name);
    if (found != expected) refuse(name, std::to_string(expected), std::to_string(found));
  }
  void expect_flag(std::string_view name, bool expected) const {
    if (flag(name) != expected) refuse(name, expected ? "true" : "false", at(name).quoted());
  }
  /// [a, b].
  void expect_texts(std::string_view name, const std::vector<std::string_view>& expected) const {
    const bool is_equal = std::equal(
        expected.begin(), expected.end(), array(name).begin(), array(name).end(),
        [](std::string_view text, const JsonValue& value) { return value.text() == text; });
    if (!is_equal) refuse(name, fmt::format("[{}]", fmt::join(expected, ", ")), "others");
  }
  /// [[count]]: one tensor of one dimension.
  void expect_count(std::string_view name, uint64_t expected) const {
    const std::vector<JsonValue>& outer = array(name);
    const bool is_one = outer.size() == 1 && outer[0].values().size() == 1;
    if (!is_one || outer[0].values()[0].text() != std::to_string(expected)) {
      refuse(name, fmt::format("[[{}]]", expected), "another");
    }
  }

  [[noreturn]] void refuse(std::string_view name, std::string_view expected,
                           std::string_view found) const {
    throw std::runtime_error(
        fmt::format("{}/{}: expected {}, found {}", place_, foreign_name(name), expected, found));
  }

 private:
  static std::string foreign_name(std::string_view name) {
    const std::string text = json_quoted(name);
    return text.substr(1, text.size() - 2);
  }
  static std::optional<uint64_t> whole_of(const JsonValue& value) {
    if (value.kind() != JsonValue::Kind::kInteger) return std::nullopt;
    const std::string& text = value.text();
    uint64_t number = 0;
    const auto end = text.data() + text.size();
    const auto result = std::from_chars(text.data(), end, number);
    if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
    return number;
  }

  const JsonValue& object_;
  std::string place_;
};

bp_status read_code(const Fields& fields, std::string_view name) {
  return static_cast<bp_status>(fields.choice(
      name, BP_INTERNAL + 1, [](uint32_t i) { return status_name(static_cast<bp_status>(i)); }));
}

GroupError read_error(const Fields& fields, uint32_t rank_count) {
  GroupError error;
  error.code = read_code(fields, "code");
  error.words = fields.string("words");
  error.culprits = fields.ranks("culprits");
  for (const uint32_t culprit : error.culprits) {
    if (culprit < rank_count) continue;
    fields.refuse("culprits", fmt::format("ranks below {}", rank_count), std::to_string(culprit));
  }
  return error;
}

void check_job_ranks(const Fields& fields, const GroupInfo& group) {
  if (group.job_ranks.empty()) return;
  const std::set<uint32_t> others(group.job_ranks.begin(), group.job_ranks.end());
  if (group.job_ranks.size() == group.place.rank_count && others.size() == group.place.rank_count) {
    return;
  }
  fields.refuse("job_ranks", fmt::format("none, or {} different ranks", group.place.rank_count),
                fmt::format("{}, {} of them different", group.job_ranks.size(), others.size()));
}

GroupInfo read_group(const Fields& fields) {
  GroupInfo group;
  group.name = fields.string("group");
  if (group.name.size() > kMostNameBytes) {
    fields.refuse("group", fmt::format("at most {} bytes", kMostNameBytes),
                  std::to_string(group.name.size()));
  }
  group.id = fields.whole("group_id");
  group.epoch = fields.whole("epoch");
  group.place.rank_count = static_cast<uint32_t>(fields.whole("rank_count", kMostRanks));
  if (group.place.rank_count == 0) fields.refuse("rank_count", "at least 1", "0");
  group.place.rank = static_cast<uint32_t>(fields.whole("rank", group.place.rank_count - 1));
  group.job_ranks = fields.ranks("job_ranks");
  check_job_ranks(fields, group);
  group.error = read_error(fields.object("error"), group.place.rank_count);
  const Fields config = fields.object("pg_config").object(group.name);
  config.expect("name", group.name);
  config.expect("desc", their_description(group));
  config.expect("ranks", their_ranks(group));
  return group;
}

LastSequences read_last(const Fields& fields, uint64_t group_id) {
  const Fields status = fields.object("pg_status").object(std::to_string(group_id));
  LastSequences last;
  last.entered = status.whole("last_enqueued_collective");
  last.started = status.whole("last_started_collective", last.entered);
  last.completed = status.whole("last_completed_collective", last.entered);
  return last;
}

Operation read_operation(const Fields& fields, RankPlace place) {
  Operation operation;
  operation.kind = static_cast<Kind>(fields.choice(
      "kind", kKindCount, [](uint32_t i) { return kind_info(static_cast<Kind>(i)).name; }));
  uint32_t dtype_count = 1;  // "none"
  while (is_dtype(dtype_count)) ++dtype_count;
  operation.dtype = fields.choice("dtype", dtype_count, record_dtype_name);
  operation.reduction =
      static_cast<Reduction>(fields.choice("reduction", kReductionCount, [](uint32_t i) {
        return reduction_name(static_cast<Reduction>(i));
      }));
  operation.root = static_cast<uint32_t>(fields.whole("root", kMostRanks));
  operation.count = fields.whole("count");
  operation.is_deterministic = fields.flag("deterministic");
  if (fields.find("blocks") != nullptr) operation.blocks = fields.whole("blocks");
  const Status status = check_operation(operation, place);
  if (!status.ok()) fields.refuse("kind", "an operation that can be", status.message());
  return operation;
}

/// The times that a record of a state has, and none else.
void check_times(const Fields& fields, const Record& record) {
  const auto expect_time = [&](const char* name, int64_t found, bool expected) {
    if ((found != 0) == expected) return;
    fields.refuse(name, expected ? "a time" : "0", std::to_string(found));
  };
  const bool is_scheduled = record.state == RecordState::kScheduled;
  const bool is_started = record.state == RecordState::kStarted;
  expect_time("time_created_ns", record.created_ns, true);
  if (is_scheduled || is_started) {
    expect_time("time_discovered_started_ns", record.started_ns, is_started);
  }
  expect_time("time_discovered_completed_ns", record.completed_ns, !is_scheduled && !is_started);
  const JsonValue* const duration = fields.find("duration_ms");
  if (duration == nullptr) return;
  if (duration->kind() == JsonValue::Kind::kNumber && record.started_ns != 0) return;
  fields.refuse("duration_ms", "a number, of what has started", duration->quoted());
}

/// What the dump says of the record in their terms.
void check_their_words(const Fields& fields, const Record& record, const GroupInfo& group) {
  const RecordEntry& entry = record.entry;
  const TheirWords theirs = their_words(entry, group.place);
  const std::string_view dtype = record_dtype_name(entry.operation.dtype);
  fields.expect("profiling_name", theirs.profiling_name);
  fields.expect("pg_id", group.id);
  fields.expect("op_id", record.id);
  fields.expect_texts("process_group", {group.name, their_description(group)});
  fields.expect_count("input_sizes", theirs.input_count);
  fields.expect_count("output_sizes", theirs.output_count);
  fields.expect_texts("input_dtypes", {dtype});
  fields.expect_texts("output_dtypes", {dtype});
  fields.expect("timeout_ms", theirs.timeout_ms);
  fields.expect_flag("is_p2p", entry.is_of_two());
  fields.expect(entry.is_of_two() ? "collective_seq_id" : "p2p_seq_id", uint64_t{0});
  fields.expect_flag("retired", record.completed_ns != 0);
}

Record read_record(const Fields& fields, const GroupInfo& group) {
  Record record;
  RecordEntry& entry = record.entry;
  record.id = fields.whole("record_id");
  entry.operation = read_operation(fields, group.place);
  const char* const sequence_name = entry.is_of_two() ? "p2p_seq_id" : "collective_seq_id";
  entry.sequence = fields.whole(sequence_name);
  if (entry.sequence == 0) fields.refuse(sequence_name, "at least 1", "0");
  entry.send_bytes = fields.whole("send_bytes");
  entry.recv_bytes = fields.whole("recv_bytes");
  entry.timeout_ns = fields.whole("timeout_ns");
  entry.path =
      static_cast<OperationPath>(fields.choice("path", kOperationPathCount, [](uint32_t i) {
        return path_name(static_cast<OperationPath>(i));
      }));
  record.state = static_cast<RecordState>(fields.choice("state", kRecordStateCount, [](uint32_t i) {
    return state_name(static_cast<RecordState>(i));
  }));
  record.error = read_code(fields, "error");
  if ((record.error != BP_OK) != (record.state == RecordState::kFailed)) {
    fields.refuse("error", "a failure where the state is failed, else OK",
                  status_name(record.error));
  }
  record.created_ns = fields.time("time_created_ns");
  record.started_ns = fields.time("time_discovered_started_ns");
  record.completed_ns = fields.time("time_discovered_completed_ns");
  check_times(fields, record);
  check_their_words(fields, record, group);
  return record;
}

/// In the order of the calls, and none that the group has not come to. A number may be there twice:
/// it is given again where a call fails.
void check_order(const RankDump& dump) {
  for (size_t i = 0; i < dump.records.size(); ++i) {
    const Record& record = dump.records[i];
    if (i > 0 && record.id <= dump.records[i - 1].id) {
      throw std::runtime_error(fmt::format("/entries/{}/record_id: expected above {}, found {}", i,
                                           dump.records[i - 1].id, record.id));
    }
    if (!record.entry.is_of_two() && record.entry.sequence > dump.last.entered) {
      throw std::runtime_error(fmt::format(
          "/entries/{}/collective_seq_id: expected at most last_enqueued_collective, {}, found {}",
          i, dump.last.entered, record.entry.sequence));
    }
  }
}

RankDump read_all(const JsonValue& root) {
  const Fields fields(root, "");
  fields.expect("format", kDumpFormat);
  fields.expect("version", kTheirVersion);
  RankDump dump;
  dump.group = read_group(fields);
  dump.last = read_last(fields, dump.group.id);
  dump.host = fields.string("host");
  dump.process_id = fields.whole("process_id");
  dump.dumped_ns = fields.time("time_dumped_ns");
  const std::vector<JsonValue>& entries = fields.array("entries");
  if (entries.size() > Recorder::kCapacity) {
    fields.refuse("entries", fmt::format("at most {}", Recorder::kCapacity),
                  std::to_string(entries.size()));
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    const Fields entry(entries[i], fmt::format("/entries/{}", i));
    dump.records.push_back(read_record(entry, dump.group));
  }
  check_order(dump);
  return dump;
}

}  // namespace

Result<RankDump> parse_dump(std::string_view text, const std::string& path) {
  // Each value costs a hundred times its byte, so a file of nothing but values is none of ours.
  constexpr std::ptrdiff_t kMostValues = 500'000;
  return contain([&]() -> Result<RankDump> {
    const auto refuse = [&](std::string_view words) {
      return Status(BP_INVALID_ARGUMENT, fmt::format("{}: {}", foreign_text(path), words));
    };
    if (std::count(text.begin(), text.end(), ',') > kMostValues) {
      return refuse(fmt::format("more than {} values, which no dump has", kMostValues));
    }
    try {
      RankDump dump = read_all(parse_json(text, kMostDumpBytes));
      dump.path = path;
      return dump;
    } catch (const std::runtime_error& error) {
      return refuse(error.what());
    }
  });
}

}  // namespace bp::ccl
