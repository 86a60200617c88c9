// SPDX-License-Identifier: Apache-2.0
//
// The sums of a few runs.
#include "core/cli/profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/cli/text.hpp"
#include "core/execute/run_control.hpp"

namespace bp::cli {
namespace {

constexpr uint64_t kRuns = 5;

struct Sum {
  uint64_t call_count = 0;
  std::chrono::nanoseconds time{};
};

}  // namespace

Result<std::vector<ProfileRow>> profile(Session& session, std::span<const NamedTensor> inputs) {
  std::map<std::string, Sum, std::less<>> sums;
  RunControl control;
  std::chrono::nanoseconds of_steps{};
  control.on_step = [&](std::string_view kernel, std::chrono::nanoseconds time) {
    Sum& sum = sums[std::string(kernel.empty() ? "copy" : kernel)];
    ++sum.call_count;
    sum.time += time;
    of_steps += time;
  };
  const auto begin = RunControl::Clock::now();
  for (uint64_t i = 0; i < kRuns; ++i) {
    BP_TRY_ASSIGN(const auto outputs, session.run(inputs, {.control = &control}));
  }
  const auto all = RunControl::Clock::now() - begin;
  sums["between steps"] = {kRuns,
                           std::chrono::duration_cast<std::chrono::nanoseconds>(all) - of_steps};
  std::vector<ProfileRow> rows;
  for (const auto& [kernel, sum] : sums) {
    rows.push_back(
        {kernel, sum.call_count / kRuns, static_cast<uint64_t>(sum.time.count()) / kRuns});
  }
  std::ranges::stable_sort(rows, std::greater<>(), &ProfileRow::ns);
  return rows;
}

void write_profile(std::span<const ProfileRow> rows, JsonWriter* out_json) {
  out_json->key("profile").begin_array();
  for (const ProfileRow& row : rows) {
    out_json->begin_object().field("kernel", row.kernel).field("call_count", row.call_count);
    out_json->field("ns", row.ns).end_object();
  }
  out_json->end_array();
}

std::string profile_text(std::span<const ProfileRow> rows) {
  uint64_t all_ns = 0;
  for (const ProfileRow& row : rows) all_ns += row.ns;
  Table table({"kernel", "calls", "time", "share"}, {1, 2, 3});
  for (const ProfileRow& row : rows) {
    const double share =
        all_ns == 0 ? 0 : static_cast<double>(row.ns) / static_cast<double>(all_ns);
    table.add({row.kernel, std::to_string(row.call_count),
               duration_text(static_cast<double>(row.ns)), fmt::format("{:.0f} %", 100 * share)});
  }
  return table.to_string();
}

}  // namespace bp::cli
