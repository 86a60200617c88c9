// SPDX-License-Identifier: Apache-2.0
//
// `backplane run`, in the order of the journey: devices, model, inputs, session, runs, outputs,
// comparison. Each stage knows the exit code of its failures.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>

#include "core/cli/cli.hpp"
#include "core/cli/environment.hpp"
#include "core/cli/files/files.hpp"
#include "core/cli/run_report.hpp"
#include "core/cli/text.hpp"
#include "core/dispatch/call.hpp"
#include "ops/onnx/import.hpp"

namespace bp::cli {
namespace {

/// What the session or its run refused is the model's or an input's; everything else the device's.
int session_failure_code(const Status& status) {
  return status.code() == BP_INVALID_ARGUMENT ? kExitModel : kExitDevice;
}

/// From values on the host to values on the host: what a caller waits for.
Status run_once(Session& session, std::span<const NamedTensor> inputs, double* out_ns,
                std::vector<HostTensor>* out_values) {
  const auto begin = std::chrono::steady_clock::now();
  BP_TRY_ASSIGN(const auto outputs, session.run(inputs));
  BP_TRY_ASSIGN(std::vector<HostTensor> values, copy_to_host(outputs));
  const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - begin;
  *out_ns = taken.count();
  *out_values = std::move(values);
  return {};
}

Status run_all(Session& session, uint64_t repeat, RunReport* report) {
  std::vector<NamedTensor> inputs;
  for (const NamedArray& input : report->inputs) {
    inputs.emplace_back(input.name, Tensor::wrap_host(input.tensor));
  }
  std::vector<double> times_ns;
  std::vector<HostTensor> values;
  for (uint64_t i = 0; i < repeat; ++i) {
    double taken_ns = 0;
    BP_TRY(run_once(session, inputs, &taken_ns, &values));
    times_ns.push_back(taken_ns);
  }
  report->latency.run_count = repeat;
  report->latency.first_ns = times_ns.front();
  if (repeat > 1) times_ns.erase(times_ns.begin());
  std::sort(times_ns.begin(), times_ns.end());
  report->latency.min_ns = times_ns.front();
  report->latency.median_ns = times_ns[times_ns.size() / 2];
  for (size_t i = 0; i < values.size(); ++i) {
    report->outputs.push_back({session.outputs()[i].name, std::move(values[i]), ""});
  }
  report->counts = session.placement_counts();
  report->placements = session.placements();
  report->memory = session.memory_plan();
  return {};
}

/// Letters, digits, '.', '-' and '_' stay; a name that something else has already gets a number.
std::string safe_file_name(const std::string& name, std::set<std::string>* taken) {
  std::string safe = name.empty() ? "_" : name;
  for (char& c : safe) {
    const bool is_safe = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
    if (!is_safe) c = '_';
  }
  if (safe.front() == '.') safe.front() = '_';
  std::string unique = safe;
  for (int number = 2; !taken->insert(unique).second; ++number) {
    unique = safe + "_" + std::to_string(number);
  }
  return unique;
}

Status write_outputs(const std::string& folder, RunReport* report) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return Status(BP_UNAVAILABLE,
                  "--output: cannot make the folder " + folder + ": " + error.message());
  }
  std::set<std::string> taken;
  for (OutputReport& output : report->outputs) {
    const auto path =
        std::filesystem::path(folder) / (safe_file_name(output.name, &taken) + ".npy");
    const Status status = write_npy(path.string(), output.tensor);
    if (!status.ok()) return status.with_prefix("output '" + output.name + "'");
    output.file = path.string();
  }
  return {};
}

Status compare_outputs(const RunArgs& args, const std::vector<NamedArray>& expected,
                       RunReport* report) {
  for (const NamedArray& array : expected) {
    const auto output =
        std::find_if(report->outputs.begin(), report->outputs.end(),
                     [&](const OutputReport& each) { return each.name == array.name; });
    auto comparison = compare(output->tensor, array.tensor, {args.rtol, args.atol});
    if (!comparison.ok()) {
      return comparison.status().with_prefix("--expect " + array.name);
    }
    report->checks.push_back({array.name, array.source, std::move(*comparison)});
  }
  return {};
}

int finish(const RunArgs& args, const std::vector<NamedArray>& expected, RunReport* report) {
  // Before the writing, since an output may replace the file that it is compared with.
  const Status compared = compare_outputs(args, expected, report);
  if (!args.output_folder.empty()) {
    const Status written = write_outputs(args.output_folder, report);
    if (!written.ok()) return fail("run", written.message(), kExitEnvironment);
  }
  if (!compared.ok()) return fail("run", compared.message(), kExitModel);
  print(args.json ? report_json(args, *report) : report_text(args, *report));
  int exit_code = kExitOk;
  for (const CheckReport& check : report->checks) {
    if (check.comparison.passed) continue;
    exit_code = fail(
        "run",
        "output '" + check.name + "' is not as in " + check.file + ": " + check.comparison.words,
        kExitFailed);
  }
  return exit_code;
}

int run_on(Runtime& runtime, Device& device, const RunArgs& args) {
  auto graph = load_onnx(args.model, runtime.registry(), {.read = args.read_weights});
  if (!graph.ok()) return fail("run", graph.status().message(), kExitModel);
  const auto expected = read_arrays(args.expected, output_names(*graph), "output");
  if (!expected.ok()) return fail("run", expected.status().message(), kExitModel);
  auto inputs = read_arrays(args.inputs, input_names(*graph), "input");
  if (!inputs.ok()) return fail("run", inputs.status().message(), kExitModel);

  RunReport report;
  report.device = device.name();
  report.inputs = std::move(*inputs);
  auto dims = find_dims(*graph, args.dims, report.inputs);
  if (!dims.ok()) return fail("run", dims.status().message(), kExitModel);
  report.dims = std::move(*dims);
  const auto session = open_session(runtime, device, std::move(*graph), args.dims);
  if (!session.ok()) {
    return fail("run", session.status().message(), session_failure_code(session.status()));
  }
  const Status filled = fill_missing(**session, report.dims, args.seed, {}, &report.inputs);
  if (!filled.ok()) return fail("run", filled.message(), kExitModel);
  const Status ran = run_all(**session, args.repeat, &report);
  if (!ran.ok()) {
    return fail("run", ran.message() + words_of_guesses(**session, report.dims, report.inputs),
                session_failure_code(ran));
  }
  return finish(args, *expected, &report);
}

}  // namespace

int run_model(const GlobalArgs& global, const RunArgs& args) {
  const auto runtime = open_runtime(global);
  if (!runtime.ok()) {
    return fail("run", runtime.status().message(), open_failure_code(global, runtime.status()));
  }
  const auto device = choose_device(**runtime, args.device);
  if (!device.ok()) {
    return fail("run", device.status().message(), device_failure_code(**runtime));
  }
  return run_on(**runtime, **device, args);
}

}  // namespace bp::cli
