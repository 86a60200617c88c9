// SPDX-License-Identifier: Apache-2.0
//
// `backplane doctor`: everything that was searched, found, skipped and tried, with a next action
// for what is wrong. Hardware that is not in this machine is not wrong.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <mutex>

#include "core/base/log.hpp"
#include "core/cli/cli.hpp"
#include "core/cli/device_checks.hpp"
#include "core/cli/environment.hpp"
#include "core/cli/text.hpp"

namespace bp::cli {
namespace {

struct DeviceReport {
  const Device* device = nullptr;
  std::vector<CheckResult> checks;
};

struct Problem {
  std::string words;
  std::string next_action;
};

struct Report {
  std::vector<DeviceReport> devices;
  std::vector<Problem> problems;
  std::vector<std::string> log;
};

/// Keeps the log while it lives: doctor shows it in its place instead of between its tables.
class LogKeeper {
 public:
  LogKeeper() {
    set_log_sink([this](uint32_t, std::string_view line) {
      const std::lock_guard lock(mutex_);
      lines_.emplace_back(line);
    });
  }
  ~LogKeeper() { set_log_sink({}); }
  LogKeeper(const LogKeeper&) = delete;
  LogKeeper& operator=(const LogKeeper&) = delete;

  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

std::vector<Problem> find_problems(const Runtime& runtime,
                                   const std::vector<DeviceReport>& devices) {
  std::vector<Problem> problems;
  for (const SkippedPlugin& skipped : runtime.plugins().skipped) {
    if (is_absent(skipped)) continue;
    const std::string& name = skipped.id.empty() ? skipped.path : skipped.id;
    problems.push_back({fmt::format("plugin {} skipped at {}: {}", name, step_name(skipped.step),
                                    skipped.reason.to_string()),
                        skipped.next_action()});
  }
  for (const MissingDevice& missing : runtime.missing_devices()) {
    problems.push_back(
        {fmt::format("{} could not be opened: {}", missing.name, missing.reason.to_string()),
         "Check the options of this device and whether another process holds it."});
  }
  if (runtime.devices().empty()) {
    problems.push_back({"there is no device",
                        "Put plugins into one of the searched folders, or name theirs with "
                        "--plugin-path or BACKPLANE_PLUGIN_PATH."});
  }
  for (const DeviceReport& report : devices) {
    for (const CheckResult& check : report.checks) {
      if (check.state != CheckState::kFailed) continue;
      problems.push_back(
          {fmt::format("{} failed {}: {}", report.device->name(), check.name, check.words),
           check.next_action});
    }
  }
  return problems;
}

Report examine(Runtime& runtime, LogKeeper& log) {
  Report report;
  for (const Ref<Device>& device : runtime.devices()) {
    report.devices.push_back({device.get(), check_device(runtime, *device)});
  }
  report.problems = find_problems(runtime, report.devices);
  report.log = log.lines();
  // Skipped plugins are shown by their own table.
  std::erase_if(report.log, [&](const std::string& line) {
    const auto& skipped = runtime.plugins().skipped;
    return std::any_of(skipped.begin(), skipped.end(),
                       [&](const SkippedPlugin& each) { return each.to_string() == line; });
  });
  return report;
}

void write_checks(const std::vector<CheckResult>& checks, JsonWriter* out_json) {
  out_json->key("checks").begin_array();
  for (const CheckResult& check : checks) {
    out_json->begin_object()
        .field("name", check.name)
        .field("result", check_state_name(check.state))
        .field("placement", check.placement)
        .field("words", check.words)
        .field("next_action", check.next_action)
        .end_object();
  }
  out_json->end_array();
}

std::string report_json(const Runtime& runtime, const Report& report) {
  JsonWriter json;
  json.begin_object().field("ok", report.problems.empty());
  json.key("searched").begin_array();
  for (const std::string& folder : runtime.plugins().searched) json.value(folder);
  json.end_array().key("plugins").begin_array();
  for (const auto& plugin : runtime.plugins().plugins) {
    json.begin_object()
        .field("id", plugin->id())
        .field("version", plugin->manifest().version)
        .field("description", plugin->manifest().description)
        .field("path", plugin->path())
        .field("device_count", plugin->device_count())
        .end_object();
  }
  json.end_array();
  write_skipped(runtime.plugins(), &json);
  write_missing(runtime, &json);
  json.key("devices").begin_array();
  for (const DeviceReport& device : report.devices) {
    json.begin_object().field("name", device.device->name());
    write_checks(device.checks, &json);
    json.end_object();
  }
  json.end_array().key("problems").begin_array();
  for (const Problem& problem : report.problems) {
    json.begin_object()
        .field("words", problem.words)
        .field("next_action", problem.next_action)
        .end_object();
  }
  json.end_array().key("log").begin_array();
  for (const std::string& line : report.log) json.value(line);
  return json.end_array().end_object().take();
}

void print_plugins(const Runtime& runtime) {
  print("Searched for plugins\n");
  for (const std::string& folder : runtime.plugins().searched) {
    std::error_code error;
    const bool is_there = std::filesystem::is_directory(folder, error);
    print(fmt::format("  {}{}\n", visible(folder), is_there ? "" : " (not there)"));
  }
  print("\nPlugins\n");
  Table found({"plugin", "version", "devices", "library"}, {2});
  for (const auto& plugin : runtime.plugins().plugins) {
    found.add({plugin->id(), plugin->manifest().version, std::to_string(plugin->device_count()),
               plugin->path()});
  }
  print(found.empty() ? "  none\n" : found.to_string());
  for (const SkippedPlugin& skipped : runtime.plugins().skipped) {
    print(fmt::format("  {}{}\n", is_absent(skipped) ? "not here: " : "",
                      visible(skipped.to_string())));
  }
}

void print_devices(const Report& report) {
  print("\nDevices\n");
  Table table({"device", "check", "result", "runs", "what"});
  for (const DeviceReport& device : report.devices) {
    for (const CheckResult& check : device.checks) {
      table.add({device.device->name(), check.name, std::string(check_state_name(check.state)),
                 check.placement.empty() ? "-" : check.placement, check.words});
    }
  }
  print(table.empty() ? "  none\n" : table.to_string());
}

void print_report(const Runtime& runtime, const Report& report) {
  print_plugins(runtime);
  print_devices(report);
  if (!report.log.empty()) print("\nLog\n");
  for (const std::string& line : report.log) print("  " + visible(line) + "\n");
  if (report.problems.empty()) {
    print("\nAll is well.\n");
    return;
  }
  print(fmt::format("\n{}\n", count_text(report.problems.size(), "problem")));
  for (const Problem& problem : report.problems) {
    print(
        fmt::format("  {}\n    Next: {}\n", visible(problem.words), visible(problem.next_action)));
  }
}

}  // namespace

int run_doctor(const GlobalArgs& global, const DoctorArgs& args) {
  LogKeeper log;
  auto runtime = open_runtime(global);
  if (!runtime.ok()) {
    return fail("doctor", runtime.status().message(), open_failure_code(global, runtime.status()));
  }
  const Report report = examine(**runtime, log);
  if (args.json) {
    print(report_json(**runtime, report));
  } else {
    print_report(**runtime, report);
  }
  return report.problems.empty() ? kExitOk : kExitFailed;
}

}  // namespace bp::cli
