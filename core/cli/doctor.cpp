// SPDX-License-Identifier: Apache-2.0
//
// `backplane doctor`: everything that was searched, found, skipped and tried, with a next action
// for what is wrong. Hardware that is not in this machine is not wrong.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>

#include "core/base/log.hpp"
#include "core/cli/cli.hpp"
#include "core/cli/device_checks.hpp"
#include "core/cli/environment.hpp"
#include "core/cli/supervised.hpp"
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
  explicit LogKeeper(const Progress& progress) {
    set_log_sink([this, &progress](uint32_t level, std::string_view line) {
      progress.log(line);
      const std::lock_guard lock(mutex_);
      lines_.emplace_back(line);
      if (level <= BP_LOG_WARNING) warnings_.emplace_back(line);
    });
  }
  ~LogKeeper() { set_log_sink({}); }
  LogKeeper(const LogKeeper&) = delete;
  LogKeeper& operator=(const LogKeeper&) = delete;

  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  /// Warnings and errors since the last time.
  std::vector<std::string> take_warnings() {
    const std::lock_guard lock(mutex_);
    return std::exchange(warnings_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
  std::vector<std::string> warnings_;
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

Report examine(Runtime& runtime, const Progress& progress) {
  Report report;
  for (const Ref<Device>& device : runtime.devices()) {
    const auto begin = [&](std::string_view check) {
      progress.begin(fmt::format("{}: {}", device->name(), check));
    };
    report.devices.push_back({device.get(), check_device(runtime, *device, begin)});
  }
  report.problems = find_problems(runtime, report.devices);
  return report;
}

/// Closing is a check too. What the plugins said of themselves is gone with them afterwards.
void close_and_examine(Runtime& runtime, LogKeeper& log, Report* report) {
  static_cast<void>(log.take_warnings());
  runtime.close();
  for (const std::string& line : log.take_warnings()) {
    report->problems.push_back(
        {"at the end: " + line, "Run bp-conform on the plugin, or tell its makers."});
  }
  report->log = log.lines();
  // Skipped plugins are shown by their own table.
  std::erase_if(report->log, [&](const std::string& line) {
    const auto& skipped = runtime.plugins().skipped;
    return std::any_of(skipped.begin(), skipped.end(),
                       [&](const SkippedPlugin& each) { return each.to_string() == line; });
  });
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

void write_problems(const std::vector<Problem>& problems, JsonWriter* out_json) {
  out_json->key("problems").begin_array();
  for (const Problem& problem : problems) {
    out_json->begin_object()
        .field("words", problem.words)
        .field("next_action", problem.next_action)
        .end_object();
  }
  out_json->end_array();
}

void write_log(const std::vector<std::string>& lines, JsonWriter* out_json) {
  out_json->key("log").begin_array();
  for (const std::string& line : lines) out_json->value(line);
  out_json->end_array();
}

void write_found(const Runtime& runtime, const Report& report, JsonWriter* out_json) {
  JsonWriter& json = *out_json;
  json.key("searched").begin_array();
  for (const SearchedFolder& folder : runtime.plugins().searched) json.value(folder.path);
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
  json.end_array();
  const Device* host = runtime.host_device();
  json.field("host_device", host != nullptr ? host->name() : "");
}

std::string end_json(const Report& report, JsonWriter json) {
  json.field("ok", report.problems.empty());
  write_problems(report.problems, &json);
  write_log(report.log, &json);
  return json.end_object().take();
}

std::string plugins_text(const Runtime& runtime) {
  std::string text = "Searched for plugins\n";
  for (const SearchedFolder& folder : runtime.plugins().searched) {
    text += fmt::format("  {} ({})\n", visible(folder.path), folder.words());
  }
  text += "\nPlugins\n";
  Table found({"plugin", "version", "devices", "library"}, {2});
  for (const auto& plugin : runtime.plugins().plugins) {
    found.add({plugin->id(), plugin->manifest().version, std::to_string(plugin->device_count()),
               plugin->path()});
  }
  text += found.empty() ? "  none\n" : found.to_string();
  for (const SkippedPlugin& skipped : runtime.plugins().skipped) {
    text += fmt::format("  {}{}\n", is_absent(skipped) ? "not here: " : "",
                        visible(skipped.to_string()));
  }
  return text;
}

std::string devices_text(const Runtime& runtime, const Report& report) {
  std::string text = "\nDevices\n";
  Table table({"device", "check", "result", "runs", "what"});
  for (const DeviceReport& device : report.devices) {
    for (const CheckResult& check : device.checks) {
      table.add({device.device->name(), check.name, std::string(check_state_name(check.state)),
                 check.placement.empty() ? "-" : check.placement, check.words});
    }
  }
  text += table.empty() ? "  none\n" : table.to_string();
  if (const Device* host = runtime.host_device()) {
    text += fmt::format("  What a device has no kernel for runs on {}.\n", host->name());
  }
  return text;
}

std::string problems_text(const std::vector<Problem>& problems) {
  if (problems.empty()) return "\nAll is well.\n";
  std::string text = fmt::format("\n{}\n", count_text(problems.size(), "problem"));
  for (const Problem& problem : problems) {
    text +=
        fmt::format("  {}\n    Next: {}\n", visible(problem.words), visible(problem.next_action));
  }
  return text;
}

std::string log_text(const std::vector<std::string>& lines) {
  std::string text = lines.empty() ? "" : "\nLog\n";
  for (const std::string& line : lines) text += "  " + visible(line) + "\n";
  return text;
}

/// In the child.
void examine_and_report(const GlobalArgs& global, const DoctorArgs& args,
                        const Progress& progress) {
  LogKeeper log(progress);
  progress.begin("searching, loading and starting plugins");
  auto runtime = open_runtime(global);
  if (!runtime.ok()) {
    const Status& why = runtime.status();
    return progress.report(fail("doctor", why.message(), open_failure_code(global, why)), "");
  }
  Report report = examine(**runtime, progress);
  JsonWriter json;
  json.begin_object();
  if (args.json) write_found(**runtime, report, &json);
  const std::string found = plugins_text(**runtime) + devices_text(**runtime, report);
  progress.begin("closing the devices");
  close_and_examine(**runtime, log, &report);
  const std::string text = args.json
                               ? end_json(report, std::move(json))
                               : found + log_text(report.log) + problems_text(report.problems);
  progress.report(report.problems.empty() ? kExitOk : kExitFailed, text);
}

/// What is left to say where a plugin ended the child.
std::string defect_text(const SupervisedResult& result, bool as_json) {
  const Problem problem{
      fmt::format("doctor's process {}; it was at: {}", result.defect, result.step),
      "Try the plugins one by one: `bp-conform PLUGIN` survives them. Take the "
      "one at fault out of the plugin folder, and tell its makers."};
  if (!as_json) return log_text(result.log) + problems_text({problem});
  JsonWriter json;
  json.begin_object().field("ok", false);
  write_problems({problem}, &json);
  write_log(result.log, &json);
  return json.end_object().take();
}

}  // namespace

int run_doctor(const GlobalArgs& global, const DoctorArgs& args) {
  constexpr std::chrono::seconds kPatience(60);
  const auto result = run_supervised(
      kPatience, [&](const Progress& progress) { examine_and_report(global, args, progress); });
  if (!result.ok()) return fail("doctor", result.status().message(), kExitEnvironment);
  print(result->report);
  if (result->defect.empty()) return result->exit_code;
  if (result->report.empty()) {
    print(defect_text(*result, args.json));
    return kExitFailed;
  }
  return fail("doctor", fmt::format("its process {} at {}", result->defect, result->step),
              kExitFailed);
}

}  // namespace bp::cli
