// SPDX-License-Identifier: Apache-2.0
//
// See other_library.hpp.
#include "tests/ccl/other_library.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "tests/ccl/case_table.hpp"

namespace bp::ccl::cases {
namespace {

// Edited on purpose, as the number of all cases is.
constexpr size_t kRepeatedCases = 313;

Bytes read_kept(const std::string& folder, const Case& c, uint32_t rank, const char* what) {
  const std::string path =
      folder + "/" + std::to_string(c.number) + "." + std::to_string(rank) + "." + what;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("ccl_cases_test has not left " + path);
  const std::vector<char> chars{std::istreambuf_iterator<char>(file), {}};
  Bytes bytes(chars.size());
  std::transform(chars.begin(), chars.end(), bytes.begin(),
                 [](char letter) { return static_cast<std::byte>(letter); });
  return bytes;
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

std::vector<Case> repeated_cases() {
  std::vector<Case> cases = schedule_cases();
  std::erase_if(cases, [](const Case& c) {
    return !is_kept(c) || (c.format->of == Class::kFloat && c.format->bytes < 4) ||
           c.format->of == Class::kScale;
  });
  return cases;
}

std::string repeat_on_rank(const std::string& folder, const Case& c, uint32_t rank,
                           const Repeat& repeat) {
  try {
    const Bytes input = read_kept(folder, c, rank, "in");
    const Bytes ours = read_kept(folder, c, rank, "out");
    const Bytes theirs = repeat(c, rank, input);
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

int report_repeated(const std::string& reports, const std::string& name,
                    const std::vector<CaseResult>& results) {
  size_t passed = 0;
  size_t failed = 0;
  for (const CaseResult& result : results) {
    if (result.verdict == Verdict::kPassed) ++passed;
    if (result.verdict != Verdict::kFailed) continue;
    ++failed;
    std::printf("%s, case %u, %s: %s\n", name.c_str(), result.what.number,
                result.what.words().c_str(), result.words.c_str());
  }
  std::printf("%s: %zu of %zu cases agree with ours\n", name.c_str(), passed, results.size());
  if (results.size() != kRepeatedCases) {
    std::printf("expected %zu cases\n", kRepeatedCases);
    return 1;
  }
  if (!write_report(reports, "ccl_" + name, results)) {
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
