// SPDX-License-Identifier: Apache-2.0
//
// Reading exceptions strictly: a slip of the pen must not excuse anything.
#include "sdk/conform/exceptions.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "sdk/conform/checks.hpp"

namespace bp::conform {
namespace {

constexpr size_t kShortestReason = 20;

Status refuse(const std::string& path, const std::string& why) {
  return Status(BP_INVALID_ARGUMENT, path + ": " + why);
}

Result<Exception> read_exception(const std::string& path, const nlohmann::json& entry) {
  Exception exception;
  const std::pair<const char*, std::string*> members[] = {{"case", &exception.pattern},
                                                          {"driver", &exception.driver},
                                                          {"reason", &exception.reason},
                                                          {"expires", &exception.expires}};
  for (const auto& [name, value] : members) {
    if (!entry.is_object() || !entry.contains(name) || !entry[name].is_string()) {
      return refuse(path, words("an exception needs the text '", name, "'"));
    }
    *value = entry[name].get<std::string>();
  }
  if (entry.size() != std::size(members)) {
    return refuse(path, "an exception has case, driver, reason and expires, and nothing else");
  }
  if (exception.reason.size() < kShortestReason) {
    return refuse(path, exception.pattern + ": the reason is less than a sentence");
  }
  if (!std::regex_match(exception.expires, std::regex("\\d{4}-\\d{2}-\\d{2}"))) {
    return refuse(path, exception.pattern + ": expires is '" + exception.expires +
                            "'; expected a day like 2027-03-31");
  }
  return exception;
}

void apply(const Exception& exception, std::string_view today, Row* row) {
  Outcome& outcome = row->outcome;
  if (outcome.verdict == Verdict::kUnsupported || outcome.verdict == Verdict::kNotRun) return;
  if (today > exception.expires) {
    if (outcome.verdict == Verdict::kPass) return;
    outcome.words += words(" (its exception ended on ", exception.expires, ")");
    return;
  }
  if (outcome.verdict == Verdict::kPass) {
    outcome = {Verdict::kUnexpectedPass, "it passes: remove its exception"};
  } else {
    outcome = {Verdict::kExpectedFail, exception.reason};
  }
}

}  // namespace

Result<std::vector<Exception>> read_exceptions(const std::string& path) {
  std::ifstream file(path);
  if (!file.good()) return refuse(path, "the file cannot be read");
  const nlohmann::json document = nlohmann::json::parse(file, nullptr, false);
  if (!document.is_object() || document.size() != 1 || !document.contains("exceptions") ||
      !document["exceptions"].is_array()) {
    return refuse(path, "expected {\"exceptions\": [...]}");
  }
  std::vector<Exception> exceptions;
  for (const nlohmann::json& entry : document["exceptions"]) {
    BP_TRY_ASSIGN(exceptions.emplace_back(), read_exception(path, entry));
  }
  return exceptions;
}

Status apply_exceptions(std::span<const Exception> exceptions, std::span<const Case> cases,
                        std::string_view today, DeviceRows* device) {
  for (const Exception& exception : exceptions) {
    const auto fits = [&](const Case& tested) { return matches(exception.pattern, tested.id); };
    if (std::none_of(cases.begin(), cases.end(), fits)) {
      return Status(BP_INVALID_ARGUMENT, "an exception for no case: " + exception.pattern);
    }
    if (!matches(exception.driver, device->driver)) continue;
    for (Row& row : device->rows) {
      if (fits(*row.tested)) apply(exception, today, &row);
    }
  }
  return {};
}

std::string today() {
  const std::chrono::year_month_day day(
      std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now()));
  const auto two = [](unsigned number) {
    return std::string(number < 10 ? "0" : "") + std::to_string(number);
  };
  return words(static_cast<int>(day.year()), '-', two(static_cast<unsigned>(day.month())), '-',
               two(static_cast<unsigned>(day.day())));
}

}  // namespace bp::conform
