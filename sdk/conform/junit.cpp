// SPDX-License-Identifier: Apache-2.0
//
// Rows as JUnit XML, which build servers show: a suite per device, a test case per row.
#include <sstream>

#include "sdk/conform/report.hpp"

namespace bp::conform {
namespace {

void write_row(const DeviceRows& device, const Row& row, std::ostringstream* out) {
  std::string name = row.tested->id;
  if (row.masked != 0) name += " without " + band_names(row.masked);
  *out << "    <testcase classname=\"" << escaped_markup(device.target.device_name()) << ".level_"
       << row.tested->level() << "\" name=\"" << escaped_markup(name) << "\"";
  const Verdict verdict = row.outcome.verdict;
  if (verdict == Verdict::kPass) {
    *out << "/>\n";
    return;
  }
  const std::string message =
      escaped_markup(std::string(verdict_name(verdict)) + ": " + row.outcome.words);
  const bool skipped = verdict == Verdict::kUnsupported || verdict == Verdict::kExpectedFail;
  *out << ">\n      <" << (skipped ? "skipped" : "failure") << " message=\"" << message << "\"";
  if (skipped) {
    *out << "/>\n";
  } else {
    *out << ">" << escaped_markup(repeat_command(device, row)) << "</failure>\n";
  }
  *out << "    </testcase>\n";
}

}  // namespace

std::string escaped_markup(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return result;
}

std::string report_junit(std::span<const DeviceRows> devices) {
  std::ostringstream out;
  out << "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n";
  for (const DeviceRows& device : devices) {
    const size_t skipped =
        device.count(Verdict::kUnsupported) + device.count(Verdict::kExpectedFail);
    out << "  <testsuite name=\"" << escaped_markup(device.target.device_name()) << "\" tests=\""
        << device.rows.size() << "\" failures=\"" << device.failed_count() << "\" skipped=\""
        << skipped << "\">\n";
    for (const Row& row : device.rows) write_row(device, row, &out);
    out << "  </testsuite>\n";
  }
  out << "</testsuites>\n";
  return out.str();
}

}  // namespace bp::conform
