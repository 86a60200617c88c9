// SPDX-License-Identifier: Apache-2.0
//
// The command round the library: case_runner --plugin-folder F [--device N] [--case ID] ...
// Exit codes are those of design section 8: 0 all passed, 1 a case failed, 2 usage, 3 nothing to
// test on this machine.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "sdk/conform/exceptions.hpp"
#include "sdk/conform/report.hpp"
#include "sdk/conform/runner.hpp"

namespace bp::conform {
namespace {

struct Arguments {
  std::vector<std::string> folders;
  std::vector<std::string> absent_allowed;
  std::vector<std::string> exceptions;
  std::vector<std::string> options;
  uint32_t device = 0;
  std::string emulate;
  std::string report_folder;
  std::string report_name = "cases";
  bool list = false;
  RunOptions run;
};

void declare(CLI::App* app, Arguments* arguments) {
  app->add_option("--plugin-folder", arguments->folders, "folder with one plugin; repeatable");
  app->add_option("--may-be-absent", arguments->absent_allowed,
                  "the same, but it is fine if this machine lacks the hardware");
  app->add_option("--exceptions", arguments->exceptions,
                  "<plugin id>=<file> of cases that are known to fail; repeatable");
  app->add_option("--device", arguments->device, "index of the device, 0 if not given");
  app->add_option("--case", arguments->run.filters, "id, with * for any text; repeatable");
  app->add_option("--option", arguments->options, "<plugin id>.<option>=<value>; repeatable");
  app->add_option("--emulate", arguments->emulate,
                  "take these bands from the device, and run in this mode alone: async,fill");
  app->add_option("--slowness", arguments->run.slowness, "deadlines are multiplied by this");
  app->add_option("--jobs", arguments->run.jobs, "children at a time");
  app->add_option("--batch", arguments->run.batch, "cases of levels 1 and 2 in one child");
  app->add_flag("--each-band", arguments->run.each_band,
                "also take each band alone, and let the core make one call at a time");
  app->add_option("--report", arguments->report_folder, "write NAME.json and NAME.md there");
  app->add_option("--report-name", arguments->report_name, "NAME, cases if not given");
  app->add_flag("--list", arguments->list, "print all ids and end");
}

Result<std::vector<OptionSetting>> parse_options(const std::vector<std::string>& texts) {
  std::vector<OptionSetting> settings;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) {
      return Status(BP_INVALID_ARGUMENT, text + ": expected <name>=<value>");
    }
    settings.push_back({text.substr(0, equals), text.substr(equals + 1)});
  }
  return settings;
}

void print(const DeviceRows& device) {
  if (!device.absent.empty()) {
    std::printf("%s: absent: %s\n", device.target.device_name().c_str(), device.absent.c_str());
    return;
  }
  for (const Row& row : device.rows) {
    const Verdict verdict = row.outcome.verdict;
    if (verdict == Verdict::kPass || verdict == Verdict::kUnsupported) continue;
    std::printf("%s %s: %s\n  %s\n", std::string(verdict_name(verdict)).c_str(),
                row.tested->id.c_str(), row.outcome.words.c_str(),
                repeat_command(device, row).c_str());
  }
  std::printf("%s: %zu passed, %zu failed, %zu unsupported, %zu failed as expected\n",
              device.target.device_name().c_str(), device.count(Verdict::kPass),
              device.failed_count(), device.count(Verdict::kUnsupported),
              device.count(Verdict::kExpectedFail));
  std::fflush(stdout);
}

Status run_all(Arguments& arguments, std::span<const Case> cases,
               std::vector<DeviceRows>* out_devices) {
  BP_TRY_ASSIGN(const auto options, parse_options(arguments.options));
  BP_TRY_ASSIGN(const auto exceptions, parse_options(arguments.exceptions));
  BP_TRY_ASSIGN(arguments.run.masked, parse_bands(arguments.emulate));
  if (arguments.run.masked != 0) arguments.run.emulated = false;
  const auto run = [&](const std::string& folder, bool may_be_absent) -> Status {
    BP_TRY_ASSIGN(const Target target, find_target(folder, arguments.device, options));
    BP_TRY_ASSIGN(DeviceRows device, run_cases(cases, target, arguments.run));
    for (const OptionSetting& file : exceptions) {
      if (file.name != target.manifest.id) continue;
      BP_TRY_ASSIGN(const auto known, read_exceptions(file.value));
      BP_TRY(apply_exceptions(known, cases, today(), &device));
    }
    print(device);
    if (!device.absent.empty() && !may_be_absent) return Status(BP_UNAVAILABLE, device.absent);
    out_devices->push_back(std::move(device));
    return {};
  };
  for (const std::string& folder : arguments.folders) BP_TRY(run(folder, false));
  for (const std::string& folder : arguments.absent_allowed) BP_TRY(run(folder, true));
  return {};
}

void write_reports(const Arguments& arguments, std::span<const DeviceRows> devices,
                   size_t case_count) {
  if (arguments.report_folder.empty()) return;
  std::filesystem::create_directories(arguments.report_folder);
  const std::string stem = arguments.report_folder + "/" + arguments.report_name;
  std::ofstream(stem + ".json") << report_json(devices, case_count);
  std::ofstream(stem + ".md") << report_markdown(devices, case_count);
}

int run(Arguments& arguments) {
  const CaseList list = all_cases();
  if (arguments.list) {
    for (const Case& tested : list.cases()) std::printf("%s\n", tested.id.c_str());
    return 0;
  }
  if (arguments.folders.empty() && arguments.absent_allowed.empty()) {
    std::fprintf(stderr, "case_runner: --plugin-folder is missing\n");
    return 2;
  }
  std::vector<DeviceRows> devices;
  const Status status = run_all(arguments, list.cases(), &devices);
  if (!status.ok()) {
    std::fprintf(stderr, "case_runner: %s\n", status.to_string().c_str());
    return status.code() == BP_INVALID_ARGUMENT ? 2 : status.code() == BP_UNAVAILABLE ? 3 : 1;
  }
  write_reports(arguments, devices, list.cases().size());
  size_t executed = 0;
  size_t failed = 0;
  for (const DeviceRows& device : devices) {
    executed += device.executed_count();
    failed += device.failed_count();
  }
  if (executed == 0) std::fprintf(stderr, "case_runner: no case was run\n");
  return executed == 0 || failed != 0 ? 1 : 0;
}

}  // namespace
}  // namespace bp::conform

int main(int argc, char** argv) {
  bp::conform::Arguments arguments;
  CLI::App app("Runs the conformance cases of levels 0 to 2 on a plugin");
  bp::conform::declare(&app, &arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : 2;
  }
  return bp::conform::run(arguments);
}
