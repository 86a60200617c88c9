// SPDX-License-Identifier: Apache-2.0
//
// What tests of traces share: the ranks of a group, their dumps, and what is found in these.
#ifndef BACKPLANE_CCL_WATCH_TRACE_HARNESS_TEST_HPP
#define BACKPLANE_CCL_WATCH_TRACE_HARNESS_TEST_HPP

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "ccl/watch/filled_recorder_test.hpp"
#include "ccl/watch/trace.hpp"

namespace bp::ccl {

/// The ranks of one group, by rank.
inline std::deque<FilledRecorder> make_group(const std::string& name, uint32_t rank_count) {
  std::deque<FilledRecorder> ranks;
  const auto now = FilledRecorder::Clock::now();
  for (uint32_t rank = 0; rank < rank_count; ++rank) {
    ranks.emplace_back(name, RankPlace{rank, rank_count}).now = now;
  }
  return ranks;
}

/// Through their files' text, as the command has them.
inline std::vector<RankDump> dumps_of(const std::deque<FilledRecorder>& ranks) {
  std::vector<RankDump> dumps;
  for (const FilledRecorder& rank : ranks) {
    const RankDump dump = rank.dump();
    auto read = parse_dump(dump_text(dump), dump.group.name + "-" + dump.path);
    EXPECT_TRUE(read.ok()) << read.status().to_string();
    if (read.ok()) dumps.push_back(*std::move(read));
  }
  return dumps;
}

inline Trace trace_of(const std::vector<RankDump>& dumps) {
  auto trace = trace_dumps(dumps);
  EXPECT_TRUE(trace.ok()) << trace.status().to_string();
  return trace.ok() ? *std::move(trace) : Trace();
}

inline Trace trace_of(const std::deque<FilledRecorder>& ranks) { return trace_of(dumps_of(ranks)); }

/// "never_entered 118 [3]: words" of each finding.
inline std::vector<std::string> told(const Trace& trace) {
  std::vector<std::string> lines;
  for (const Finding& finding : trace.findings) {
    std::string ranks;
    for (const uint32_t rank : finding.ranks)
      ranks += (ranks.empty() ? "" : " ") + std::to_string(rank);
    lines.push_back(std::string(finding_name(finding.kind)) + " " +
                    std::to_string(finding.sequence) + " [" + ranks + "]: " + finding.words);
  }
  return lines;
}

}  // namespace bp::ccl

#endif
