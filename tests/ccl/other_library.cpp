// SPDX-License-Identifier: Apache-2.0
//
// See other_library.hpp.
#include "tests/ccl/other_library.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "tests/ccl/case_table.hpp"

namespace bp::ccl::cases {
namespace {

// Edited on purpose, as the number of all cases is.
constexpr size_t kRepeatedCases = 408;

std::string kept_path(const std::string& folder, const Case& c, uint32_t rank) {
  return folder + "/" + std::to_string(c.number) + "." + std::to_string(keeper_of(c, rank)) +
         ".out";
}

/// Where hosts cannot be made: then it has left nothing of those that are on several.
bool was_run(const std::string& folder, const Case& c) {
  if (c.host_count == 1) return true;
  for (uint32_t rank = 0; rank < c.rank_count; ++rank) {
    if (std::filesystem::exists(kept_path(folder, c, rank))) return true;
  }
  return false;
}

/// What the rank received of us.
Bytes read_kept(const std::string& folder, const Case& c, uint32_t rank) {
  const std::string path = kept_path(folder, c, rank);
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("ccl_cases_test has not left " + path);
  Bytes bytes(std::filesystem::file_size(path));
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file) throw std::runtime_error("cannot read " + path);
  return bytes;
}

/// What ours were by: a schedule that another one served for has passed nothing.
void note_limit(CaseResult* result) {
  const Limit limit = limit_of(result->what);
  if (limit == Limit::kNone) return;
  result->verdict = Verdict::kUnsupported;
  result->words = limit_words(limit);
}

std::string report_words(const Library& library, size_t count) {
  return "# Collectives: cases repeated by " + library.title + "\n\n" + std::to_string(count) +
         " of the " + std::to_string(schedule_cases().size()) +
         " cases of the table \"schedules\" in ccl_cases.md (seed " + std::to_string(kSeed) +
         "), with the inputs that ours had: its results are compared with ours, element by "
         "element. " +
         library.ranks +
         " A schedule is what ours went by; the library has its own. Left out: operations that are "
         "refused, barriers, which leave nothing to compare, and the dtypes f16, bf16, f8e4m3fn, "
         "f8e5m2, f8e4m3fnuz, f8e5m2fnuz and f8e8m0, which it has not. Unsupported: the library "
         "has no such operation, or ours went by another schedule than was asked for, and both "
         "agree.";
}

template <class Number>
void divide_all(uint32_t divisor, Bytes* values) {
  for (size_t at = 0; at < values->size(); at += sizeof(Number)) {
    Number number;
    std::memcpy(&number, values->data() + at, sizeof number);
    number /= static_cast<Number>(divisor);
    std::memcpy(values->data() + at, &number, sizeof number);
  }
}

}  // namespace

std::vector<Case> repeated_cases(const std::string& folder) {
  std::vector<Case> cases = schedule_cases();
  std::erase_if(cases, [&](const Case& c) { return !is_kept(c) || !was_run(folder, c); });
  return cases;
}

std::string repeat_on_rank(const std::string& folder, const Case& c, uint32_t rank,
                           const Repeat& repeat) {
  try {
    const Bytes ours = read_kept(folder, c, rank);
    const Bytes theirs = repeat(c, rank, input_of(c, rank));
    if (theirs.size() != ours.size()) {
      return "expected " + std::to_string(ours.size()) + " bytes, found " +
             std::to_string(theirs.size());
    }
    if (ours.empty()) return "";
    return compare(c, rank, ours.data(), theirs.data());
  } catch (const std::exception& error) {
    return error.what();
  }
}

int report_repeated(const std::string& folder, const std::string& reports, const Library& library,
                    std::vector<CaseResult> results) {
  for (const Case& c : schedule_cases()) {
    if (is_kept(c) && !was_run(folder, c)) {
      results.push_back({.table = library.title, .what = c, .words = "ours was not run"});
    }
  }
  size_t passed = 0;
  size_t failed = 0;
  for (CaseResult& result : results) {
    if (result.verdict == Verdict::kPassed) {
      ++passed;
      note_limit(&result);
    }
    if (result.verdict != Verdict::kFailed) continue;
    ++failed;
    std::printf("%s, case %u, %s: %s\n", library.title.c_str(), result.what.number,
                result.what.words().c_str(), result.words.c_str());
  }
  std::printf("%s: %zu of %zu cases agree with ours\n", library.title.c_str(), passed,
              results.size());
  if (results.size() != kRepeatedCases) {
    std::printf("expected %zu cases\n", kRepeatedCases);
    return 1;
  }
  if (!write_report(reports, "ccl_" + library.name, report_words(library, results.size()),
                    results)) {
    std::printf("cannot write %s\n", reports.c_str());
    return 1;
  }
  return failed == 0 ? 0 : 1;
}

void divide(const Case& c, Bytes* values) {
  if (c.reduction != Reduction::kAvg) return;
  if (c.format->part_bytes() == sizeof(float)) return divide_all<float>(c.rank_count, values);
  divide_all<double>(c.rank_count, values);
}

}  // namespace bp::ccl::cases
