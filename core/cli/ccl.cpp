// SPDX-License-Identifier: Apache-2.0
//
// `backplane ccl`: what the ranks of process groups recorded, and where they are. It needs no
// device, and for what they recorded none of the machines that they ran on.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <string>
#include <string_view>

#include "ccl/watch/status_server.hpp"
#include "ccl/watch/trace.hpp"
#include "ccl/watch/words.hpp"
#include "core/cli/cli.hpp"
#include "core/cli/json.hpp"
#include "core/cli/text.hpp"

namespace bp::cli {
namespace {

constexpr const char* kTraceCommand = "ccl trace";
constexpr const char* kStatusCommand = "ccl status";

std::string trace_json(const ccl::Trace& trace) {
  JsonWriter json;
  json.begin_object().field("ok", trace.is_well()).key("findings").begin_array();
  for (const ccl::Finding& finding : trace.findings) {
    json.begin_object()
        .field("kind", ccl::finding_name(finding.kind))
        .field("fault", ccl::is_fault(finding.kind))
        .field("group", finding.group)
        .field("epoch", finding.epoch)
        .field("sequence", finding.sequence)
        .key("ranks")
        .begin_array();
    for (const uint32_t rank : finding.ranks) json.value(rank);
    json.end_array().field("words", finding.words).end_object();
  }
  json.end_array().key("ranks").begin_array();
  for (const ccl::RankRow& row : trace.rows) {
    json.begin_object()
        .field("group", row.group)
        .field("epoch", row.epoch)
        .field("rank", row.rank)
        .field("job_rank", row.job_rank)
        .field("host", row.host)
        .field("process_id", row.process_id)
        .field("last_entered", row.last_entered)
        .field("last_completed", row.last_completed)
        .field("lag_ms", row.lag_ms.value_or(NAN))  // null where it is not known
        .end_object();
  }
  return json.end_array().end_object().take();
}

std::string or_none(uint64_t sequence) { return sequence == 0 ? "none" : std::to_string(sequence); }

std::string trace_text(const ccl::Trace& trace) {
  std::string text;
  for (const ccl::Finding& finding : trace.findings) {
    // What is of several groups names them.
    const std::string group =
        finding.group.empty() ? "" : ccl::group_words(finding.group, finding.epoch) + ": ";
    text += visible(group + finding.words) + "\n";
  }
  Table table({"group", "rank", "last entered", "last completed", "lag", "host", "process"},
              {1, 2, 3, 4, 6});
  for (const ccl::RankRow& row : trace.rows) {
    table.add({ccl::group_words(row.group, row.epoch), std::to_string(row.rank),
               or_none(row.last_entered), or_none(row.last_completed),
               row.lag_ms ? duration_text(*row.lag_ms * 1e6) : "not known", row.host,
               std::to_string(row.process_id)});
  }
  return text + "\n" + table.to_string();
}

}  // namespace

int run_ccl_trace(const CclTraceArgs& args) {
  const auto dumps = ccl::read_dumps(args.dumps);
  if (!dumps.ok()) return fail(kTraceCommand, dumps.status().message(), kExitModel);
  const auto trace = ccl::trace_dumps(*dumps);
  if (!trace.ok()) return fail(kTraceCommand, trace.status().message(), kExitModel);
  print(args.json ? trace_json(*trace) : trace_text(*trace));
  return trace->is_well() ? kExitOk : kExitFailed;
}

int run_ccl_status(const CclStatusArgs& args) {
  const auto answers = ccl::read_status(args.path);
  if (!answers.ok()) return fail(kStatusCommand, answers.status().message(), kExitModel);
  std::string words;
  bool is_well = true;
  for (const std::string& answer : *answers) {
    const auto status = ccl::parse_status(answer, args.path);
    if (!status.ok()) return fail(kStatusCommand, status.status().message(), kExitModel);
    for (const ccl::GroupStatus& group : status->groups) is_well &= group.error.code == BP_OK;
    words += ccl::status_words(*status);
  }
  print(args.json ? fmt::format("{{\"processes\": [\n{}]}}\n", fmt::join(*answers, ",\n")) : words);
  return is_well ? kExitOk : kExitFailed;
}

}  // namespace bp::cli
