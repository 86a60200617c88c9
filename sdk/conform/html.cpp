// SPDX-License-Identifier: Apache-2.0
//
// The score card: the JSON report as one page that needs nothing beside itself. Texts of plugins,
// paths and options are foreign, and are only ever shown.
#include <nlohmann/json.hpp>
#include <sstream>

#include "sdk/conform/report.hpp"

namespace bp::conform {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kCounts[] = {"passed", "failed", "unsupported", "expected_failures",
                                        "total"};
constexpr std::string_view kHead = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Conformance</title><style>
body { font: 15px/1.5 sans-serif; margin: 2em auto; max-width: 60em; padding: 0 1em }
table { border-collapse: collapse; margin: 1em 0 }
th, td { border: 1px solid #bbb; padding: .2em .7em; text-align: right }
th:first-child { text-align: left }
code { overflow-wrap: anywhere }
.bad { color: #b00020; font-weight: bold }
</style></head><body>
)";

std::string text_of(const Json& object, const char* name) {
  return escaped_markup(object.value(name, std::string()));
}

/// A row of counts. Each cell says whose and which number it holds, for programs that read the
/// page.
void write_counts(std::ostringstream& page, const std::string& device, std::string_view part,
                  const Json& counts) {
  page << "<tr><th>" << part << "</th>";
  for (const std::string_view name : kCounts) {
    const auto count = counts.at(name).get<uint64_t>();
    const bool bad = name == "failed" && count > 0;
    page << "<td data-device=\"" << device << "\" data-part=\"" << part << "\" data-count=\""
         << name << '"' << (bad ? " class=\"bad\"" : "") << '>' << count << "</td>";
  }
  page << "</tr>\n";
}

void write_table(std::ostringstream& page, const std::string& device, const Json& entry) {
  page << "<table><tr><th></th>";
  for (const std::string_view name : kCounts) page << "<th>" << name << "</th>";
  page << "</tr>\n";
  write_counts(page, device, "all", entry);
  for (const auto& [part, counts] : entry.items()) {
    if (counts.is_object()) write_counts(page, device, part, counts);
  }
  page << "</table>\n";
}

void write_failures(std::ostringstream& page, const Json& failures) {
  for (const Json& row : failures) {
    page << "<h3><span class=\"bad\">" << text_of(row, "verdict") << "</span> "
         << text_of(row, "case") << ", " << text_of(row, "mode") << "</h3>\n<p>"
         << text_of(row, "words") << "</p>\n<p>Rule: " << text_of(row, "proves")
         << "</p>\n<p><code>" << text_of(row, "repeat") << "</code></p>\n";
  }
}

void write_unsupported(std::ostringstream& page, const Json& rows) {
  if (rows.empty()) return;
  page << "<details><summary>" << rows.size() << " unsupported</summary><ul>\n";
  for (const Json& row : rows) {
    page << "<li>" << text_of(row, "case") << ", " << text_of(row, "mode") << ": "
         << text_of(row, "words") << "</li>\n";
  }
  page << "</ul></details>\n";
}

}  // namespace

std::string report_html(std::span<const DeviceRows> devices, size_t case_count) {
  const Json report = Json::parse(report_json(devices, case_count));
  std::ostringstream page;
  page << kHead << "<h1>Conformance: levels 0 to " << kHighestLevel << ", " << case_count
       << " cases</h1>\n<p>A case runs emulated where the core stands in for a band that it "
       << "exercises. What a device does not offer is unsupported, and counted.</p>\n";
  for (const Json& entry : report.at("devices")) {
    const std::string device = text_of(entry, "device");
    page << "<h2>" << device << "</h2>\n";
    if (entry.contains("absent")) {
      page << "<p>Not on this machine: " << text_of(entry, "absent") << "</p>\n";
      continue;
    }
    page << "<p>Plugin version " << text_of(entry, "version") << ", driver "
         << text_of(entry, "driver") << "; native bands: " << text_of(entry, "native_bands")
         << "</p>\n";
    write_table(page, device, entry);
    write_failures(page, entry.at("failures"));
    write_unsupported(page, entry.at("unsupported_cases"));
  }
  page << "</body></html>\n";
  return page.str();
}

}  // namespace bp::conform
