// SPDX-License-Identifier: Apache-2.0
//
// The command line of `backplane`, and nothing else: the only file that includes CLI11. What it
// does not know is refused with the nearest thing that it does.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/base/options.hpp"
#include "core/cli/cli.hpp"
#include "core/cli/text.hpp"
#include "core/cli/values.hpp"

namespace bp::cli {
namespace {

struct Parsed {
  GlobalArgs global;
  DevicesArgs devices;
  DoctorArgs doctor;
  RunArgs run;
  BenchArgs bench;
  OpsArgs ops;
  CclTraceArgs ccl_trace;
  CclStatusArgs ccl_status;
  LaunchCommand launch;
  // As written; read after parsing. The numbers begin with their defaults, for --help.
  std::string plugin_path;
  std::vector<std::string> plugin_options, inputs, dims, expected;
  std::string rtol = number_text(RunArgs().rtol);
  std::string atol = number_text(RunArgs().atol);
  std::string repeat = std::to_string(RunArgs().repeat);
  std::string seed = std::to_string(RunArgs().seed);
  std::string bench_threads = std::to_string(BenchArgs().threads);
  std::string bench_seconds = number_text(BenchArgs().seconds);
  std::string local_count = std::to_string(LaunchCommand().local_count);
  std::string node_count = std::to_string(LaunchCommand().node_count);
  std::string node_rank = std::to_string(LaunchCommand().node_rank);
  std::string grace = std::to_string(LaunchCommand().grace_seconds);
  std::string restarts = std::to_string(LaunchCommand().restarts);
  std::string rank_devices;
};

constexpr size_t kHelpColumn = 34;
// Each run's time is kept until the end.
constexpr uint64_t kMaxRepeat = 1'000'000'000;
constexpr uint64_t kMaxThreads = 1024;
constexpr const char* kDimShape = "NAME=N[..MAX]";

constexpr const char* kExitCodes =
    "Exit codes: 0 ok; 1 a wrong result or a failed check; 2 usage; 3 environment (no plugin "
    "gives\n"
    "a device, a bad BACKPLANE_* variable, outputs that cannot be written); 4 the model, an input "
    "or\n"
    "an expected output; 5 the device (not here, no way to run an operator, out of memory, lost).";

constexpr const char* kLaunchEnd =
    "Ranks see BACKPLANE_CCL_RANK and others (docs/launch.md), and bpa_ccl_job_create reads them.\n"
    "\n"
    "Exit code: that of the first rank that failed, 128 and the number of a signal that ended it;\n"
    "else 0; 2 usage; 3 environment (no such program, no store, a node that did not come).";

/// The BACKPLANE_* variables in the columns of the options above them.
std::string environment_help() {
  std::string text = "Environment variables:\n";
  for (const OptionRow& row : option_rows()) {
    std::string line = "  " + std::string(row.name) + " ";
    line += row.choices.empty() ? row.type : row.choices;
    if (!row.default_value.empty()) line += "=" + std::string(row.default_value);
    if (line.size() >= kHelpColumn) {
      text += line + "\n";
      line.clear();
    }
    line.resize(kHelpColumn, ' ');
    text += line + std::string(row.help) + "\n";
  }
  return text;
}

/// One value per option, so that a list option never swallows MODEL.
CLI::Option* add_list(CLI::App* app, const char* name, std::vector<std::string>* out_values,
                      const char* shape, const char* help) {
  return app->add_option(name, *out_values, help)->allow_extra_args(false)->type_name(shape);
}

void add_globals(CLI::App* app, Parsed* out) {
  app->add_option(
         "--plugin-path", out->plugin_path,
         "Folders searched for plugins before BACKPLANE_PLUGIN_PATH and the installed ones")
      ->type_name("FOLDER[:FOLDER]...");
  add_list(app, "--option", &out->plugin_options, "ID.NAME=VALUE",
           "Set an option of a plugin, for example npu.memory=64MiB; may be repeated");
}

void add_run(CLI::App* app, Parsed* out) {
  CLI::App* run = app->add_subcommand("run", "Run an ONNX model on one device");
  RunArgs& args = out->run;
  run->add_option("MODEL", args.model, "The ONNX file")->required()->type_name("");
  run->add_option("--device", args.device,
                  "Where to run (default: the first device that `backplane devices` lists)")
      ->type_name("NAME");
  add_list(
      run, "--input", &out->inputs, "NAME=FILE",
      "An input: .npy, .npz (the array NAME, or FILE.npz:ARRAY), or a TensorProto .pb. An input "
      "without one is filled from --seed");
  add_list(run, "--dim", &out->dims, kDimShape,
           "Size of a symbolic dimension (default: as the given inputs have it, else 1), or the "
           "range that it must be in");
  add_list(run, "--expect", &out->expected, "NAME=FILE",
           "Compare an output: |found - expected| <= atol + rtol * |expected|, NaN equals NaN; a "
           "difference is exit code 1");
  run->add_option("--rtol", out->rtol, "Relative tolerance of --expect")
      ->capture_default_str()
      ->type_name("NUMBER");
  run->add_option("--atol", out->atol, "Absolute tolerance of --expect")
      ->capture_default_str()
      ->type_name("NUMBER");
  run->add_option("--output", args.output_folder,
                  "Write each output to NAME.npy there; characters that do not belong in a file "
                  "name become _")
      ->type_name("FOLDER");
  run->add_option("--repeat", out->repeat, "How many times to run")
      ->capture_default_str()
      ->type_name("N");
  run->add_option("--seed", out->seed,
                  "What missing inputs are made from: floats in [0, 1), others 0 or 1")
      ->capture_default_str()
      ->type_name("N");
  run->add_flag("--read-weights", args.read_weights,
                "Read the model's files into memory; mapped ones must not shrink meanwhile");
  run->add_flag("--placement", args.placement, "Show how each node runs, with kernels and reasons");
  run->add_flag("--json", args.json, "JSON for programs");
}

void add_bench(CLI::App* app, Parsed* out) {
  CLI::App* bench = app->add_subcommand("bench", "Measure how long an ONNX model takes");
  BenchArgs& args = out->bench;
  bench->add_option("MODEL", args.model, "The ONNX file")->required()->type_name("");
  bench
      ->add_option("--device", args.device,
                   "Where to run (default: the first device that `backplane devices` lists)")
      ->type_name("NAME");
  bench
      ->add_option(
          "--threads", out->bench_threads,
          "The option `threads` of the device's and the host device's plugins; 0: as it is")
      ->capture_default_str()
      ->type_name("N");
  add_list(bench, "--dim", &out->dims, kDimShape,
           "Size of a symbolic dimension (default: as the vectors have it, else 1), or the range "
           "that the session is made for, where the vectors have the size");
  bench->add_option("--seconds", out->bench_seconds, "How long to measure, 3 runs at least")
      ->capture_default_str()
      ->type_name("NUMBER");
  bench
      ->add_option("--vectors", args.vectors,
                   "An .npz with inputs (in/NAME) and expected outputs (out/NAME): |found - "
                   "expected| <= 1e-3 |expected| + 1e-4 rms(expected); a difference is exit code 1")
      ->type_name("FILE");
  bench
      ->add_option("--seed", out->seed,
                   "What missing inputs are made from: floats in [0, 1), indices in range, others "
                   "0 or 1")
      ->capture_default_str()
      ->type_name("N");
  bench->add_flag("--read-weights", args.read_weights,
                  "Read the model's files into memory; mapped ones must not shrink meanwhile");
  bench->add_flag("--profile", args.profile,
                  "Also each kernel's share, from further runs that wait after every step");
  bench->add_flag("--json", args.json, "JSON for programs, with the time of every run");
}

void add_ops(CLI::App* app, Parsed* out) {
  CLI::App* ops = app->add_subcommand("ops", "Show how each operator runs on a device");
  OpsArgs& args = out->ops;
  ops->add_option("--device", args.device,
                  "Which one (default: the first device that `backplane devices` lists)")
      ->type_name("NAME");
  CLI::Option* missing =
      ops->add_option("--missing", args.models,
                      "Instead, the kernels to write next for these models, what helps most first");
  missing->type_name("MODEL");
  ops->add_flag("--decompositions", args.decompositions,
                "Instead, the primitives and views that decompositions need, and which of them "
                "the device lacks")
      ->excludes(missing);
  ops->add_flag("--json", args.json, "JSON for programs");
}

void add_ccl(CLI::App* app, Parsed* out) {
  CLI::App* ccl = app->add_subcommand("ccl", "Look into process groups");
  ccl->require_subcommand(0, 1);
  CLI::App* trace = ccl->add_subcommand(
      "trace", "Say what the dumps of the ranks show; exit code 1 if something is wrong");
  CclTraceArgs& args = out->ccl_trace;
  trace
      ->add_option("DUMP", args.dumps,
                   "Files that the ranks wrote, or folders of such files (*.json)")
      ->required()
      ->type_name("");
  trace->add_flag("--json", args.json, "JSON for programs");
  CLI::App* status = ccl->add_subcommand(
      "status", "Say how far the groups of running processes are; exit code 1 if one has failed");
  status
      ->add_option("PATH", out->ccl_status.path,
                   "What BACKPLANE_CCL_STATUS is there: a socket, or a folder of sockets")
      ->required()
      ->type_name("");
  status->add_flag("--json", out->ccl_status.json, "JSON for programs");
}

void add_launch(CLI::App* app, Parsed* out) {
  CLI::App* launch = app->add_subcommand(
      "launch", "Start the ranks of a job: backplane launch -n 4 -- PROGRAM [ARGUMENT]...");
  LaunchCommand& args = out->launch;
  const auto number = [&](const char* name, std::string* value, const char* help) {
    launch->add_option(name, *value, help)->capture_default_str()->type_name("N");
  };
  number("-n,--ranks", &out->local_count, "Ranks on this node");
  launch
      ->add_option("--devices", out->rank_devices,
                   "The device of each rank here, or one for all; the program asks its job for it")
      ->type_name("NAME[,NAME]...");
  number("--grace", &out->grace, "Seconds from SIGTERM to SIGKILL for the ranks that are left");
  number("--restarts", &out->restarts, "How often all ranks start again after one failed");
  launch->add_flag("--keep-going", args.keep_going,
                   "A rank here that ends badly does not end the others; the exit code stays its");
  number("--nnodes", &out->node_count, "Nodes, each with a launcher of its own");
  number("--node-rank", &out->node_rank, "Which of them this is, from 0");
  launch
      ->add_option("--rdzv", args.rendezvous,
                   "Where the launcher of node 0 listens, and the others find it; on node 0 also "
                   "INTERFACE:PORT (default: a free port of 127.0.0.1, for one node)")
      ->type_name("ADDRESS:PORT");
  launch
      ->add_option("--token-file", args.token_file,
                   "The job's token, for several nodes: 64 hexadecimal digits in a file of mode "
                   "0600 (default: BACKPLANE_CCL_TOKEN_FILE)")
      ->type_name("FILE");
}

/// Also in the commands of commands.
void set_habits(CLI::App* command) {
  command->fallthrough()->allow_extras()->footer(
      std::string("--plugin-path and --option (`backplane --help`) may stand here too.\n\n") +
      kExitCodes);
  for (CLI::App* inner : command->get_subcommands({})) set_habits(inner);
}

void add_commands(CLI::App* app, Parsed* out) {
  CLI::App* devices = app->add_subcommand("devices", "List the devices that plugins give");
  devices->add_flag("-v,--verbose", out->devices.verbose,
                    "Also what is native, emulated or absent, and the plugins left out");
  devices->add_flag("--json", out->devices.json, "JSON for programs");
  CLI::App* doctor = app->add_subcommand(
      "doctor", "Check every plugin and device; exit code 1 if something is wrong");
  doctor->add_flag("--json", out->doctor.json, "JSON for programs");
  add_run(app, out);
  add_bench(app, out);
  add_ops(app, out);
  add_ccl(app, out);
  add_launch(app, out);
  for (CLI::App* command : app->get_subcommands({})) set_habits(command);
  app->get_subcommand("launch")->footer(kLaunchEnd);
}

/// "ccl trace".
std::string full_name(const CLI::App* command) {
  const CLI::App* const outer = command->get_parent();
  const bool is_inner = outer != nullptr && outer->get_parent() != nullptr;
  return (is_inner ? full_name(outer) + " " : "") + command->get_name();
}

int usage_error(const std::string& words, const CLI::App* command) {
  std::fprintf(stderr, "backplane: %s\nSee `backplane %s%s--help`.\n", visible(words).c_str(),
               command == nullptr ? "" : full_name(command).c_str(), command == nullptr ? "" : " ");
  return kExitUsage;
}

/// nullptr: none. A command of a command where one is named.
const CLI::App* chosen_command(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  if (chosen.empty()) return nullptr;
  const CLI::App* const inner = chosen_command(*chosen.front());
  return inner == nullptr ? chosen.front() : inner;
}

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<std::string> option_names(const CLI::App& app, const CLI::App* command) {
  std::vector<std::string> names;
  for (const CLI::App* level : {command, &app}) {
    if (level == nullptr) continue;
    for (const CLI::Option* option : level->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        // Each level has its own --help.
        const std::string text = "--" + name;
        if (std::find(names.begin(), names.end(), text) == names.end()) names.push_back(text);
      }
    }
  }
  return names;
}

/// `--device=` as `--device ''`: the parser would take the next argument as its value.
std::vector<std::string> with_empty_values(const std::vector<std::string>& arguments) {
  std::vector<std::string> result;
  bool is_behind_mark = false;
  for (const std::string& argument : arguments) {
    is_behind_mark = is_behind_mark || argument == "--";
    const bool is_empty_option = !is_behind_mark && argument.starts_with("--") &&
                                 argument.size() > 3 && argument.find('=') == argument.size() - 1;
    result.push_back(is_empty_option ? argument.substr(0, argument.size() - 1) : argument);
    if (is_empty_option) result.emplace_back();
  }
  return result;
}

/// What is wrong with how often options are given, or with values that are empty; empty: nothing.
std::string option_words(const CLI::App& app, const CLI::App* command) {
  for (const CLI::App* level : {command, &app}) {
    if (level == nullptr) continue;
    for (const CLI::Option* option : level->get_options()) {
      const std::vector<std::string>& values = option->results();
      const std::string name = option->get_name();
      if (values.size() > 1 && option->get_items_expected_max() == 1) {
        return name + " is given twice";
      }
      if (std::find(values.begin(), values.end(), "") == values.end()) continue;
      const std::string shape = option->get_type_name();
      return name + ": expected " + (shape.empty() ? "a file" : shape) + ", found ''";
    }
  }
  return "";
}

/// What was not taken, in words; empty if all was.
std::string leftover_words(const CLI::App& app, const std::vector<std::string>& arguments,
                           const std::vector<std::string>& program) {
  const CLI::App* command = chosen_command(app);
  std::vector<std::string> left = app.remaining(true);
  // The parser leaves the mark over as well, behind which nothing is an option.
  const auto mark = std::find(left.begin(), left.end(), "--");
  if (command != nullptr && mark != left.end()) left.erase(mark);
  if (command != nullptr && command->get_name() == "launch") {
    const std::string words = launch_words(arguments, left, program);
    if (!words.empty()) return words;
  }
  // The parser loses the order between levels, and a stray value may be a lost option's.
  for (const std::string& argument : arguments) {
    if (argument == "--" || argument.size() < 2 || argument.front() != '-') continue;
    if (std::find(left.begin(), left.end(), argument) == left.end()) continue;
    const std::string name = argument.substr(0, argument.find('='));
    const std::vector<std::string> names = option_names(app, command);
    if (std::find(names.begin(), names.end(), name) != names.end()) {
      return name + " belongs behind the command " + full_name(command);
    }
    return with_nearest("unknown option '" + name + "'", name, names);
  }
  if (left.empty()) return "";
  std::vector<std::string> commands;
  for (const CLI::App* each : commands_of(command == nullptr ? app : *command)) {
    commands.push_back(each->get_name());
  }
  if (commands.empty()) {
    return full_name(command) + " takes no further argument, found '" + left.front() + "'";
  }
  return with_nearest("unknown command '" + left.front() + "'", left.front(), commands);
}

std::string split_dims(const std::vector<std::string>& texts, std::vector<DimArg>* out_dims) {
  constexpr std::string_view kTo = "..";
  std::vector<NameValue> pairs;
  std::string wrong = split_pairs("--dim", kDimShape, texts, &pairs);
  if (!wrong.empty()) return wrong;
  for (const auto& [name, text] : pairs) {
    const std::string title = "--dim " + name;
    const size_t to = text.find(kTo);
    uint64_t min = 0;
    wrong = parse_whole(title, text.substr(0, to), {0, INT64_MAX}, &min);
    uint64_t max = min;
    if (wrong.empty() && to != std::string::npos) {
      wrong = parse_whole(title + "=" + text.substr(0, to) + "..", text.substr(to + kTo.size()),
                          {min, INT64_MAX}, &max);
    }
    if (!wrong.empty()) return wrong;
    out_dims->push_back({name, static_cast<int64_t>(min), static_cast<int64_t>(max)});
  }
  return "";
}

std::string read_numbers(const Parsed& parsed, RunArgs* out_args) {
  std::string wrong = parse_tolerance("--rtol", parsed.rtol, &out_args->rtol);
  if (wrong.empty()) wrong = parse_tolerance("--atol", parsed.atol, &out_args->atol);
  if (wrong.empty()) {
    wrong = parse_whole("--repeat", parsed.repeat, {1, kMaxRepeat}, &out_args->repeat);
  }
  if (wrong.empty()) wrong = parse_whole("--seed", parsed.seed, {}, &out_args->seed);
  return wrong;
}

/// Twice counted, a model's nodes would count twice.
std::string repeated_model(const std::vector<std::string>& models) {
  for (auto model = models.begin(); model != models.end(); ++model) {
    if (std::find(models.begin(), model, *model) == model) continue;
    return "--missing: " + *model + " is given twice";
  }
  return "";
}

std::string read_launch(Parsed* parsed) {
  constexpr uint64_t kMostRanks = 1024;
  constexpr uint64_t kMostNodes = 4096;
  LaunchCommand& args = parsed->launch;
  std::string wrong = parse_whole("-n", parsed->local_count, {1, kMostRanks}, &args.local_count);
  if (wrong.empty()) {
    wrong = parse_whole("--nnodes", parsed->node_count, {1, kMostNodes}, &args.node_count);
  }
  if (wrong.empty()) {
    wrong = parse_whole("--node-rank", parsed->node_rank, {0, kMostNodes - 1}, &args.node_rank);
  }
  if (wrong.empty()) wrong = parse_whole("--grace", parsed->grace, {0, 86400}, &args.grace_seconds);
  if (wrong.empty()) {
    wrong = parse_whole("--restarts", parsed->restarts, {0, 1'000'000}, &args.restarts);
  }
  std::string_view left = parsed->rank_devices;
  while (wrong.empty() && !parsed->rank_devices.empty()) {
    const size_t comma = std::min(left.find(','), left.size());
    if (comma == 0)
      return "--devices: expected NAME[,NAME]..., found '" + parsed->rank_devices + "'";
    args.devices.emplace_back(left.substr(0, comma));
    if (comma == left.size()) break;
    left.remove_prefix(comma + 1);
  }
  return wrong;
}

/// What is wrong with the values; empty: nothing.
std::string split_values(Parsed* parsed) {
  std::string path = parsed->plugin_path;
  while (!path.empty()) {
    const size_t colon = std::min(path.find(':'), path.size());
    if (colon > 0) parsed->global.plugin_path.push_back(path.substr(0, colon));
    path.erase(0, colon + 1);
  }
  if (!parsed->plugin_path.empty() && parsed->global.plugin_path.empty()) {
    return "--plugin-path: expected FOLDER[:FOLDER]..., found '" + parsed->plugin_path + "'";
  }
  std::string wrong = split_pairs("--option", "ID.NAME=VALUE", parsed->plugin_options,
                                  &parsed->global.plugin_options);
  for (const auto& [name, value] : parsed->global.plugin_options) {
    if (wrong.empty() && name.find('.') == std::string::npos) {
      wrong = "--option: expected ID.NAME=VALUE, found '" + name + "=" + value + "'";
    }
  }
  RunArgs& run = parsed->run;
  if (wrong.empty()) wrong = split_pairs("--input", "NAME=FILE", parsed->inputs, &run.inputs);
  if (wrong.empty()) wrong = split_pairs("--expect", "NAME=FILE", parsed->expected, &run.expected);
  if (wrong.empty()) wrong = split_dims(parsed->dims, &run.dims);
  if (wrong.empty()) wrong = read_numbers(*parsed, &run);
  parsed->bench.dims = run.dims;
  parsed->bench.seed = run.seed;
  if (wrong.empty()) {
    wrong =
        parse_whole("--threads", parsed->bench_threads, {0, kMaxThreads}, &parsed->bench.threads);
  }
  if (wrong.empty()) {
    wrong = parse_seconds("--seconds", parsed->bench_seconds, &parsed->bench.seconds);
  }
  if (wrong.empty()) wrong = repeated_model(parsed->ops.models);
  if (wrong.empty()) wrong = read_launch(parsed);
  return wrong;
}

int dispatch(const CLI::App& command, const Parsed& parsed) {
  const std::string name = full_name(&command);
  if (name == "devices") return run_devices(parsed.global, parsed.devices);
  if (name == "doctor") return run_doctor(parsed.global, parsed.doctor);
  if (name == "bench") return run_bench(parsed.global, parsed.bench);
  if (name == "ops") return run_ops(parsed.global, parsed.ops);
  if (name == "ccl trace") return run_ccl_trace(parsed.ccl_trace);
  if (name == "ccl status") return run_ccl_status(parsed.ccl_status);
  if (name == "launch") return run_launch(parsed.global, parsed.launch);
  return run_model(parsed.global, parsed.run);
}

/// --help or --version, through print() as everything else.
int answer(const CLI::App& app, const CLI::Success& asked) {
  std::ostringstream text;
  const int exit_code = app.exit(asked, text);
  std::string words = text.str();
  // The program is no argument that the parser knows.
  constexpr std::string_view kUsage = "Usage: backplane launch [OPTIONS]";
  const size_t usage = words.find(kUsage);
  if (usage != std::string::npos) words.insert(usage + kUsage.size(), " -- PROGRAM [ARGUMENT]...");
  print(words);
  return exit_code;
}

/// What stands behind the first "--" of launch is another program's, and nothing of it is an option
/// here. It is taken from the arguments.
std::vector<std::string> take_program(std::vector<std::string>* arguments) {
  const auto mark = std::find(arguments->begin(), arguments->end(), "--");
  if (mark == arguments->end() || std::find(arguments->begin(), mark, "launch") == mark) return {};
  std::vector<std::string> program(mark + 1, arguments->end());
  arguments->erase(mark, arguments->end());
  return program;
}

int run(std::vector<std::string> given) {
  CLI::App app("Runs models on whatever devices the installed plugins give.", "backplane");
  Parsed parsed;
  parsed.launch.program = take_program(&given);
  app.set_version_flag("--version", "backplane " BACKPLANE_VERSION, "Print the version and exit");
  app.allow_extras();
  app.require_subcommand(0, 1);
  app.footer(environment_help() + "\n" + kExitCodes);
  app.get_formatter()->column_width(kHelpColumn);
  add_globals(&app, &parsed);
  add_commands(&app, &parsed);
  const std::vector<std::string> arguments = with_empty_values(given);
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  std::string wrong;
  try {
    app.parse(reversed);
  } catch (const CLI::Success& asked) {
    return answer(app, asked);
  } catch (const CLI::ParseError& error) {
    wrong = error.what();
  }
  const std::string left = leftover_words(app, arguments, parsed.launch.program);
  if (!left.empty()) return usage_error(left, chosen_command(app));
  // Before the parser's own words: "At Most 1 required but received 2".
  if (const std::string words = option_words(app, chosen_command(app)); !words.empty()) {
    return usage_error(words, chosen_command(app));
  }
  if (!wrong.empty()) return usage_error(wrong, chosen_command(app));
  const CLI::App* const command = chosen_command(app);
  if (command == nullptr || !commands_of(*command).empty()) {
    const std::string help = command == nullptr ? app.help() : command->help(app.get_name());
    std::fputs(help.c_str(), stderr);
    return kExitUsage;
  }
  wrong = split_values(&parsed);
  if (!wrong.empty()) return usage_error(wrong, command);
  return dispatch(*command, parsed);
}

/// A full disk may show only when the last bytes leave the buffer, so this comes after every
/// command. What the command itself found wrong stays the exit code.
int finish(int exit_code) {
  if (flush_output()) return exit_code;
  const std::string reason = errno == 0 ? "" : ": " + std::generic_category().message(errno);
  std::fprintf(stderr, "backplane: cannot write to standard output%s\n", reason.c_str());
  return exit_code == kExitOk ? kExitEnvironment : exit_code;
}

}  // namespace
}  // namespace bp::cli

int main(int argc, char** argv) {
  try {
    return bp::cli::finish(bp::cli::run(std::vector<std::string>(argv + 1, argv + argc)));
  } catch (const bp::NoMemory& named) {
    std::fprintf(stderr, "backplane: %s\n", bp::cli::visible(named.what()).c_str());
    return bp::cli::kExitDevice;
  } catch (const std::bad_alloc&) {
    std::fputs("backplane: out of host memory\n", stderr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "backplane: %s\n", bp::cli::visible(error.what()).c_str());
  }
  return bp::cli::kExitEnvironment;
}
