// SPDX-License-Identifier: Apache-2.0
//
// From a dump to its JSON. Written field by field: a dump is made when something has gone wrong,
// and the library's own tree ends the process where memory runs out.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>

#include "ccl/watch/dump.hpp"
#include "core/base/dtype.hpp"

namespace bp::ccl {
namespace {

using Sink = std::back_insert_iterator<std::string>;

/// In quotes, whole; what is no UTF-8 becomes U+FFFD.
std::string quoted_json(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// What their call has as its tensor: at ranks other than the root too, but for blocks.
uint64_t their_count(Extent extent, uint64_t own_count, const Operation& operation) {
  return extent == Extent::kCountAtRoot ? operation.count : own_count;
}

void write_record(const Record& record, const RankDump& dump, const std::string& process_group,
                  Sink sink) {
  const RecordEntry& entry = record.entry;
  const Operation& operation = entry.operation;
  const TheirWords theirs = their_words(entry, dump.group.place);
  const bool is_of_two = entry.is_of_two();
  const bool is_over =
      record.state == RecordState::kCompleted || record.state == RecordState::kFailed;
  const std::string_view dtype = record_dtype_name(operation.dtype);
  fmt::format_to(sink, R"({{"record_id": {}, "pg_id": {}, "process_group": {}, )", record.id,
                 dump.group.id, process_group);
  fmt::format_to(sink, R"("collective_seq_id": {}, "p2p_seq_id": {}, "op_id": {}, )",
                 is_of_two ? 0 : entry.sequence, is_of_two ? entry.sequence : 0, record.id);
  fmt::format_to(sink, R"("profiling_name": "{}", "time_created_ns": {}, )", theirs.profiling_name,
                 record.created_ns);
  fmt::format_to(sink, R"("time_discovered_started_ns": {}, "time_discovered_completed_ns": {}, )",
                 record.started_ns, record.completed_ns);
  if (record.started_ns != 0 && record.completed_ns != 0) {
    fmt::format_to(sink, R"("duration_ms": {:.6f}, )",
                   static_cast<double>(record.completed_ns - record.started_ns) / 1e6);
  }
  fmt::format_to(sink, R"("input_sizes": [[{}]], "input_dtypes": ["{}"], )", theirs.input_count,
                 dtype);
  fmt::format_to(sink, R"("output_sizes": [[{}]], "output_dtypes": ["{}"], )", theirs.output_count,
                 dtype);
  fmt::format_to(sink, R"("state": "{}", "retired": {}, "timeout_ms": {}, "is_p2p": {}, )",
                 state_name(record.state), is_over, theirs.timeout_ms, is_of_two);
  fmt::format_to(sink, R"("kind": "{}", "dtype": "{}", "reduction": "{}", "root": {}, )",
                 kind_info(operation.kind).name, dtype, reduction_name(operation.reduction),
                 operation.root);
  fmt::format_to(sink, R"("count": {}, "deterministic": {}, "send_bytes": {}, "recv_bytes": {}, )",
                 operation.count, operation.is_deterministic, entry.send_bytes, entry.recv_bytes);
  if (operation.blocks != 0) fmt::format_to(sink, R"("blocks": {}, )", operation.blocks);
  fmt::format_to(sink, R"("timeout_ns": {}, "path": "{}", "error": "{}"}})", entry.timeout_ns,
                 path_name(entry.path), status_name(record.error));
}

void write_group(const RankDump& dump, const std::string& name, Sink sink) {
  const GroupInfo& group = dump.group;
  fmt::format_to(sink, R"("pg_config": {{{0}: {{"name": {0}, "desc": "{1}", "ranks": "{2}"}}}},)",
                 name, their_description(group), their_ranks(group));
  fmt::format_to(sink,
                 "\n\"pg_status\": {{\"{}\": {{\"last_enqueued_collective\": {}, "
                 "\"last_started_collective\": {}, \"last_completed_collective\": {}}}}},\n",
                 group.id, dump.last.entered, dump.last.started, dump.last.completed);
  fmt::format_to(sink, R"("group": {}, "group_id": {}, "epoch": {}, "rank": {}, "rank_count": {},)",
                 name, group.id, group.epoch, group.place.rank, group.place.rank_count);
  fmt::format_to(sink, "\n\"job_ranks\": [{}],\n", fmt::join(group.job_ranks, ", "));
  fmt::format_to(sink, R"("host": {}, "process_id": {}, "time_dumped_ns": {},)",
                 quoted_json(dump.host), dump.process_id, dump.dumped_ns);
  fmt::format_to(sink, "\n\"error\": {{\"code\": \"{}\", \"words\": {}, \"culprits\": [{}]}},\n",
                 status_name(group.error.code), quoted_json(group.error.words),
                 fmt::join(group.error.culprits, ", "));
}

}  // namespace

std::string_view path_name(OperationPath path) {
  static constexpr std::string_view kNames[kOperationPathCount] = {"native", "host", "staged",
                                                                   "islands"};
  return kNames[static_cast<uint32_t>(path)];
}

std::string_view state_name(RecordState state) {
  static constexpr std::string_view kNames[kRecordStateCount] = {"scheduled", "started",
                                                                 "completed", "failed"};
  return kNames[static_cast<uint32_t>(state)];
}

std::string_view record_dtype_name(uint32_t dtype) {
  return dtype == BP_DTYPE_NONE ? "none" : dtype_name(dtype);
}

TheirWords their_words(const RecordEntry& entry, RankPlace place) {
  const Operation& operation = entry.operation;
  const KindInfo& kind = kind_info(operation.kind);
  const auto count_of = [&](Extent extent, uint64_t bytes, uint64_t equal_count) {
    // Only the bytes tell of blocks that differ in size.
    if (operation.blocks != 0) return bytes / (dtype_bits(operation.dtype) / 8);
    return their_count(extent, equal_count, operation);
  };
  // Their tools stop at any prefix that is none of their own backends; this one names no vendor.
  std::string name = "xccl:" + std::string(kind.name);
  if (kind.is_of_two) {
    name += fmt::format(" {}{}{}", place.rank, operation.kind == Kind::kSend ? "->" : "<-",
                        operation.root);
  }
  constexpr uint64_t kNsInMs = 1'000'000;
  const uint64_t rest_ms = entry.timeout_ns % kNsInMs != 0 ? 1 : 0;
  return {std::move(name), count_of(kind.send, entry.send_bytes, send_count(operation, place)),
          count_of(kind.recv, entry.recv_bytes, recv_count(operation, place)),
          entry.timeout_ns / kNsInMs + rest_ms};
}

std::string their_description(const GroupInfo& group) {
  return fmt::format("epoch {}", group.epoch);
}

std::string their_ranks(const GroupInfo& group) {
  std::vector<uint32_t> ranks = group.job_ranks;
  if (ranks.empty()) {
    ranks.resize(group.place.rank_count);
    std::iota(ranks.begin(), ranks.end(), 0u);
  }
  return fmt::format("[{}]", fmt::join(ranks, ", "));
}

std::string dump_text(const RankDump& dump) {
  constexpr size_t kBytesOfRecord = 1024;
  std::string text;
  text.reserve((dump.records.size() + 4) * kBytesOfRecord);
  const Sink sink(text);
  const std::string name = quoted_json(dump.group.name);
  fmt::format_to(sink, "{{\n\"format\": \"{}\", \"version\": \"{}\",\n", kDumpFormat,
                 kTheirVersion);
  write_group(dump, name, sink);
  text += "\"entries\": [";
  const std::string process_group =
      fmt::format(R"([{}, "{}"])", name, their_description(dump.group));
  for (size_t i = 0; i < dump.records.size(); ++i) {
    text += i == 0 ? "\n" : ",\n";
    write_record(dump.records[i], dump, process_group, sink);
  }
  return text + "\n]\n}\n";
}

}  // namespace bp::ccl
