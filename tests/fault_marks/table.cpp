// SPDX-License-Identifier: Apache-2.0
//
// Reading the table, and writing what was found beside it.
#include "tests/fault_marks/table.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace bp::marks {
namespace {

constexpr const char* kNotRun = "not run";
constexpr const char* kProducer = "producer";

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream in(line);
  for (std::string field; std::getline(in, field, ',');) fields.push_back(field);
  if (line.ends_with(',')) fields.emplace_back();
  return fields;
}

[[noreturn]] void refuse(const std::string& path, size_t line, const std::string& words) {
  throw std::runtime_error(path + ":" + std::to_string(line) + ": " + words);
}

std::string without_bars(std::string text) {
  std::replace(text.begin(), text.end(), '|', '/');
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string json_text(const std::string& text) {
  std::string out = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') out += '\\';
    out += static_cast<unsigned char>(letter) < 0x20 ? ' ' : letter;
  }
  return out + '"';
}

struct Totals {
  size_t passed = 0;
  size_t failed = 0;
  size_t not_run = 0;
  size_t told_by_producer = 0;  // and no consumer ran
};

Totals totals_of(const std::vector<CellResult>& results) {
  Totals totals;
  for (const CellResult& result : results) {
    const bool ran = result.found != kNotRun;
    ++(!ran ? totals.not_run : result.found == result.expected ? totals.passed : totals.failed);
    if (ran && result.found == kProducer) ++totals.told_by_producer;
  }
  return totals;
}

void write_json(std::ostream& out, const std::vector<CellResult>& results) {
  const Totals totals = totals_of(results);
  out << "{\n  \"passed\": " << totals.passed << ",\n  \"failed\": " << totals.failed
      << ",\n  \"not_run\": " << totals.not_run
      << ",\n  \"told_by_producer\": " << totals.told_by_producer
      << ",\n  \"total\": " << results.size() << ",\n  \"cells\": [\n";
  for (size_t i = 0; i < results.size(); ++i) {
    const auto& [producer, consumer, device] = results[i].name;
    out << "    {\"producer\": " << json_text(producer) << ", \"consumer\": " << json_text(consumer)
        << ", \"device\": " << json_text(device)
        << ", \"expected\": " << json_text(results[i].expected)
        << ", \"found\": " << json_text(results[i].found)
        << (i + 1 < results.size() ? "},\n" : "}\n");
  }
  out << "  ]\n}\n";
}

/// Rows in the order of `results`, a column for each device.
void write_rows(std::ostream& out, const std::vector<CellResult>& results,
                const std::string& separator, const std::string& edge) {
  std::vector<std::string> devices;
  std::vector<std::pair<std::string, std::string>> rows;
  Table found;
  for (const CellResult& result : results) {
    const auto& [producer, consumer, device] = result.name;
    if (std::find(devices.begin(), devices.end(), device) == devices.end())
      devices.push_back(device);
    const std::pair row(producer, consumer);
    if (std::find(rows.begin(), rows.end(), row) == rows.end()) rows.push_back(row);
    found[result.name] = result.found == kNotRun ? result.expected : result.found;
  }
  out << edge << "producer" << separator << "consumer";
  for (const std::string& device : devices) out << separator << device;
  out << edge << '\n';
  if (!edge.empty()) {
    for (size_t i = 0; i < devices.size() + 2; ++i) out << "|---";
    out << "|\n";
  }
  for (const auto& [producer, consumer] : rows) {
    out << edge << producer << separator << consumer;
    for (const std::string& device : devices) {
      out << separator << without_bars(found[{producer, consumer, device}]);
    }
    out << edge << '\n';
  }
}

}  // namespace

bool is_place(const std::string& word) {
  constexpr std::array<const char*, 3> kPlaces = {kProducer, "consumer", "read"};
  return std::find(kPlaces.begin(), kPlaces.end(), word) != kPlaces.end();
}

Table read_table(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  if (!std::getline(in, line)) refuse(path, 1, "expected the names of the columns");
  const std::vector<std::string> columns = fields_of(line);
  Table table;
  for (size_t number = 2; std::getline(in, line); ++number) {
    const std::vector<std::string> fields = fields_of(line);
    if (fields.size() != columns.size()) {
      refuse(path, number,
             "expected " + std::to_string(columns.size()) + " fields, found " +
                 std::to_string(fields.size()));
    }
    for (size_t i = 2; i < fields.size(); ++i) {
      if (!is_place(fields[i])) {
        refuse(path, number,
               "column " + columns[i] + ": expected producer, consumer or read, found '" +
                   fields[i] + "'");
      }
      if (!table.emplace(CellName(fields[0], fields[1], columns[i]), fields[i]).second) {
        refuse(path, number, fields[0] + ", " + fields[1] + " stands twice");
      }
    }
  }
  return table;
}

bool write_report(const std::string& folder, const std::vector<CellResult>& results) {
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  std::ofstream json(folder + "/fault_marks.json");
  write_json(json, results);
  const Totals totals = totals_of(results);
  std::ofstream markdown(folder + "/fault_marks.md");
  markdown
      << "# Marks of data faults\n\nA lookup with an index out of range, every way that its "
         "result can come to be and be used, and who is told: the call that made it "
         "(producer), the one that used it (consumer), or the read of what that gave.\n\n"
      << totals.passed << " of " << results.size() << " cells pass, " << totals.failed << " fail, "
      << totals.not_run << " were not run (no such device here). In " << totals.told_by_producer
      << " the call that made the result told already, as inline devices and copies to another "
         "device do: they say nothing of their consumer.\n\n";
  write_rows(markdown, results, " | ", "|");
  std::ofstream csv(folder + "/fault_marks.csv");
  write_rows(csv, results, ",", "");
  return json.good() && markdown.good() && csv.good();
}

}  // namespace bp::marks
