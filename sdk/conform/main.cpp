// SPDX-License-Identifier: Apache-2.0
//
// The command bp-conform: what is to be tried on which plugin, and where the answers go. The only
// file of the kit that reads a command line. Exit codes: 0 all passed, 1 a check failed or none was
// run, 2 usage, 3 nothing to test on this machine, or no place for the report.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "core/base/options.hpp"
#include "sdk/conform/exceptions.hpp"
#include "sdk/conform/platform.hpp"
#include "sdk/conform/report.hpp"
#include "sdk/conform/runner.hpp"

namespace bp::conform {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;
constexpr int kExitEnvironment = 3;

struct Arguments {
  std::vector<std::string> plugins;
  std::vector<std::string> absent_allowed;
  std::vector<std::string> exceptions;
  std::vector<std::string> options;
  std::vector<int> levels;
  uint32_t device = 0;
  std::string emulate;
  std::string report_folder;
  std::string report_name = "cases";
  std::string junit;
  std::string html;
  bool json = false;
  bool list = false;
  RunOptions run;
};

/// For people who wait: a line each few seconds, on a terminal the same line.
class Progress {
 public:
  explicit Progress(std::string device) : device_(std::move(device)) {}
  void end() const {
    if (told_ && is_terminal_) std::fputs("\r\033[K", stderr);
  }

  void tell(size_t done, size_t total) {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return;
    next_ = now + kPause;
    told_ = true;
    std::fprintf(stderr, "%sbp-conform: %s: %zu of %zu cases done%s", is_terminal_ ? "\r" : "",
                 device_.c_str(), done, total, is_terminal_ ? "" : "\n");
    std::fflush(stderr);
  }

 private:
  const std::string device_;
  static constexpr auto kPause = std::chrono::seconds(5);
  const bool is_terminal_ = has_terminal();
  std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now() + kPause;
  bool told_ = false;
};

/// What an option's value must be, in our words and not the parser's.
template <class Number>
CLI::Validator in_range(Number least, Number most, const std::string& expected) {
  return CLI::Validator(
      [=](const std::string& text) {
        Number value{};
        const char* const end = text.data() + text.size();
        const auto [read, error] = std::from_chars(text.data(), end, value);
        const bool fits = error == std::errc() && read == end && value >= least && value <= most;
        return fits ? std::string() : "expected " + expected + ", found '" + text + "'";
      },
      "");
}

CLI::Validator whole_from(uint64_t least, uint64_t most) {
  return in_range(least, most,
                  "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
}

CLI::Validator positive() { return in_range(1e-9, 1e9, "a number above 0"); }

/// One value per option, so that a list never swallows PLUGIN.
template <class List>
CLI::Option* add_list(CLI::App* app, const char* name, List* out_values, const char* help) {
  return app->add_option(name, *out_values, help)->allow_extra_args(false);
}

void declare(CLI::App* app, Arguments* arguments) {
  app->add_option("PLUGIN", arguments->plugins,
                  "the library of a plugin with its manifest beside it, or its folder");
  add_list(app, "--level", &arguments->levels,
           "0 ABI, 1 runtime, 2 memory, 3 kernels, 4 collectives; repeatable, all if not given")
      ->check(whole_from(0, kHighestLevel))
      ->type_name("N");
  add_list(app, "--filter", &arguments->run.filters,
           "id of a case or its beginning up to a dot, with * for any text; repeatable");
  app->add_option("--device", arguments->device, "index of the device")
      ->check(whole_from(0, UINT32_MAX))
      ->capture_default_str()
      ->type_name("N");
  add_list(app, "--options", &arguments->options,
           "NAME=VALUE, an option of the plugin, or ID.NAME=VALUE; repeatable");
  app->add_flag("--json", arguments->json, "print the report as JSON instead of text");
  app->add_option("--junit", arguments->junit, "write all rows as JUnit XML to this file");
  app->add_option("--html", arguments->html, "write a score card as one page to this file");
  app->add_flag("--list", arguments->list, "print the ids that the other options choose, and end");
  app->add_option("--jobs", arguments->run.jobs, "children at a time")
      ->check(whole_from(1, 64))
      ->capture_default_str()
      ->type_name("N");
  app->add_option("--deadline", arguments->run.deadline_s, "of one case, in seconds")
      ->check(positive())
      ->capture_default_str()
      ->type_name("NUMBER");
  app->add_option("--slowness", arguments->run.slowness, "deadlines are multiplied by this")
      ->check(positive())
      ->capture_default_str()
      ->type_name("NUMBER");
  app->add_option("--batch", arguments->run.batch, "cases of levels 1 and 2 in one child")
      ->check(whole_from(1, 1024))
      ->capture_default_str()
      ->type_name("N");
  app->add_flag("--fail-fast", arguments->run.fail_fast,
                "end at the first case that fails; those that are left are NOT RUN");
  app->add_option("--emulate", arguments->emulate,
                  "take these bands from the device, and run in this mode alone: async,fill");
  app->add_flag("--each-band", arguments->run.each_band,
                "also take each band alone, and let the core make one call at a time");
  add_list(app, "--exceptions", &arguments->exceptions,
           "ID=FILE of cases that are known to fail; if not given, conformance.json beside the "
           "plugin, where there is one");
  add_list(app, "--may-be-absent", &arguments->absent_allowed,
           "like PLUGIN, but it is fine if this machine lacks the hardware");
  app->add_option("--report", arguments->report_folder, "write NAME.json and NAME.md there");
  app->add_option("--report-name", arguments->report_name, "NAME")->capture_default_str();
}

Result<std::vector<OptionSetting>> parse_settings(const std::vector<std::string>& texts) {
  std::vector<OptionSetting> settings;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Status(BP_INVALID_ARGUMENT, "'" + text + "': expected <name>=<value>");
    }
    settings.push_back({text.substr(0, equals), text.substr(equals + 1)});
  }
  return settings;
}

/// Without an id an option is that of every plugin that is tried.
void name_options(const Manifest& manifest, std::vector<OptionSetting>* settings) {
  for (OptionSetting& setting : *settings) {
    if (setting.name.find('.') == std::string::npos) {
      setting.name = manifest.id + "." + setting.name;
    }
  }
}

/// An option of a plugin that is not tried would be lost silently.
Status check_ids(std::span<const OptionSetting> settings, std::span<const DeviceRows> devices) {
  for (const OptionSetting& setting : settings) {
    const size_t dot = setting.name.find('.');
    if (dot == std::string::npos) continue;
    const std::string id = setting.name.substr(0, dot);
    const bool known = std::any_of(devices.begin(), devices.end(), [&](const DeviceRows& device) {
      return device.target.manifest.id == id;
    });
    if (known) continue;
    return Status(BP_INVALID_ARGUMENT,
                  "option " + setting.name + ": plugin '" + id + "' is not among those tried");
  }
  return {};
}

/// The exceptions for one plugin: those that were named, or those that lie beside it.
Status excuse(const std::vector<OptionSetting>& files, DeviceRows* device) {
  const Target& target = device->target;
  std::vector<std::string> paths;
  for (const OptionSetting& file : files) {
    if (file.name == target.manifest.id) paths.push_back(file.value);
  }
  const std::string beside = target.folder + "/conformance.json";
  if (paths.empty() && std::filesystem::exists(beside)) paths.push_back(beside);
  const CaseList list = all_cases();  // of all levels: exceptions are for all of them
  for (const std::string& path : paths) {
    BP_TRY_ASSIGN(const auto known, read_exceptions(path));
    BP_TRY(apply_exceptions(known, list.cases(), today(), device));
  }
  return {};
}

void print(const DeviceRows& device) {
  if (!device.absent.empty()) {
    std::printf("%s: absent: %s\n", device.target.device_name().c_str(), device.absent.c_str());
    return;
  }
  for (const Row& row : device.rows) {
    const Verdict verdict = row.outcome.verdict;
    if (verdict == Verdict::kPass || verdict == Verdict::kUnsupported) continue;
    if (verdict == Verdict::kNotRun && row.outcome.words.empty()) continue;  // --fail-fast
    std::printf("%s %s: %s\n  %s\n", std::string(verdict_name(verdict)).c_str(),
                row.tested->id.c_str(), row.outcome.words.c_str(),
                repeat_command(device, row).c_str());
  }
  std::printf("%s\n", totals_line({&device, 1}).c_str());
  std::fflush(stdout);
}

Status run_all(Arguments& arguments, std::span<const Case> cases,
               std::vector<DeviceRows>* out_devices) {
  BP_TRY_ASSIGN(const auto given, parse_settings(arguments.options));
  BP_TRY_ASSIGN(const auto exceptions, parse_settings(arguments.exceptions));
  BP_TRY_ASSIGN(arguments.run.masked, parse_bands(arguments.emulate));
  if (arguments.run.masked != 0) arguments.run.emulated = false;
  const auto run = [&](const std::string& plugin, bool may_be_absent) -> Status {
    BP_TRY_ASSIGN(const Target found, find_target(plugin, arguments.device, {}));
    std::vector<OptionSetting> options = given;
    name_options(found.manifest, &options);
    BP_TRY_ASSIGN(const Target target, find_target(plugin, arguments.device, options));
    RunOptions wanted = arguments.run;
    Progress progress(target.device_name());
    if (!arguments.json) {
      wanted.on_progress = [&](size_t done, size_t total) { progress.tell(done, total); };
    }
    BP_TRY_ASSIGN(DeviceRows device, run_cases(cases, target, wanted));
    progress.end();
    BP_TRY(excuse(exceptions, &device));
    if (!arguments.json) print(device);
    if (!device.absent.empty() && !may_be_absent) return Status(BP_UNAVAILABLE, device.absent);
    out_devices->push_back(std::move(device));
    return {};
  };
  for (const std::string& plugin : arguments.plugins) BP_TRY(run(plugin, false));
  for (const std::string& plugin : arguments.absent_allowed) BP_TRY(run(plugin, true));
  return check_ids(given, *out_devices);
}

/// ENVIRONMENT where a file cannot be written: a report that is not there would be missed later.
Status write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  if (file.good()) return {};
  return Status(BP_UNAVAILABLE, path + ": cannot be written");
}

Status write_reports(const Arguments& arguments, std::span<const DeviceRows> devices,
                     size_t case_count) {
  if (!arguments.junit.empty()) BP_TRY(write_file(arguments.junit, report_junit(devices)));
  if (!arguments.html.empty()) {
    BP_TRY(write_file(arguments.html, report_html(devices, case_count)));
  }
  if (arguments.report_folder.empty()) return {};
  std::error_code error;
  std::filesystem::create_directories(arguments.report_folder, error);
  const std::string stem = arguments.report_folder + "/" + arguments.report_name;
  BP_TRY(write_file(stem + ".json", report_json(devices, case_count)));
  return write_file(stem + ".md", report_markdown(devices, case_count));
}

int usage_error(const std::string& words) {
  std::fprintf(stderr, "bp-conform: %s\nSee `bp-conform --help`.\n", words.c_str());
  return kExitUsage;
}

/// The first argument that no option took, in words; empty: all were taken.
std::string leftover_words(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  for (const std::string& argument : app.remaining()) {
    const std::string name = argument.substr(0, argument.find('='));
    return with_nearest("unknown option '" + name + "'", name, names);
  }
  return "";
}

int complain(const Status& status) {
  std::fprintf(stderr, "bp-conform: %s\n", status.to_string().c_str());
  if (status.code() == BP_INVALID_ARGUMENT) return kExitUsage;
  return status.code() == BP_UNAVAILABLE ? kExitEnvironment : kExitFailed;
}

std::vector<Case> chosen_levels(const Arguments& arguments) {
  const CaseList list = all_cases();
  std::vector<Case> cases;
  for (const Case& tested : list.cases()) {
    const auto& levels = arguments.levels;
    const bool wanted =
        levels.empty() || std::find(levels.begin(), levels.end(), tested.level()) != levels.end();
    if (wanted) cases.push_back(tested);
  }
  return cases;
}

int list_cases(const Arguments& arguments, std::span<const Case> cases) {
  const auto chosen = choose_cases(cases, arguments.run.filters);
  if (!chosen.ok()) return complain(chosen.status());
  for (const Case* tested : *chosen) std::printf("%s\n", tested->id.c_str());
  return 0;
}

int run(Arguments& arguments) {
  const std::vector<Case> cases = chosen_levels(arguments);
  if (arguments.list) return list_cases(arguments, cases);
  if (arguments.plugins.empty() && arguments.absent_allowed.empty()) {
    return usage_error("PLUGIN is missing");
  }
  std::vector<DeviceRows> devices;
  const Status status = run_all(arguments, cases, &devices);
  if (!status.ok()) return complain(status);
  const Status written = write_reports(arguments, devices, cases.size());
  if (!written.ok()) return complain(written);
  size_t executed = 0;
  size_t failed = 0;
  for (const DeviceRows& device : devices) {
    executed += device.executed_count();
    failed += device.failed_count();
  }
  if (arguments.json) {
    std::fputs(report_json(devices, cases.size()).c_str(), stdout);
  } else if (devices.size() > 1) {
    std::printf("%s\n", totals_line(devices).c_str());
  }
  if (executed == 0) std::fprintf(stderr, "bp-conform: no case was run\n");
  return executed == 0 || failed != 0 ? kExitFailed : 0;
}

}  // namespace
}  // namespace bp::conform

int main(int argc, char** argv) {
  bp::conform::Arguments arguments;
  CLI::App app("Runs the conformance cases on plugins, each in a child with a deadline",
               "bp-conform");
  app.footer(
      "Exit codes: 0 all passed; 1 a case failed, or none was run; 2 usage; 3 the hardware is not "
      "here, or\na report cannot be written.");
  app.set_version_flag("--version", "bp-conform " BACKPLANE_VERSION, "print the version and end");
  app.allow_extras();
  bp::conform::declare(&app, &arguments);
  std::string wrong;
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    wrong = error.what();
  }
  // The value of a misspelt option is taken for something else, which is not what is wrong.
  const std::string left = bp::conform::leftover_words(app);
  if (!left.empty()) return bp::conform::usage_error(left);
  if (!wrong.empty()) return bp::conform::usage_error(wrong);
  return bp::conform::run(arguments);
}
