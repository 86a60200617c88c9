// SPDX-License-Identifier: Apache-2.0
//
// Sorts dumps into groups, asks each group, then all together.
#include "ccl/watch/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "ccl/watch/group_trace.hpp"
#include "ccl/watch/words.hpp"
#include "core/base/folder.hpp"
#include "core/base/foreign_text.hpp"

namespace bp::ccl {
namespace {

using Groups = std::map<std::pair<std::string, uint64_t>, GroupDumps>;

/// Errors: see trace_dumps().
Status check_together(const GroupDumps& dumps) {
  const RankDump& first = *dumps.front();
  const std::string group = group_words(first.group.name, first.group.epoch);
  const auto refuse = [&](const RankDump& a, const RankDump& b, const std::string& words) {
    return Status(BP_INVALID_ARGUMENT,
                  fmt::format("{} and {} {}", foreign_text(a.path), foreign_text(b.path), words));
  };
  for (size_t i = 1; i < dumps.size(); ++i) {
    const RankDump& dump = *dumps[i];
    if (dump.group.id != first.group.id) {  // which each time that ranks join is another
      const bool is_first = first.dumped_ns <= dump.dumped_ns;
      return refuse(is_first ? first : dump, is_first ? dump : first,
                    fmt::format("are of different runs of group {}, the first one of the earlier: "
                                "remove what that run left, and give each run a folder of its own",
                                group));
    }
    if (dump.group.place.rank == dumps[i - 1]->group.place.rank) {
      return refuse(*dumps[i - 1], dump,
                    fmt::format("are both of rank {} of group {}", dump.group.place.rank, group));
    }
    if (dump.group.place.rank_count != first.group.place.rank_count) {
      return refuse(first, dump,
                    fmt::format("disagree about group {}: {} ranks and {}", group,
                                first.group.place.rank_count, dump.group.place.rank_count));
    }
    if (dump.group.job_ranks != first.group.job_ranks) {
      return refuse(first, dump,
                    fmt::format("disagree about which ranks of the job group {} has", group));
    }
  }
  return {};
}

void find_missing_dumps(const GroupDumps& dumps, GroupFindings* out) {
  const uint32_t rank_count = dumps.front()->group.place.rank_count;
  if (dumps.size() == rank_count) return;
  std::vector<uint32_t> missing;
  auto next = dumps.begin();
  for (uint32_t rank = 0; rank < rank_count; ++rank) {
    if (next != dumps.end() && (*next)->group.place.rank == rank) {
      ++next;
    } else {
      missing.push_back(rank);
    }
  }
  const std::string who =
      missing.size() == 1 ? rank_words(dumps.front()->group, missing[0]) : ranks_words(missing);
  std::string words = fmt::format("{} gave no dump, {} of {} did", who, dumps.size(), rank_count);
  out->add(FindingKind::kNoDump, 0, std::move(missing), std::move(words));
}

/// What the groups themselves ended with, once for the ranks that say the same.
void find_reported(const GroupDumps& dumps, GroupFindings* out) {
  std::map<std::tuple<bp_status, std::string, std::vector<uint32_t>>, std::vector<uint32_t>> told;
  for (const RankDump* dump : dumps) {
    const GroupError& error = dump->group.error;
    if (error.code == BP_OK) continue;
    told[{error.code, error.words, error.culprits}].push_back(dump->group.place.rank);
  }
  for (const auto& [what, ranks] : told) {
    const auto& [code, error_words, culprits] = what;
    std::string words =
        fmt::format("{} {} {}: {}", ranks_words(ranks), ranks.size() == 1 ? "reports" : "report",
                    status_name(code), foreign_text(error_words));
    if (!culprits.empty()) words += fmt::format(" (by {})", ranks_words(culprits));
    out->add(FindingKind::kReported, 0, ranks, std::move(words));
  }
}

void say_that_all_is_well(const GroupDumps& dumps, GroupFindings* out) {
  const uint64_t last = dumps.front()->last.entered;  // the same for all
  std::vector<uint32_t> ranks;
  for (const RankDump* dump : dumps) ranks.push_back(dump->group.place.rank);
  out->add(
      FindingKind::kWell, last, std::move(ranks),
      last == 0 ? "no rank entered a collective" : fmt::format("all ranks completed seq {}", last));
}

void add_rows(const GroupDumps& dumps, std::vector<RankRow>* out_rows) {
  const uint64_t common = last_in_common(dumps);
  std::vector<int64_t> entered_ns;  // 0: not known
  for (const RankDump* dump : dumps) {
    const auto found =
        std::find_if(dump->records.begin(), dump->records.end(), [common](const Record& record) {
          return !record.entry.is_of_two() && record.entry.sequence == common;
        });
    entered_ns.push_back(found == dump->records.end() ? 0 : found->created_ns);
  }
  const int64_t first_ns = *std::min_element(entered_ns.begin(), entered_ns.end());
  for (size_t i = 0; i < dumps.size(); ++i) {
    const RankDump& dump = *dumps[i];
    const uint32_t rank = dump.group.place.rank;
    RankRow row = {dump.group.name,           dump.group.epoch,    rank,
                   dump.group.job_rank(rank), dump.host,           dump.process_id,
                   dump.last.entered,         dump.last.completed, std::nullopt};
    if (common != 0) row.lag_ms = static_cast<double>(entered_ns[i] - first_ns) / 1e6;
    out_rows->push_back(std::move(row));
  }
}

Groups groups_of(const std::vector<RankDump>& dumps) {
  Groups groups;
  for (const RankDump& dump : dumps) groups[{dump.group.name, dump.group.epoch}].push_back(&dump);
  for (auto& [key, group] : groups) {
    std::stable_sort(group.begin(), group.end(), [](const RankDump* a, const RankDump* b) {
      return a->group.place.rank < b->group.place.rank;
    });
  }
  return groups;
}

/// Which processes dumps are of, and from when to when these are known to have been in the groups.
struct Presence {
  std::set<std::pair<std::string, uint64_t>> processes;  // host and number
  int64_t begin_ns = INT64_MAX;
  int64_t end_ns = 0;

  explicit Presence(const GroupDumps& dumps) {
    for (const RankDump* dump : dumps) {
      processes.emplace(dump->host, dump->process_id);
      end_ns = std::max(end_ns, dump->dumped_ns);
      begin_ns = std::min(begin_ns, dump->dumped_ns);
      for (const Record& record : dump->records) begin_ns = std::min(begin_ns, record.created_ns);
    }
  }
  bool is_of_the_run_of(const Presence& other) const {
    if (end_ns >= other.begin_ns) return true;
    return std::any_of(processes.begin(), processes.end(),
                       [&](const auto& process) { return other.processes.contains(process); });
  }
  void merge(const Presence& other) {
    processes.insert(other.processes.begin(), other.processes.end());
    begin_ns = std::min(begin_ns, other.begin_ns);
    end_ns = std::max(end_ns, other.end_ns);
  }
};

using PresentGroups = std::vector<std::pair<Groups::const_iterator, Presence>>;

/// Moves those of the run of `job`, which becomes what is known of it, to the end of the others.
PresentGroups::iterator part_by_run(PresentGroups* groups, Presence* job) {
  auto end = groups->end();
  for (;;) {
    const auto is_other = [&](const auto& each) { return !each.second.is_of_the_run_of(*job); };
    const auto found = std::partition(groups->begin(), end, is_other);
    if (found == end) return end;
    for (auto each = found; each != end; ++each) job->merge(each->second);
    end = found;  // some of the rest may be of the same run as these
  }
}

/// Takes out groups that an earlier run left: what they waited for is nothing that others now do.
void leave_out_other_runs(Groups* groups, Trace* out) {
  PresentGroups present;
  for (auto each = groups->cbegin(); each != groups->cend(); ++each) {
    present.emplace_back(each, Presence(each->second));
  }
  const auto latest = std::max_element(
      present.begin(), present.end(),
      [](const auto& a, const auto& b) { return a.second.end_ns < b.second.end_ns; });
  if (latest == present.end()) return;
  const auto& [job_name, job_epoch] = latest->first->first;
  const std::string job_group = group_words(job_name, job_epoch);
  Presence job = latest->second;
  const auto end = part_by_run(&present, &job);
  for (auto each = present.begin(); each != end; ++each) {
    const auto& [key, dumps] = *each->first;
    std::vector<uint32_t> ranks;
    for (const RankDump* dump : dumps) ranks.push_back(dump->group.place.rank);
    const int64_t gap_ns = job.begin_ns - each->second.end_ns;
    std::string words = fmt::format(
        "of an earlier run, and left out: it was over {:.1f} s before what is known of group {} "
        "began, in other processes ({}); remove what that run left, and give each run a folder of "
        "its own",
        static_cast<double>(gap_ns) / 1e9, job_group, foreign_text(dumps.front()->path));
    out->findings.push_back(
        {FindingKind::kOtherRun, key.first, key.second, 0, std::move(ranks), std::move(words)});
    groups->erase(each->first);
  }
}

Status read_folder(const std::string& path, std::vector<std::string>* out_paths) {
  BP_TRY_ASSIGN(const std::vector<std::string> names, names_in_folder(path));
  const size_t before = out_paths->size();
  for (const std::string& name : names) {
    // A dump that is being written begins with a dot.
    if (name.ends_with(".json") && !name.starts_with('.')) out_paths->push_back(path + "/" + name);
  }
  if (out_paths->size() > before) return {};
  return {BP_UNAVAILABLE, foreign_text(path) + ": there is no dump (*.json) in the folder"};
}

}  // namespace

std::string_view finding_name(FindingKind kind) {
  static constexpr std::array<std::string_view, kFindingKindCount> kNames = {
      "mismatch", "cycle",    "never_entered", "no_dump", "not_completed", "failed",
      "overdue",  "reported", "other_run",     "running", "well"};
  return kNames[static_cast<uint32_t>(kind)];
}

Result<Trace> trace_dumps(const std::vector<RankDump>& dumps) {
  Trace trace;
  std::vector<Wait> waits;
  Groups groups = groups_of(dumps);
  for (const auto& [key, group] : groups) BP_TRY(check_together(group));
  leave_out_other_runs(&groups, &trace);
  for (const auto& [key, group] : groups) {
    GroupFindings found = {key.first, key.second, {}, {}};
    find_missing_dumps(group, &found);
    find_in_collectives(group, &found);
    find_in_pairs(group, &found);
    find_reported(group, &found);
    if (found.findings.empty()) say_that_all_is_well(group, &found);
    trace.findings.insert(trace.findings.end(), found.findings.begin(), found.findings.end());
    waits.insert(waits.end(), found.waits.begin(), found.waits.end());
    add_rows(group, &trace.rows);
  }
  const std::vector<Finding> cycles = find_cycles(waits);
  trace.findings.insert(trace.findings.end(), cycles.begin(), cycles.end());
  std::stable_sort(trace.findings.begin(), trace.findings.end(),
                   [](const Finding& a, const Finding& b) { return a.kind < b.kind; });
  return trace;
}

Result<std::vector<RankDump>> read_dumps(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored)) {
      BP_TRY(read_folder(path, &files));
    } else {
      files.push_back(path);
    }
  }
  std::vector<RankDump> dumps;
  for (const std::string& file : files) {
    BP_TRY_ASSIGN(RankDump dump, read_dump(file));
    dumps.push_back(std::move(dump));
  }
  return dumps;
}

}  // namespace bp::ccl
