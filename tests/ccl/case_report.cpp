// SPDX-License-Identifier: Apache-2.0
//
// See case_report.hpp.
#include "tests/ccl/case_report.hpp"

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>

#include "tests/ccl/case_table.hpp"

namespace bp::ccl::cases {
namespace {

constexpr std::array kVerdicts = {"passed", "failed", "unsupported", "not_run"};

using Counts = std::array<size_t, kVerdicts.size()>;
using Clock = std::chrono::steady_clock;

const Clock::time_point kBegin = Clock::now();  // of the program, which makes one report

int64_t seconds_taken() {
  return std::chrono::round<std::chrono::seconds>(Clock::now() - kBegin).count();
}

std::string json_text(const std::string& text) {
  std::string out = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') out += '\\';
    out += static_cast<unsigned char>(letter) < 0x20 ? ' ' : letter;
  }
  return out + '"';
}

/// A row for each value of what `key_of` answers.
template <class KeyOf>
std::map<std::string, Counts> counts_by(const std::vector<CaseResult>& results, KeyOf key_of) {
  std::map<std::string, Counts> counts;
  for (const CaseResult& result : results) {
    ++counts[key_of(result)][static_cast<size_t>(result.verdict)];
  }
  return counts;
}

template <class KeyOf>
void write_counts(std::ostream& out, const std::string& title,
                  const std::vector<CaseResult>& results, KeyOf key_of) {
  out << "\n| " << title << " | passed | failed | unsupported | not run |\n|---|---|---|---|---|\n";
  for (const auto& [key, counts] : counts_by(results, key_of)) {
    out << "| " << key;
    for (const size_t count : counts) out << " | " << count;
    out << " |\n";
  }
}

std::string schedule_of(const CaseResult& result) {
  const std::string kind = result.what.kind == Kind::kSend
                               ? "send and recv"
                               : std::string(kind_info(result.what.kind).name);
  const std::string_view algorithm = result.what.algorithm;
  return kind + " " + (algorithm.empty() ? "as chosen" : std::string(algorithm));
}

void write_markdown(std::ostream& out, const std::string& words,
                    const std::vector<CaseResult>& results) {
  out << words << " It took " << seconds_taken() << " s.\n";
  write_counts(out, "table", results, [](const CaseResult& r) { return r.table; });
  write_counts(out, "schedule", results, schedule_of);
  write_counts(out, "dtype", results, [](const CaseResult& r) {
    return r.what.format != nullptr ? std::string(r.what.format->name) : std::string("none");
  });
  out << "\n";
  for (const CaseResult& result : results) {
    if (result.verdict != Verdict::kFailed && result.verdict != Verdict::kNotRun) continue;
    out << "- " << result.table << ", " << result.what.words() << ": " << result.words << "\n";
  }
}

void write_json(std::ostream& out, const std::vector<CaseResult>& results) {
  Counts counts{};
  for (const CaseResult& result : results) ++counts[static_cast<size_t>(result.verdict)];
  out << "{\n";
  for (size_t i = 0; i < counts.size(); ++i) {
    out << "  \"" << kVerdicts[i] << "\": " << counts[i] << ",\n";
  }
  out << "  \"total\": " << results.size() << ",\n  \"seconds\": " << seconds_taken()
      << ",\n  \"seed\": " << kSeed << ",\n  \"cases\": [\n";
  for (size_t i = 0; i < results.size(); ++i) {
    const CaseResult& result = results[i];
    out << "    {\"table\": " << json_text(result.table) << ", \"number\": " << result.what.number
        << ", \"case\": " << json_text(result.what.words()) << ", \"verdict\": \""
        << kVerdicts[static_cast<size_t>(result.verdict)]
        << "\", \"words\": " << json_text(result.words) << "}"
        << (i + 1 < results.size() ? ",\n" : "\n");
  }
  out << "  ]\n}\n";
}

}  // namespace

bool write_report(const std::string& folder, const std::string& name, const std::string& words,
                  const std::vector<CaseResult>& results) {
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  std::ofstream markdown(folder + "/" + name + ".md");
  write_markdown(markdown, words, results);
  std::ofstream json(folder + "/" + name + ".json");
  write_json(json, results);
  return markdown.flush().good() && json.flush().good();
}

}  // namespace bp::ccl::cases
