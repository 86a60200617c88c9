// SPDX-License-Identifier: Apache-2.0
//
// See proof_report_test.hpp.
#include "ccl/schedule/proof_report_test.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "ccl/schedule/cost.hpp"

namespace bp::ccl::symbolic {
namespace {

constexpr uint64_t kShownElements = 1000;  // those whose costs are in the table

Cost shown_cost(const ProvedRow& row) {
  const uint64_t count = row.algorithm->kind == Kind::kBarrier ? 0 : kShownElements;
  return cost_of(*row.algorithm, {row.algorithm->kind, count, row.rank_count, 0, {}});
}

struct Totals {
  size_t passed = 0;
  size_t failed = 0;
  size_t unsupported = 0;
};

Totals totals_of(const std::vector<ProvedRow>& rows) {
  Totals totals;
  for (const ProvedRow& row : rows) {
    ++(!row.serves ? totals.unsupported : row.is_proved ? totals.passed : totals.failed);
  }
  return totals;
}

std::string verdict_of(const ProvedRow& row) {
  return !row.serves ? "unsupported" : row.is_proved ? "passed" : "failed";
}

void write_json(std::ostream& out, const std::vector<ProvedRow>& rows) {
  const Totals totals = totals_of(rows);
  out << "{\n  \"passed\": " << totals.passed << ",\n  \"failed\": " << totals.failed
      << ",\n  \"unsupported\": " << totals.unsupported << ",\n  \"total\": " << rows.size()
      << ",\n  \"cases\": " << case_count(rows) << ",\n  \"elements\": " << kShownElements
      << ",\n  \"schedules\": [\n";
  for (size_t i = 0; i < rows.size(); ++i) {
    const ProvedRow& row = rows[i];
    out << "    {\"kind\": \"" << kind_info(row.algorithm->kind).name << "\", \"algorithm\": \""
        << row.algorithm->name << "\", \"ranks\": " << row.rank_count << ", \"verdict\": \""
        << verdict_of(row) << "\", \"cases\": " << row.cases;
    if (row.serves && !row.algorithm->needs_hosts) {
      const Cost cost = shown_cost(row);
      out << ", \"messages\": " << cost.messages << ", \"moved\": " << cost.moved
          << ", \"reduced\": " << cost.reduced << ", \"copied\": " << cost.copied;
    }
    out << (i + 1 < rows.size() ? "},\n" : "}\n");
  }
  out << "  ]\n}\n";
}

/// A line for each algorithm: what is proved, and what it costs among the most ranks.
void write_algorithm(std::ostream& out, const Algorithm& algorithm,
                     const std::vector<ProvedRow>& rows) {
  std::vector<ProvedRow> own;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(own),
               [&](const ProvedRow& row) { return row.algorithm == &algorithm; });
  if (own.empty()) return;
  const Totals totals = totals_of(own);
  const auto largest =
      std::max_element(own.begin(), own.end(), [](const ProvedRow& a, const ProvedRow& b) {
        return (a.serves ? a.rank_count : 0) < (b.serves ? b.rank_count : 0);
      });
  out << "| " << kind_info(algorithm.kind).name << " " << algorithm.name << " | " << totals.passed
      << " | " << totals.failed << " | " << totals.unsupported << " | " << case_count(own) << " | "
      << largest->rank_count;
  if (algorithm.needs_hosts) {
    out << " | by hosts | |\n";
    return;
  }
  const Cost cost = shown_cost(*largest);
  out << " | " << cost.messages << " | " << cost.moved << " |\n";
}

void write_markdown(std::ostream& out, const std::vector<ProvedRow>& rows) {
  out << "# Collectives: schedules\n\nOf each number of ranks: every contribution is in every "
         "result exactly once, nothing waits for ever where both ends of a message meet, and "
         "messages and elements are those of the formula. Messages and elements moved: by the "
         "rank with the most to do in a round, over all rounds, for "
      << kShownElements
      << " elements.\n\n| schedule | rank counts proved | failed | not for this count | cases | of "
         "ranks | messages | elements moved |\n|---|---|---|---|---|---|---|---|\n";
  for (const Kind kind : kinds_of_groups()) {
    for (const Algorithm& algorithm : algorithms_of(kind)) write_algorithm(out, algorithm, rows);
  }
}

class Report : public testing::Environment {
 public:
  Report(std::string folder, std::string name, size_t rows, uint64_t cases)
      : folder_(std::move(folder)), name_(std::move(name)), row_count_(rows), cases_(cases) {}

  void TearDown() override {
    const std::vector<ProvedRow>& rows = proved_rows();
    if (rows.size() != row_count_) return;  // some were asked for only
    EXPECT_EQ(case_count(rows), cases_) << "edit the number where cases come or go on purpose";
    std::error_code ignored;
    std::filesystem::create_directories(folder_, ignored);
    std::ofstream markdown(folder_ + "/" + name_ + ".md");
    write_markdown(markdown, rows);
    std::ofstream json(folder_ + "/" + name_ + ".json");
    write_json(json, rows);
    EXPECT_TRUE(markdown.flush().good() && json.flush().good()) << folder_;
  }

 private:
  const std::string folder_;
  const std::string name_;
  const size_t row_count_;
  const uint64_t cases_;
};

}  // namespace

std::vector<ProvedRow>& proved_rows() {
  static std::vector<ProvedRow> rows;
  return rows;
}

Proof prove_and_note(Kind kind, const std::vector<uint32_t>& rank_counts, Sweep sweep) {
  Proof proof = prove(kind, rank_counts, sweep);
  proved_rows().insert(proved_rows().end(), proof.rows.begin(), proof.rows.end());
  return proof;
}

uint64_t case_count(const std::vector<ProvedRow>& rows) {
  uint64_t cases = 0;
  for (const ProvedRow& row : rows) cases += row.cases;
  return cases;
}

void report_proofs(const std::string& folder, const std::string& name, size_t rows,
                   uint64_t cases) {
  testing::AddGlobalTestEnvironment(new Report(folder, name, rows, cases));
}

}  // namespace bp::ccl::symbolic
