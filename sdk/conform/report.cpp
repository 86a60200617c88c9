// SPDX-License-Identifier: Apache-2.0
//
// Counts per device, level and mode. UNSUPPORTED is a count of its own: never hidden in the total.
#include "sdk/conform/report.hpp"

#include <nlohmann/json.hpp>
#include <sstream>

#include "sdk/conform/checks.hpp"

namespace bp::conform {
namespace {

using Json = nlohmann::ordered_json;

bool is_failure(Verdict verdict) {
  return verdict != Verdict::kPass && verdict != Verdict::kUnsupported &&
         verdict != Verdict::kExpectedFail;
}

struct Counts {
  size_t passed = 0;
  size_t failed = 0;
  size_t unsupported = 0;
  size_t excused = 0;

  size_t total() const { return passed + failed + unsupported + excused; }
  void add(const Row& row) {
    const Verdict verdict = row.outcome.verdict;
    passed += verdict == Verdict::kPass ? 1 : 0;
    unsupported += verdict == Verdict::kUnsupported ? 1 : 0;
    excused += verdict == Verdict::kExpectedFail ? 1 : 0;
    failed += is_failure(verdict) ? 1 : 0;
  }
  void write_to(Json* out) const {
    (*out)["passed"] = passed;
    (*out)["failed"] = failed;
    (*out)["unsupported"] = unsupported;
    (*out)["expected_failures"] = excused;
    (*out)["total"] = total();
  }
};

template <class Choose>
Counts count_rows(const DeviceRows& device, Choose choose) {
  Counts counts;
  for (const Row& row : device.rows) {
    if (choose(row)) counts.add(row);
  }
  return counts;
}

std::string mode_name(const Row& row) {
  return row.masked == 0 ? "as it is" : "without " + band_names(row.masked);
}

Json rows_json(const DeviceRows& device, bool unsupported) {
  Json rows = Json::array();
  for (const Row& row : device.rows) {
    const Verdict verdict = row.outcome.verdict;
    if (verdict == Verdict::kPass || (verdict == Verdict::kUnsupported) != unsupported) continue;
    Json entry;
    entry["case"] = row.tested->id;
    entry["mode"] = mode_name(row);
    entry["verdict"] = verdict_name(verdict);
    entry["words"] = row.outcome.words;
    if (!unsupported) entry["proves"] = row.tested->proves;
    if (!unsupported) entry["repeat"] = repeat_command(device, row);
    rows.push_back(std::move(entry));
  }
  return rows;
}

Json device_json(const DeviceRows& device) {
  Json entry;
  entry["device"] = device.target.device_name();
  if (!device.absent.empty()) {
    entry["absent"] = device.absent;
    return entry;
  }
  entry["version"] = device.target.manifest.version;
  entry["driver"] = device.driver;
  entry["native_bands"] = band_names(device.features);
  count_rows(device, [](const Row&) { return true; }).write_to(&entry);
  count_rows(device, [](const Row& row) { return !row.emulated; }).write_to(&entry["native"]);
  count_rows(device, [](const Row& row) { return row.emulated; }).write_to(&entry["emulated"]);
  for (int level = 0; level <= kHighestLevel; ++level) {
    count_rows(device, [level](const Row& row) {
      return row.tested->level() == level;
    }).write_to(&entry["level_" + std::to_string(level)]);
  }
  entry["failures"] = rows_json(device, false);
  entry["unsupported_cases"] = rows_json(device, true);
  return entry;
}

Counts count_all(std::span<const DeviceRows> devices) {
  Counts sum;
  for (const DeviceRows& device : devices) {
    for (const Row& row : device.rows) sum.add(row);
  }
  return sum;
}

std::string cell(const Counts& counts) {
  std::ostringstream text;
  text << counts.passed << " / " << counts.total();
  if (counts.excused != 0) text << " (" << counts.excused << " XFAIL)";
  if (counts.unsupported != 0) text << " (" << counts.unsupported << " unsupported)";
  return text.str();
}

}  // namespace

std::string repeat_command(const DeviceRows& device, const Row& row) {
  std::ostringstream text;
  text << "bp-conform " << device.target.library_path << " --device " << device.target.device_index
       << " --filter " << row.tested->id;
  if (row.masked != 0) text << " --emulate " << band_names(row.masked);
  for (const OptionSetting& option : device.target.options) {
    text << " --options " << option.name << "=" << option.value;
  }
  return text.str();
}

std::string totals_line(std::span<const DeviceRows> devices) {
  const Counts counts = count_all(devices);
  std::string names;
  for (const DeviceRows& device : devices) {
    names += (names.empty() ? "" : ", ") + device.target.device_name();
  }
  return names + ": " +
         words(counts.passed, " passed, ", counts.failed, " failed, ", counts.unsupported,
               " unsupported, ", counts.excused, " failed as expected, of ", counts.total());
}

std::string report_json(std::span<const DeviceRows> devices, size_t case_count) {
  Json report;
  count_all(devices).write_to(&report);
  report["case_count"] = case_count;
  report["devices"] = Json::array();
  for (const DeviceRows& device : devices) report["devices"].push_back(device_json(device));
  // What a child wrote before it crashed may be no UTF-8.
  return report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string report_markdown(std::span<const DeviceRows> devices, size_t case_count) {
  std::ostringstream text;
  text << "# Conformance cases, levels 0 to 4\n\n"
       << case_count << " cases; each cell is passed / run. A case runs emulated where a band that "
       << "it exercises\nis the core's, be it that the device lacks it or that it was taken away.\n"
       << "\n| device | native bands | level 0 | level 1 | level 2 | level 3 | level 4 | native | "
          "emulated | failed |\n"
       << "|---|---|---|---|---|---|---|---|---|---|\n";
  for (const DeviceRows& device : devices) {
    text << "| " << device.target.device_name() << " | ";
    if (!device.absent.empty()) {
      text << "absent: " << device.absent << " | | | | | | | | |\n";
      continue;
    }
    text << band_names(device.features) << " | ";
    for (int level = 0; level <= kHighestLevel; ++level) {
      text << cell(count_rows(device, [level](const Row& row) {
        return row.tested->level() == level;
      })) << " | ";
    }
    text << cell(count_rows(device, [](const Row& row) { return !row.emulated; })) << " | "
         << cell(count_rows(device, [](const Row& row) { return row.emulated; })) << " | "
         << device.failed_count() << " |\n";
  }
  for (const DeviceRows& device : devices) {
    for (const Row& row : device.rows) {
      const Verdict verdict = row.outcome.verdict;
      if (verdict == Verdict::kPass || verdict == Verdict::kUnsupported) continue;
      text << "\n**" << verdict_name(verdict) << "** " << row.tested->id << " on "
           << device.target.device_name() << ", " << mode_name(row) << ": " << row.outcome.words
           << "\n  - rule: " << row.tested->proves << "\n  - `" << repeat_command(device, row)
           << "`\n";
    }
  }
  return text.str();
}

}  // namespace bp::conform
