// SPDX-License-Identifier: Apache-2.0
//
// The model around the nodes: versions, names, order. Every name is checked before it is used, so
// that a broken file is described in its own words.
#include "ops/onnx/import.hpp"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/base/foreign_text.hpp"
#include "core/base/log.hpp"
#include "core/base/options.hpp"
#include "core/base/quoted.hpp"
#include "ops/onnx/external_data.hpp"
#include "ops/onnx/functions.hpp"
#include "ops/onnx/model.hpp"
#include "ops/onnx/node_import.hpp"
#include "ops/onnx/opset6.hpp"
#include "ops/onnx/tensor.hpp"

namespace bp {
namespace {

using onnx::GraphProto;
using onnx::ModelProto;
using onnx::NodeProto;
using onnx::TensorProto;
using onnx::TensorSource;
using onnx::ValueInfoProto;

constexpr int64_t kOldestIrVersion = 3;  // the first with operator sets
// Before it, every initializer had to be an input too, whether or not it was meant to be given.
constexpr int64_t kIrVersionOfDefaults = 4;
constexpr size_t kNoProducer = SIZE_MAX;

Status invalid(const std::string& words) { return {BP_INVALID_ARGUMENT, words}; }
Status unsupported(const std::string& words) { return {BP_UNSUPPORTED, words}; }
bool is_default_domain(std::string_view domain) { return onnx::plain_domain(domain).empty(); }

class Importer {
 public:
  Importer(ModelProto model, TensorSource source, const OpRegistry& registry)
      : model_(std::move(model)),
        proto_(model_.graph),
        source_(std::move(source)),
        graph_(registry) {}

  Result<Graph> run() {
    BP_TRY(check_model());
    BP_TRY(onnx::inline_functions(&model_, &names_));
    BP_TRY(note_makers());
    BP_TRY(add_initializers());
    BP_TRY(add_inputs());
    BP_TRY_ASSIGN(const auto order, sort_nodes());
    BP_TRY(find_rules());
    for (size_t index : order) BP_TRY(add_node(index));
    BP_TRY(set_outputs());
    add_default_inputs();
    return std::move(graph_);
  }

 private:
  Status check_model();
  Status note_makers();
  Status add_initializers();
  Status add_inputs();
  void add_default_inputs();
  Result<TensorType> input_type(const ValueInfoProto& input);
  Status check_initialized_input(const ValueInfoProto& input, ValueId constant) const;
  Status check_node_inputs(size_t index) const;
  Result<std::vector<size_t>> sort_nodes() const;
  Status cycle_error(const std::vector<size_t>& waiting_for) const;
  Status find_rules();
  Status unknown_operator(size_t index) const;
  Status unknown_operators(std::span<const size_t> nodes, size_t user_count) const;
  Status add_node(size_t index);
  Status set_outputs();
  Status check_output(const ValueInfoProto& output, ValueId id) const;
  std::string node_name(size_t index) const;
  std::string op_name(size_t index) const;
  std::string node_label(size_t index) const { return "node " + quoted(node_name(index)); }
  Status missing_value(const std::string& user, std::string_view name) const;
  size_t producer_of(std::string_view name) const;

  /// Who gives a name its value. Its label is made when it is needed: a node may make many values,
  /// and have a long name.
  struct Maker {
    enum class Kind { kInitializer, kInput, kNode } kind;
    size_t index;
  };
  Status note_maker(std::string_view name, const Maker& maker);
  std::string maker_label(const Maker& maker) const;

  ModelProto model_;
  const GraphProto& proto_;
  const TensorSource source_;
  std::deque<std::string> names_;  // of what functions brought
  Graph graph_;
  std::vector<const onnx::OpRule*> rules_;  // of each node
  std::unordered_map<std::string_view, Maker> makers_;
  std::unordered_map<std::string_view, ValueId> values_;
  std::vector<DefaultInput> defaults_;
  std::unordered_set<ValueId> default_ids_;
  std::unordered_set<ValueId> required_constants_;
};

std::string Importer::node_name(size_t index) const {
  const NodeProto& node = proto_.nodes[index];
  if (!node.name.empty()) return std::string(node.name);
  return std::string(node.op_type) + "#" + std::to_string(index);
}

Status Importer::check_model() {
  if (model_.ir_version == 0 || !model_.has_graph) {
    return invalid(std::string("not an ONNX model: it has no ") +
                   (model_.has_graph ? "ir_version" : "graph"));
  }
  if (model_.ir_version < kOldestIrVersion || model_.ir_version > onnx::kNewestIrVersion) {
    return unsupported("ONNX IR version " + std::to_string(model_.ir_version) + ": expected " +
                       std::to_string(kOldestIrVersion) + " to " +
                       std::to_string(onnx::kNewestIrVersion));
  }
  if ((proto_.fields >> onnx::kSparseInitializer & 1) != 0) {
    return unsupported("the model has sparse initializers; only dense ones are supported");
  }
  return {};
}

std::string Importer::maker_label(const Maker& maker) const {
  if (maker.kind == Maker::Kind::kNode) return node_label(maker.index);
  if (maker.kind == Maker::Kind::kInput) return "input " + quoted(proto_.inputs[maker.index].name);
  return "initializer " + std::to_string(maker.index);
}

Status Importer::note_maker(std::string_view name, const Maker& maker) {
  const auto [entry, is_new] = makers_.emplace(name, maker);
  if (is_new) return {};
  return invalid("the name " + quoted(name) + " is given twice: by " + maker_label(entry->second) +
                 " and by " + maker_label(maker));
}

Status Importer::note_makers() {
  using Kind = Maker::Kind;
  for (size_t i = 0; i < proto_.initializers.size(); ++i) {
    BP_TRY(note_maker(proto_.initializers[i].name, {Kind::kInitializer, i}));
  }
  std::unordered_map<std::string_view, size_t> inputs;
  for (size_t i = 0; i < proto_.inputs.size(); ++i) {
    const std::string_view name = proto_.inputs[i].name;
    if (!inputs.emplace(name, i).second) return invalid("two inputs named " + quoted(name));
    // An initializer of the same name is the input's default.
    makers_.emplace(name, Maker{Kind::kInput, i});
  }
  for (size_t i = 0; i < proto_.nodes.size(); ++i) {
    const auto& outputs = proto_.nodes[i].outputs;
    for (std::string_view output : outputs) {
      if (!output.empty()) BP_TRY(note_maker(output, {Kind::kNode, i}));
    }
    if (std::ranges::all_of(outputs, [](std::string_view name) { return name.empty(); })) {
      return invalid(node_label(i) + " has no outputs");
    }
  }
  return {};
}

Status Importer::add_initializers() {
  for (const TensorProto& initializer : proto_.initializers) {
    auto tensor = onnx::initializer_values(initializer, source_);
    if (!tensor.ok()) return tensor.status().with_prefix("initializer");
    BP_TRY_ASSIGN(const ValueId id, graph_.add_constant(initializer.name, *std::move(tensor)));
    values_.emplace(initializer.name, id);
  }
  return {};
}

Result<TensorType> Importer::input_type(const ValueInfoProto& input) {
  if (!input.has_type || !input.is_tensor) {
    return unsupported(input.has_type ? "its type is not a tensor" : "it has no type");
  }
  TensorType type;
  BP_TRY_ASSIGN(type.dtype, onnx::dtype_from_onnx(input.elem_type));
  type.has_rank = input.has_shape;
  if (input.dims.size() > BP_MAX_RANK) {
    return unsupported("rank " + std::to_string(input.dims.size()) + ": expected at most " +
                       std::to_string(BP_MAX_RANK));
  }
  for (size_t i = 0; i < input.dims.size(); ++i) {
    const onnx::DimProto& dim = input.dims[i];
    if (dim.has_size() && dim.value < 0) {
      return invalid("size " + std::to_string(dim.value) + " of dimension " + std::to_string(i) +
                     " is negative; a free dimension has a name or is -1");
    }
    int64_t size = kUnknownDim;
    if (dim.has_size()) {
      size = dim.value;
    } else if (!dim.param.empty()) {
      size = graph_.symbol(dim.param);
    }
    type.sizes.push_back(size);
  }
  return type;
}

Status Importer::check_initialized_input(const ValueInfoProto& input, ValueId constant) const {
  const TensorType& type = graph_.value(constant).type;
  bool same = input.is_tensor && (!input.has_shape || input.dims.size() == type.sizes.size());
  for (size_t i = 0; same && input.has_shape && i < input.dims.size(); ++i) {
    same = !input.dims[i].has_size() || input.dims[i].value == type.sizes[i];
  }
  if (same) {
    const auto dtype = onnx::dtype_from_onnx(input.elem_type);
    same = dtype.ok() && *dtype == type.dtype;
  }
  if (same) return {};
  return invalid("input " + quoted(input.name) + " and its initializer, " + graph_.to_string(type) +
                 ", have different types");
}

Status Importer::add_inputs() {
  for (const ValueInfoProto& input : proto_.inputs) {
    const auto initialized = values_.find(input.name);
    if (initialized != values_.end()) {
      BP_TRY(check_initialized_input(input, initialized->second));
    }
    auto type = input_type(input);
    if (!type.ok()) return type.status().with_prefix("input " + quoted(input.name));
    if (initialized == values_.end()) {
      BP_TRY_ASSIGN(const ValueId id, graph_.add_input(input.name, *std::move(type)));
      values_.emplace(input.name, id);
    } else if (model_.ir_version >= kIrVersionOfDefaults) {
      defaults_.push_back({initialized->second, *std::move(type)});
      default_ids_.insert(initialized->second);
    }
  }
  return {};
}

/// What only a constant can be read from cannot be given by a run any more.
void Importer::add_default_inputs() {
  for (DefaultInput& input : defaults_) {
    if (required_constants_.contains(input.value)) {
      log(BP_LOG_WARNING, "input " + quoted(graph_.value(input.value).name) +
                              " is taken as a constant, its initializer: it decides what a node "
                              "is, so that no run can give another");
    } else {
      graph_.add_default_input(input.value, std::move(input.type));
    }
  }
}

Status Importer::missing_value(const std::string& user, std::string_view name) const {
  std::string words =
      user + " " + quoted(name) + " is missing: no initializer, input or node has this name";
  std::vector<std::string> names;
  for (const auto& [known, maker] : makers_) names.emplace_back(known);
  std::sort(names.begin(), names.end());  // a hash map's order would make the message vary
  if (const auto near = nearest_match(name, names)) words += "; nearest is " + quoted(*near);
  return invalid(words);
}

size_t Importer::producer_of(std::string_view name) const {
  const auto found = makers_.find(name);
  const bool is_node = found != makers_.end() && found->second.kind == Maker::Kind::kNode;
  return is_node ? found->second.index : kNoProducer;
}

Status Importer::check_node_inputs(size_t index) const {
  const NodeProto& node = proto_.nodes[index];
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i].empty() || makers_.contains(node.inputs[i])) continue;
    return missing_value(
        node_label(index) + " (" + std::string(node.op_type) + "): input " + std::to_string(i),
        node.inputs[i]);
  }
  return {};
}

/// The order of the file where it is right; else the first that can run goes first.
Result<std::vector<size_t>> Importer::sort_nodes() const {
  const size_t count = proto_.nodes.size();
  std::vector<size_t> waiting_for(count, 0);
  std::vector<std::vector<size_t>> users(count);
  for (size_t i = 0; i < count; ++i) {
    BP_TRY(check_node_inputs(i));
    for (std::string_view input : proto_.nodes[i].inputs) {
      const size_t producer = producer_of(input);
      if (producer == kNoProducer) continue;
      ++waiting_for[i];
      users[producer].push_back(i);
    }
  }
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t i = 0; i < count; ++i) {
    if (waiting_for[i] == 0) ready.push(i);
  }
  std::vector<size_t> order;
  while (!ready.empty()) {
    const size_t next = ready.top();
    ready.pop();
    order.push_back(next);
    for (size_t user : users[next]) {
      if (--waiting_for[user] == 0) ready.push(user);
    }
  }
  if (order.size() < count) return cycle_error(waiting_for);
  return order;
}

Status Importer::cycle_error(const std::vector<size_t>& waiting_for) const {
  constexpr size_t kMaxNames = 8;
  // From a node that waits, some producer waits as well: this walk must come round.
  std::vector<size_t> path;
  std::vector<bool> seen(waiting_for.size(), false);
  size_t node = 0;
  while (waiting_for[node] == 0) ++node;
  while (!seen[node]) {
    seen[node] = true;
    path.push_back(node);
    for (std::string_view input : proto_.nodes[node].inputs) {
      const size_t producer = producer_of(input);
      if (producer == kNoProducer || waiting_for[producer] == 0) continue;
      node = producer;
      break;
    }
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), node));
  std::string words = "the graph has a cycle:";
  for (size_t i = 0; i < std::min(path.size(), kMaxNames); ++i) {
    words += (i > 0 ? " needs " : " ") + quoted(node_name(path[i]));
  }
  if (path.size() > kMaxNames)
    words += " needs " + std::to_string(path.size() - kMaxNames) + " more";
  return invalid(words + " needs " + quoted(node_name(path[0])));
}

std::string Importer::op_name(size_t index) const {
  const NodeProto& proto = proto_.nodes[index];
  return (is_default_domain(proto.domain) ? "" : std::string(proto.domain) + ".") +
         std::string(proto.op_type);
}

Status Importer::unknown_operator(size_t index) const {
  const NodeProto& proto = proto_.nodes[index];
  const std::string label =
      node_label(index) + " (" + op_name(index) + ", opset " + std::to_string(proto.opset) + ")";
  if (!is_default_domain(proto.domain)) {
    return unsupported(label + ": operators of domain " + quoted(proto.domain) +
                       " are not known, only those of ai.onnx" +
                       (model_.functions.empty() ? "" : " and the model's own functions"));
  }
  return onnx::no_rule(proto.op_type).with_prefix(label);
}

/// For all nodes before any is added: who has to replace operators wants to know all of them.
Status Importer::find_rules() {
  using OpKey = std::tuple<std::string_view, std::string_view, int64_t>;
  std::map<OpKey, const onnx::OpRule*> found;
  std::vector<size_t> unknown;  // the first node of each operator
  size_t user_count = 0;
  for (size_t i = 0; i < proto_.nodes.size(); ++i) {
    const NodeProto& proto = proto_.nodes[i];
    const auto [entry, is_new] =
        found.try_emplace({proto.domain, proto.op_type, proto.opset}, nullptr);
    if (is_new && is_default_domain(proto.domain)) {
      entry->second = onnx::find_rule(proto.op_type, proto.opset);
    }
    if (is_new && entry->second == nullptr) unknown.push_back(i);
    rules_.push_back(entry->second);
    user_count += entry->second == nullptr ? 1 : 0;
  }
  return unknown.empty() ? Status() : unknown_operators(unknown, user_count);
}

Status Importer::unknown_operators(std::span<const size_t> nodes, size_t user_count) const {
  constexpr size_t kMaxNames = 8;
  const Status first = unknown_operator(nodes[0]);
  if (user_count == 1) return first;
  std::string words = first.message() + ". In all, " + std::to_string(user_count) + " nodes use " +
                      std::to_string(nodes.size()) +
                      (nodes.size() == 1 ? " such operator" : " such operators") + ":";
  for (size_t i = 0; i < std::min(nodes.size(), kMaxNames); ++i) {
    words += (i == 0 ? " " : ", ") + foreign_text(op_name(nodes[i]));
  }
  if (nodes.size() > kMaxNames) {
    words += " and " + std::to_string(nodes.size() - kMaxNames) + " more";
  }
  return {first.code(), std::move(words)};
}

Status Importer::add_node(size_t index) {
  const NodeProto& proto = proto_.nodes[index];
  std::vector<ValueId> inputs;
  for (std::string_view input : proto.inputs) {
    inputs.push_back(input.empty() ? kNoValue : values_.at(input));
  }
  std::optional<NodeProto> adapted;
  if (proto.opset < onnx::kOldestRules) {
    adapted = proto;
    const Status done = onnx::adapt_to_opset7(&*adapted, &inputs, &graph_);
    if (!done.ok()) return done.with_prefix(node_label(index));
  }
  onnx::NodeImport node(adapted ? *adapted : proto, node_name(index), source_, default_ids_,
                        &graph_);
  BP_TRY(node.run(*rules_[index], std::move(inputs)));
  const auto required = node.required_constants();
  required_constants_.insert(required.begin(), required.end());
  for (size_t i = 0; i < proto.outputs.size(); ++i) {
    if (proto.outputs[i].empty()) continue;
    if (i >= node.outputs().size() || node.outputs()[i] == kNoValue) {
      return Status(BP_INTERNAL, node_label(index) + ": its output " + quoted(proto.outputs[i]) +
                                     " was not made");
    }
    values_.emplace(proto.outputs[i], node.outputs()[i]);
  }
  return {};
}

Status Importer::check_output(const ValueInfoProto& output, ValueId id) const {
  if (!output.has_type) return {};
  const TensorType& type = graph_.value(id).type;
  const auto dtype = onnx::dtype_from_onnx(output.elem_type);
  if (!output.is_tensor || !dtype.ok() || *dtype != type.dtype) {
    const std::string declared =
        !output.is_tensor ? "something that is no tensor"
        : dtype.ok()      ? std::string(dtype_name(*dtype))
                          : "a tensor of element type " + std::to_string(output.elem_type);
    return invalid("output " + quoted(output.name) + ": declared as " + declared +
                   ", the graph makes " + graph_.to_string(type));
  }
  bool agrees = !output.has_shape || !type.has_rank || output.dims.size() == type.sizes.size();
  for (size_t i = 0; agrees && type.has_rank && i < output.dims.size(); ++i) {
    const bool both_known = output.dims[i].has_size() && is_known(type.sizes[i]);
    agrees = !both_known || output.dims[i].value == type.sizes[i];
  }
  // Exporters get declared sizes wrong; what is computed does not depend on them.
  if (!agrees) {
    log(BP_LOG_WARNING, "output " + quoted(output.name) +
                            ": its declared sizes are wrong, the "
                            "graph makes " +
                            graph_.to_string(type));
  }
  return {};
}

Status Importer::set_outputs() {
  if (proto_.outputs.empty()) return invalid("the graph has no outputs");
  std::vector<ValueId> ids;
  std::vector<std::string> names;
  for (const ValueInfoProto& output : proto_.outputs) {
    const auto found = values_.find(output.name);
    if (found == values_.end()) return missing_value("output", output.name);
    BP_TRY(check_output(output, found->second));
    ids.push_back(found->second);
    names.emplace_back(output.name);
  }
  return graph_.set_outputs(std::move(ids), std::move(names));
}

Result<Graph> import_unprefixed(std::span<const std::byte> bytes, TensorSource source,
                                const OpRegistry& registry) {
  if (bytes.empty()) return invalid("the file is empty (0 bytes)");
  if (bytes.size() > kMaxOnnxBytes) {
    return invalid("the file is too large: expected at most " + std::to_string(kMaxOnnxBytes) +
                   " bytes, found " + std::to_string(bytes.size()));
  }
  BP_TRY_ASSIGN(ModelProto model, onnx::parse_model(bytes));
  return Importer(std::move(model), std::move(source), registry).run();
}

}  // namespace

Result<Graph> import_onnx(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                          std::string_view name, const OpRegistry& registry) {
  auto graph = import_unprefixed(bytes, {std::move(owner)}, registry);
  if (graph.ok()) return graph;
  return graph.status().with_prefix(name);
}

Result<Graph> load_onnx(const std::string& path, const OpRegistry& registry,
                        const FileAccess& access) {
  BP_TRY_ASSIGN(const FileBytes file, open_file_bytes(path, kMaxOnnxBytes, access));
  const auto external = std::make_shared<onnx::ExternalData>(path, access);
  auto graph = import_unprefixed(file.bytes, {file.owner, external, file.mapped}, registry);
  if (graph.ok()) return graph;
  return graph.status().with_prefix(path);
}

Result<HostTensor> load_tensor_proto(const std::string& path) {
  BP_TRY_ASSIGN(const auto file, MappedFile::open(path, kMaxOnnxBytes));
  const auto proto = onnx::parse_tensor(file->bytes());
  if (!proto.ok()) return proto.status().with_prefix(path);
  const auto external = std::make_shared<onnx::ExternalData>(path, FileAccess());
  auto tensor = onnx::tensor_values(*proto, {file, external});
  if (!tensor.ok()) return tensor.status().with_prefix(path);
  return tensor;
}

}  // namespace bp
