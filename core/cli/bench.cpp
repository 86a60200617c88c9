// SPDX-License-Identifier: Apache-2.0
//
// `backplane bench`: how long a model takes, from values on the host to values that the host can
// read. All runs are kept, so that whoever compares may choose what to compare.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/base/log.hpp"
#include "core/cli/cli.hpp"
#include "core/cli/environment.hpp"
#include "core/cli/json.hpp"
#include "core/cli/peak_memory.hpp"
#include "core/cli/profile.hpp"
#include "core/cli/run_inputs.hpp"
#include "core/cli/text.hpp"
#include "core/cli/vectors.hpp"
#include "core/dispatch/call.hpp"
#include "ops/onnx/import.hpp"

namespace bp::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Nobody waits longer, and a number of runs is all that more time would give.
constexpr size_t kMostRuns = 1'000'000;
constexpr size_t kFewestRuns = 3;
constexpr int kWarmRuns = 3;

struct BenchReport {
  std::string device;
  std::vector<DimSource> dims;
  std::vector<NamedArray> inputs;
  uint64_t create_ns = 0;  // from the file to a session
  uint64_t first_ns = 0;   // with planning, where sizes were not known before
  std::vector<uint64_t> latency_ns;
  uint64_t peak_bytes = 0;
  std::vector<ProfileRow> profile;  // empty: not asked for
  bool is_checked = false;
  Deviation deviation;
};

uint64_t since(Clock::time_point begin) {
  const auto taken = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin);
  return static_cast<uint64_t>(taken.count());
}

bool has_threads(const LoadedPlugin& plugin) {
  return std::ranges::any_of(plugin.manifest().options,
                             [](const OptionDecl& option) { return option.name == "threads"; });
}

/// The Runtime with as many threads for the device, and for the host device, which may run for it.
/// Which plugins these are shows only when they are open.
Result<Ref<Runtime>> open_with_threads(const GlobalArgs& global, const BenchArgs& args) {
  BP_TRY_ASSIGN(Ref<Runtime> runtime, open_runtime(global));
  if (args.threads == 0) return runtime;
  const auto device = choose_device(*runtime, args.device);
  if (!device.ok()) return runtime;  // told by the caller
  GlobalArgs with_threads = global;
  for (Device* each : {*device, runtime->host_device()}) {
    if (each == nullptr || !has_threads(each->plugin())) continue;
    with_threads.plugin_options.emplace_back(each->plugin().id() + ".threads",
                                             std::to_string(args.threads));
  }
  if (with_threads.plugin_options.size() == global.plugin_options.size()) {
    return Status(BP_INVALID_ARGUMENT, "--threads: plugin " + (*device)->plugin().id() +
                                           " has no option 'threads', nor has the host device's");
  }
  runtime->close();
  return open_runtime(with_threads);
}

/// Waits until the host can read the outputs. Where it reaches them, nothing is copied.
Status finish(std::span<const Ref<Tensor>> outputs) {
  std::vector<Ref<Tensor>> out_of_reach;
  for (const Ref<Tensor>& output : outputs) {
    if (output->device() == nullptr || output->device()->has_host_memory()) {
      BP_TRY(output->storage().wait_on_host(false));
    } else {
      out_of_reach.push_back(output);
    }
  }
  BP_TRY_ASSIGN(const std::vector<HostTensor> read, copy_to_host(out_of_reach));
  return {};
}

Status run_once(Session& session, std::span<const NamedTensor> inputs, uint64_t* out_ns) {
  const auto begin = Clock::now();
  BP_TRY_ASSIGN(const auto outputs, session.run(inputs));
  BP_TRY(finish(outputs));
  *out_ns = since(begin);
  return {};
}

Status measure(Session& session, const BenchArgs& args, BenchReport* report) {
  std::vector<NamedTensor> inputs;
  for (const NamedArray& input : report->inputs) {
    inputs.emplace_back(input.name, Tensor::wrap_host(input.tensor));
  }
  BP_TRY(run_once(session, inputs, &report->first_ns));
  uint64_t taken_ns = 0;
  for (int i = 0; i < kWarmRuns; ++i) BP_TRY(run_once(session, inputs, &taken_ns));
  const auto wanted_ns = static_cast<uint64_t>(args.seconds * 1e9);
  const auto begin = Clock::now();
  auto& laps = report->latency_ns;
  while (laps.size() < kFewestRuns || (since(begin) < wanted_ns && laps.size() < kMostRuns)) {
    BP_TRY(run_once(session, inputs, &taken_ns));
    laps.push_back(taken_ns);
  }
  report->peak_bytes = peak_memory_bytes();
  if (args.profile) {
    BP_TRY_ASSIGN(report->profile, profile(session, inputs));
  }
  return {};
}

Status check(Session& session, const Vectors& vectors, BenchReport* report) {
  if (vectors.outputs.empty()) return {};
  std::vector<NamedTensor> inputs;
  for (const NamedArray& input : report->inputs) {
    inputs.emplace_back(input.name, Tensor::wrap_host(input.tensor));
  }
  BP_TRY_ASSIGN(const auto outputs, session.run(inputs));
  BP_TRY_ASSIGN(std::vector<HostTensor> values, copy_to_host(outputs));
  std::vector<NamedArray> found;
  for (size_t i = 0; i < values.size(); ++i) {
    found.push_back({session.outputs()[i].name, std::move(values[i]), ""});
  }
  BP_TRY_ASSIGN(report->deviation, deviation(found, vectors.outputs));
  report->is_checked = true;
  return {};
}

std::string bench_json(const BenchArgs& args, const BenchReport& report) {
  JsonWriter json;
  json.begin_object().field("model", args.model).field("device", report.device);
  json.field("threads", args.threads).field("version", BACKPLANE_VERSION);
  json.field("create_ns", report.create_ns).field("first_ns", report.first_ns);
  json.field("peak_rss_bytes", report.peak_bytes);
  if (report.is_checked) {
    json.field("passed", report.deviation.passed).field("max_error", report.deviation.max_error);
  }
  if (args.profile) write_profile(report.profile, &json);
  json.key("latency_ns").begin_array();
  for (const uint64_t lap : report.latency_ns) json.value(lap);
  return json.end_array().end_object().take();
}

std::string bench_text(const BenchArgs& args, const BenchReport& report) {
  std::string text = fmt::format("{} on {}\n\n", visible(args.model), visible(report.device));
  Table inputs({"input", "shape", "from"});
  for (const NamedArray& input : report.inputs) {
    inputs.add({input.name, shape_text(input.tensor.sizes), input.source});
  }
  text += inputs.empty() ? "" : inputs.to_string() + "\n";
  for (const DimSource& dim : report.dims) {
    text += fmt::format("  dimension {} is {} ({})\n", visible(dim.name), dim.size,
                        visible(dim.source));
  }
  std::vector<uint64_t> sorted = report.latency_ns;
  std::sort(sorted.begin(), sorted.end());
  const auto at = [&](double part) {
    const auto place = static_cast<size_t>(part * static_cast<double>(sorted.size() - 1));
    return duration_text(static_cast<double>(sorted[place]));
  };
  Table table({"create", "first run", "min", "median", "90 %", "runs", "peak memory"},
              {0, 1, 2, 3, 4, 5, 6});
  table.add({duration_text(static_cast<double>(report.create_ns)),
             duration_text(static_cast<double>(report.first_ns)), at(0), at(0.5), at(0.9),
             std::to_string(sorted.size()), bytes_text(report.peak_bytes)});
  text += table.to_string();
  if (!report.profile.empty()) text += "\n" + profile_text(report.profile);
  if (report.is_checked) {
    text += fmt::format("\n  outputs    {}, largest difference {} of the rms\n",
                        report.deviation.passed ? "ok" : "WRONG",
                        number_text(report.deviation.max_error));
  }
  return text;
}

int model_failure_code(const Status& status) {
  return status.code() == BP_INVALID_ARGUMENT ? kExitModel : kExitDevice;
}

int bench_on(Runtime& runtime, Device& device, const BenchArgs& args) {
  BenchReport report;
  report.device = device.name();
  const auto begin = Clock::now();
  auto graph = load_onnx(args.model, runtime.registry(), {.read = args.read_weights});
  if (!graph.ok()) return fail("bench", graph.status().message(), kExitModel);
  const uint64_t create_ns = since(begin);

  Vectors vectors;
  if (!args.vectors.empty()) {
    auto read = read_vectors(args.vectors, *graph);
    if (!read.ok()) return fail("bench", read.status().message(), kExitModel);
    vectors = std::move(*read);
  }
  report.inputs = vectors.inputs;
  auto dims = find_dims(*graph, args.dims, report.inputs);
  if (!dims.ok()) return fail("bench", dims.status().message(), kExitModel);
  report.dims = std::move(*dims);
  for (const DimSource& dim : report.dims) {
    if (dim.is_told) continue;
    const auto range = std::ranges::find(args.dims, dim.name, &DimArg::name);
    if (range == args.dims.end()) continue;
    return fail("bench",
                fmt::format("--dim {}={}..{}: a bench needs one size, --dim {}=SIZE or that of an "
                            "input of --vectors",
                            dim.name, range->min, range->max, dim.name),
                kExitUsage);
  }
  const InputLimits limits = index_limits(*graph);

  const auto session_begin = Clock::now();
  const auto session = open_session(runtime, device, std::move(*graph), args.dims);
  report.create_ns = create_ns + since(session_begin);
  if (!session.ok()) {
    return fail("bench", session.status().message(), model_failure_code(session.status()));
  }
  Status status = fill_missing(**session, report.dims, args.seed, limits, &report.inputs);
  if (!status.ok()) return fail("bench", status.message(), kExitModel);
  status = measure(**session, args, &report);
  if (status.ok()) status = check(**session, vectors, &report);
  if (!status.ok()) {
    return fail("bench", status.message() + words_of_guesses(**session, report.dims, report.inputs),
                model_failure_code(status));
  }
  print(args.json ? bench_json(args, report) : bench_text(args, report));
  if (report.deviation.passed) return kExitOk;
  return fail("bench", report.deviation.words, kExitFailed);
}

/// What of the plugins the bench needs, so that it measures the memory of no other: the device's
/// own, if that is the host device too. The name of a device begins with its plugin's, an alias
/// with anything.
GlobalArgs with_needed_plugins(const GlobalArgs& global, const BenchArgs& args) {
  GlobalArgs narrow = global;
  narrow.only_plugin = args.device.substr(0, args.device.find(':'));
  if (narrow.only_plugin.empty() || std::getenv("BACKPLANE_PLUGINS") != nullptr) return global;
  set_log_sink([](uint32_t, std::string_view) {});  // the second time tells it
  const auto runtime = open_runtime(narrow);
  const auto device = runtime.ok() ? (*runtime)->find_device(args.device) : runtime.status();
  set_log_sink({});
  const bool is_enough = device.ok() && *device == (*runtime)->host_device();
  if (runtime.ok()) (*runtime)->close();
  return is_enough ? narrow : global;
}

}  // namespace

int run_bench(const GlobalArgs& given, const BenchArgs& args) {
  const GlobalArgs global = with_needed_plugins(given, args);
  const auto runtime = open_with_threads(global, args);
  if (!runtime.ok()) {
    const bool is_usage = runtime.status().message().starts_with("--threads");
    return fail("bench", runtime.status().message(),
                is_usage ? kExitUsage : open_failure_code(global, runtime.status()));
  }
  const auto device = choose_device(**runtime, args.device);
  if (!device.ok()) {
    return fail("bench", device.status().message(), device_failure_code(**runtime));
  }
  return bench_on(**runtime, **device, args);
}

}  // namespace bp::cli
