// SPDX-License-Identifier: Apache-2.0
//
// Small enough to be written by hand: a table and a list.
#include "tests/fault_injection/report.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace bp::faults {
namespace {

std::string quoted(const std::string& text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char letter : text) {
    const auto code = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') out += '\\';
    if (code < 0x20) {
      out += std::string("\\u00") + kHex[code / 16] + kHex[code % 16];
    } else {
      out += letter;
    }
  }
  return out + '"';
}

std::string json_row(const Row& row) {
  std::string failed;
  for (const std::string& words : row.failed)
    failed += (failed.empty() ? "" : ", ") + quoted(words);
  return "    {\"call\": " + quoted(row.call) + ", \"kind\": " + quoted(row.kind) +
         ", \"device\": " + quoted(row.device) + ", \"points\": " + std::to_string(row.points) +
         ", \"errors\": " + std::to_string(row.errors) +
         ", \"stream_failures\": " + std::to_string(row.streams) +
         ", \"absorbed\": " + std::to_string(row.absorbed) + ", \"failed\": [" + failed + "]}";
}

struct Totals {
  uint64_t passed = 0;
  uint64_t points = 0;
};

Totals totals_of(const std::vector<Row>& rows) {
  Totals totals;
  for (const Row& row : rows) {
    totals.passed += row.failed.empty() ? 1 : 0;
    totals.points += row.points;
  }
  return totals;
}

void write_json(std::ostream& out, const std::vector<Row>& rows) {
  const Totals totals = totals_of(rows);
  out << "{\n  \"passed\": " << totals.passed << ",\n  \"failed\": " << rows.size() - totals.passed
      << ",\n  \"total\": " << rows.size() << ",\n  \"points\": " << totals.points
      << ",\n  \"calls\": [\n";
  for (size_t i = 0; i < rows.size(); ++i) {
    out << json_row(rows[i]) << (i + 1 < rows.size() ? ",\n" : "\n");
  }
  out << "  ]\n}\n";
}

void write_markdown(std::ostream& out, const std::vector<Row>& rows) {
  const Totals totals = totals_of(rows);
  out << "# Faults\n\nFor each call of the application API the fault comes at point 1, 2, ... "
         "until "
         "the call no longer meets it.\nAfterwards: the error and its words, memory and object "
         "counts as before, the second try right, nothing leaked, no hang.\n\n"
      << totals.passed << " of " << rows.size() << " rows pass; " << totals.points
      << " points were tried.\n\n| device | fault | call | points | error | stream failed | "
         "absorbed | failed |\n|---|---|---|---|---|---|---|---|\n";
  for (const Row& row : rows) {
    out << "| " << row.device << " | " << row.kind << " | " << row.call << " | " << row.points
        << " | " << row.errors << " | " << row.streams << " | " << row.absorbed << " | "
        << row.failed.size() << " |\n";
  }
  for (const Row& row : rows) {
    for (const std::string& words : row.failed) {
      out << "\n- " << row.device << ", " << row.kind << ", " << row.call << ", " << words << '\n';
    }
  }
}

}  // namespace

bool write_report(const std::string& path, const std::vector<Row>& rows) {
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  std::ofstream json(path + ".json");
  write_json(json, rows);
  std::ofstream markdown(path + ".md");
  write_markdown(markdown, rows);
  return json.good() && markdown.good();
}

}  // namespace bp::faults
