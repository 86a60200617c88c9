// SPDX-License-Identifier: Apache-2.0
//
// `backplane ops`: how each operator runs on a device, and, for given models, which kernels are
// worth writing next.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/cli/cli.hpp"
#include "core/cli/environment.hpp"
#include "core/cli/json.hpp"
#include "core/cli/text.hpp"
#include "core/dispatch/dispatcher.hpp"
#include "core/graph/graph.hpp"
#include "ops/onnx/import.hpp"
#include "ops/parts.hpp"
#include "ops/register.hpp"

namespace bp::cli {
namespace {

/// In the order of the columns that they are counted in; the last two need a kernel.
enum class Runs { kNative, kView, kConstant, kDecomposed, kFallback, kNowhere };
constexpr const char* kRunsNames[] = {"native",     "view",     "constant",
                                      "decomposed", "fallback", "nowhere"};

constexpr size_t kMostOfReason = 160;  // bytes, of a cell; JSON has them all

DimRange any_size(int64_t size) { return is_known(size) ? DimRange{size, size} : DimRange{}; }

const char* name_of(Runs runs) { return kRunsNames[static_cast<size_t>(runs)]; }

struct OperatorRow {
  OpId op = 0;
  std::string name;
  Runs runs = Runs::kNowhere;
  std::vector<std::string> kernels;
  std::vector<std::string> capturable;  // those whose launches a graph of the device may record
  std::vector<std::string> parts;       // of its decomposition
  std::vector<std::string> missing;     // those that the device cannot run natively
};

/// What one kernel would do for the models.
struct MissingRow {
  std::string name;
  Runs runs = Runs::kNowhere;
  uint64_t node_count = 0;
  std::set<std::string> models;
  std::set<std::string> dtypes;
  std::set<std::string> parts;  // what a decomposition would need, and the device lacks
  std::string reason;           // why no kernel takes the call that is worst off
};

/// How a call runs, and why not by a kernel of the device.
struct Answer {
  Runs runs = Runs::kNowhere;
  std::string reason;
};

/// The device's kernels by operator.
class Kernels {
 public:
  explicit Kernels(Device& device) {
    for (const KernelRecord& record : Dispatcher::of(device).kernels().kernels) {
      by_op_[record.op].push_back(&record);
    }
  }
  bool has(std::string_view op) const { return by_op_.contains(op); }
  /// Those that have all of these BP_KERNEL_*_BIT.
  std::vector<std::string> names(std::string_view op, uint32_t flags = 0) const {
    std::vector<std::string> names;
    const auto found = by_op_.find(op);
    if (found == by_op_.end()) return names;
    for (const KernelRecord* record : found->second) {
      if ((record->kernel.flags & flags) == flags) names.push_back(record->name);
    }
    return names;
  }

 private:
  std::map<std::string_view, std::vector<const KernelRecord*>> by_op_;
};

/// A call's inputs, if all their sizes are known.
std::optional<std::vector<ArgType>> known_inputs(const Graph& graph, const Node& node) {
  std::vector<ArgType> inputs;
  for (const ValueId id : node.inputs) {
    inputs.push_back(arg_of(graph, id));
    if (id == kNoValue) continue;
    const Value& value = graph.value(id);
    if (!value.type.has_rank || !all_known(value.type.sizes)) return std::nullopt;
    inputs.back().is_constant = value.constant != nullptr;
  }
  return inputs;
}

class OperatorReport {
 public:
  OperatorReport(const Runtime& runtime, Device& device)
      : runtime_(runtime), device_(device), kernels_(device) {
    if (runtime.host_device() != nullptr) host_.emplace(*runtime.host_device());
    for (const OpSchema& schema : all_schemas()) rows_.push_back(row_of(schema));
  }

  const Device& device() const { return device_; }
  const std::vector<OperatorRow>& rows() const { return rows_; }
  const std::vector<MissingRow>& missing() const { return missing_; }

  Status add_model(const std::string& path) {
    BP_TRY_ASSIGN(const Graph read, load_onnx(path, runtime_.registry()));
    const auto sized = read.with_input_sizes(some_sizes(read));
    const Graph& graph = sized.ok() ? *sized : read;
    for (const Node& node : graph.nodes()) add_node(graph, node, path);
    return {};
  }
  /// What helps most first: what leaves the device before what is decomposed, then by nodes.
  void rank() {
    std::ranges::stable_sort(missing_, [](const MissingRow& a, const MissingRow& b) {
      if (a.runs != b.runs) return a.runs > b.runs;
      return a.node_count > b.node_count;
    });
  }

 private:
  bool is_there(std::string_view part) const {
    const auto op = runtime_.registry().find(part);
    if (kernels_.has(part) || !op) return kernels_.has(part);
    const OpSchema& schema = runtime_.registry().schema(*op);
    return schema.view != nullptr || schema.constant;
  }

  /// Sizes of the inputs, so that calls can be decomposed: which ones they are changes little.
  static std::vector<Dims> some_sizes(const Graph& graph) {
    constexpr int64_t kAny = 2;
    std::vector<Dims> sizes;
    for (const ValueId input : graph.inputs()) {
      sizes.push_back(graph.value(input).type.sizes);
      for (int64_t& size : sizes.back()) size = is_known(size) ? size : kAny;
    }
    return sizes;
  }

  /// As a run of the model finds it; none where that takes values which only a run has.
  std::optional<Answer> known_answer(const Node& node, std::span<const ArgType> inputs) const {
    const auto route = Dispatcher::of(device_).resolve(node.op, inputs, node.attributes.data());
    if (!route.ok()) {
      if (route.status().code() == BP_INVALID_ARGUMENT) return std::nullopt;
      return Answer{Runs::kNowhere, route.status().message()};
    }
    switch ((*route)->kind) {
      case RouteKind::kNative:
        return Answer{Runs::kNative, {}};
      case RouteKind::kView:
        return Answer{Runs::kView, {}};
      case RouteKind::kKnown:
        return Answer{Runs::kConstant, {}};
      case RouteKind::kDecomposed:
        return Answer{worst_part(*(*route)->graph), (*route)->reason};
      case RouteKind::kFallback:
        break;
    }
    return Answer{runs_on_host(node, inputs) ? Runs::kFallback : Runs::kNowhere, (*route)->reason};
  }
  bool runs_on_host(const Node& node, std::span<const ArgType> inputs) const {
    Device* const host = runtime_.host_device();
    if (host == nullptr || host == &device_) return false;
    const auto route = Dispatcher::of(*host).resolve(node.op, inputs, node.attributes.data());
    return route.ok() && (*route)->kind != RouteKind::kFallback;
  }
  /// Of a decomposed call: the host device decomposes also where a part runs nowhere.
  Runs worst_part(const Graph& parts) const {
    Runs worst = Runs::kDecomposed;
    for (const Node& part : parts.nodes()) worst = std::max(worst, answer(parts, part).runs);
    return worst;
  }

  Answer answer(const Graph& graph, const Node& node) const {
    const OpSchema& schema = graph.registry().schema(node.op);
    // What follows from types is worked out while planning, and never launched.
    if (schema.of_types || schema.constant) return {Runs::kConstant, {}};
    if (const auto inputs = known_inputs(graph, node)) {
      if (const auto known = known_answer(node, *inputs)) return *known;
    }
    std::vector<TensorType> outputs;
    for (const ValueId id : node.outputs) outputs.push_back(graph.value(id).type);
    const bool is_native =
        !runtime_.is_host_op(node.op) &&
        Dispatcher::of(device_).has_kernel(node.op, CallInputs(graph.values(), node.inputs).types,
                                           outputs, node.attributes, {}, any_size);
    if (is_native) return {Runs::kNative, {}};
    const auto row = std::ranges::find(rows_, schema.name, &OperatorRow::name);
    return {without_kernel(*row, schema, !lacking(graph, node).empty()), {}};
  }

  /// What the decomposition of this call needs in its dtypes and no kernel takes; where its sizes
  /// are too little known, or there is none, what that of the operator may need in any.
  std::set<std::string> lacking(const Graph& graph, const Node& node) const {
    const OpSchema& schema = graph.registry().schema(node.op);
    const CallInputs inputs(graph.values(), node.inputs);
    Graph parts(graph.registry());
    if (schema.decompose == nullptr || !known_inputs(graph, node) ||
        !schema.decompose(inputs.context(node.attributes), &parts).ok()) {
      const auto row = std::ranges::find(rows_, schema.name, &OperatorRow::name);
      return {row->missing.begin(), row->missing.end()};
    }
    std::set<std::string> names;
    for (const Node& part : parts.nodes()) {
      const Runs runs = answer(parts, part).runs;
      if (runs >= Runs::kDecomposed) names.emplace(graph.registry().schema(part.op).name);
    }
    return names;
  }

  /// How a call runs that no kernel of the device takes. `lacks`: parts of its decomposition.
  Runs without_kernel(const OperatorRow& row, const OpSchema& schema, bool lacks) const {
    if (schema.constant) return Runs::kConstant;
    if (schema.view != nullptr) return Runs::kView;
    // What is a part of itself decomposes calls that have more to them, into calls of a kernel.
    const bool is_own_part = std::ranges::count(row.parts, schema.name) > 0;
    if (schema.decompose != nullptr && !is_own_part && !lacks) {
      return Runs::kDecomposed;
    }
    const bool on_host = host_ && (host_->has(schema.name) || schema.decompose != nullptr);
    return on_host ? Runs::kFallback : Runs::kNowhere;
  }

  OperatorRow row_of(const OpSchema& schema) const {
    OperatorRow row;
    row.name = schema.name;
    row.op = *runtime_.registry().find(schema.name);
    row.kernels = kernels_.names(schema.name);
    row.capturable = kernels_.names(schema.name, BP_KERNEL_CAPTURABLE_BIT);
    for (const OperatorPart& part : all_parts()) {
      if (part.op != schema.name) continue;
      row.parts.emplace_back(part.part);
      if (!is_there(part.part)) row.missing.emplace_back(part.part);
    }
    const bool is_native = !row.kernels.empty() && !runtime_.is_host_op(row.op);
    row.runs = is_native ? Runs::kNative : without_kernel(row, schema, !row.missing.empty());
    return row;
  }

  void add_node(const Graph& graph, const Node& node, const std::string& model) {
    const Answer now = answer(graph, node);
    if (now.runs < Runs::kDecomposed) return;
    const std::string name(graph.registry().schema(node.op).name);
    const std::set<std::string> parts = lacking(graph, node);
    auto found = std::ranges::find(missing_, name, &MissingRow::name);
    if (found == missing_.end()) {
      found = missing_.insert(found, MissingRow());
      found->name = name;
      found->runs = Runs::kNative;
    }
    if (now.runs > found->runs) {
      found->runs = now.runs;
      found->reason = now.reason;
    }
    ++found->node_count;
    found->parts.insert(parts.begin(), parts.end());
    found->models.insert(model);
    for (const ValueId input : node.inputs) {
      if (input == kNoValue) continue;
      found->dtypes.emplace(dtype_name(graph.value(input).type.dtype));
    }
  }

  const Runtime& runtime_;
  Device& device_;
  const Kernels kernels_;
  std::optional<Kernels> host_;
  std::vector<OperatorRow> rows_;
  std::vector<MissingRow> missing_;
};

void write_list(std::string_view key, const auto& texts, JsonWriter* out_json) {
  out_json->key(key).begin_array();
  for (const std::string& text : texts) out_json->value(text);
  out_json->end_array();
}

std::string ops_json(const OpsArgs& args, const OperatorReport& report) {
  JsonWriter json;
  json.begin_object().field("device", report.device().name()).key("operators").begin_array();
  for (const OperatorRow& row : report.rows()) {
    json.begin_object().field("name", row.name).field("runs", name_of(row.runs));
    write_list("kernels", row.kernels, &json);
    write_list("capturable_kernels", row.capturable, &json);
    write_list("parts", row.parts, &json);
    write_list("missing_parts", row.missing, &json);
    json.end_object();
  }
  json.end_array();
  if (!args.models.empty()) {
    json.key("missing").begin_array();
    for (const MissingRow& row : report.missing()) {
      json.begin_object().field("name", row.name).field("runs", name_of(row.runs));
      json.field("node_count", row.node_count);
      write_list("dtypes", row.dtypes, &json);
      write_list("missing_parts", row.parts, &json);
      json.field("reason", row.reason);
      write_list("models", row.models, &json);
      json.end_object();
    }
    json.end_array();
  }
  return json.end_object().take();
}

std::string missing_text(const OpsArgs& args, const OperatorReport& report) {
  const std::string models = count_text(args.models.size(), "model");
  const std::string& device = report.device().name();
  if (report.missing().empty()) {
    return fmt::format("{} has a kernel for every node of {}.\n", device, models);
  }
  std::string text = fmt::format("Kernels to write next for {} on {}:\n\n", models, device);
  Table table({"operator", "nodes", "models", "dtypes", "now", "or these parts", "why"}, {1, 2});
  for (const MissingRow& row : report.missing()) {
    table.add({row.name, std::to_string(row.node_count), std::to_string(row.models.size()),
               fmt::format("{}", fmt::join(row.dtypes, " ")), name_of(row.runs),
               fmt::format("{}", fmt::join(row.parts, " ")), shortened(row.reason, kMostOfReason)});
  }
  return text + table.to_string();
}

std::string ops_text(const OpsArgs& args, const OperatorReport& report) {
  std::map<Runs, uint64_t> counts;
  std::vector<std::string> titles = {"operator", "runs"};
  titles.emplace_back(args.decompositions ? "its decomposition needs" : "kernels");
  if (args.decompositions) titles.emplace_back("of these the device lacks");
  Table table(std::move(titles));
  for (const OperatorRow& row : report.rows()) {
    ++counts[row.runs];
    if (!args.decompositions) {
      table.add({row.name, name_of(row.runs), fmt::format("{}", fmt::join(row.kernels, " "))});
    } else if (!row.parts.empty()) {
      table.add({row.name, name_of(row.runs), fmt::format("{}", fmt::join(row.parts, " ")),
                 fmt::format("{}", fmt::join(row.missing, " "))});
    }
  }
  std::string text = fmt::format("{}: {}", visible(report.device().name()),
                                 count_text(report.rows().size(), "operator"));
  for (const auto& [runs, count] : counts) text += fmt::format(", {} {}", count, name_of(runs));
  return text + "\n\n" + table.to_string();
}

}  // namespace

int run_ops(const GlobalArgs& global, const OpsArgs& args) {
  const auto runtime = open_runtime(global);
  if (!runtime.ok()) {
    return fail("ops", runtime.status().message(), open_failure_code(global, runtime.status()));
  }
  const auto device = choose_device(**runtime, args.device);
  if (!device.ok()) {
    return fail("ops", device.status().message(), device_failure_code(**runtime));
  }
  OperatorReport report(**runtime, **device);
  for (const std::string& model : args.models) {
    const Status status = report.add_model(model);
    if (!status.ok()) return fail("ops", status.message(), kExitModel);
  }
  report.rank();
  if (args.json) {
    print(ops_json(args, report));
  } else {
    print(args.models.empty() ? ops_text(args, report) : missing_text(args, report));
  }
  return kExitOk;
}

}  // namespace bp::cli
