// SPDX-License-Identifier: Apache-2.0
//
// What goes into a session and comes out: the sizes that its dimensions may have, what it tells of
// its inputs and outputs, and whether tensors are such.
#include <algorithm>
#include <set>

#include "core/base/dtype.hpp"
#include "core/base/options.hpp"
#include "core/base/quoted.hpp"
#include "core/execute/default_inputs.hpp"
#include "core/execute/session.hpp"

namespace bp {
namespace {

std::string range_text(const DimRange& range) {
  const std::string most = range.max == INT64_MAX ? "or more" : "to " + std::to_string(range.max);
  return "size " + std::to_string(range.min) + " " + most;
}

bool is_of_default(const DefaultInputs* defaults, const std::string& name) {
  if (defaults == nullptr) return false;
  const Graph& model = defaults->graph();
  return std::ranges::any_of(model.default_inputs(), [&](const DefaultInput& input) {
    return std::ranges::any_of(input.type.sizes,
                               [&](int64_t size) { return model.symbol_name(size) == name; });
  });
}

/// A name that the caller gave for a dimension, and that no input of every run has.
Status unknown_dim(const Graph& graph, const DefaultInputs* defaults, const std::string& name) {
  if (is_of_default(defaults, name)) {
    return Status(BP_INVALID_ARGUMENT, "dimension " + quoted(name) +
                                           " is one of inputs with a default alone, expected one "
                                           "of an input that every run gives");
  }
  std::set<std::string> known;
  for (const ValueId id : graph.inputs()) {
    for (const int64_t size : graph.value(id).type.sizes) known.emplace(graph.symbol_name(size));
  }
  known.erase("");
  const std::vector<std::string> names(known.begin(), known.end());
  const std::string words = "dimension " + quoted(name) + " is not one of the model's inputs";
  return Status(BP_INVALID_ARGUMENT, names.empty() ? words + "; no size of theirs has a name"
                                                   : with_nearest(words, name, names));
}

}  // namespace

Status Session::set_dims(const SessionArgs& args) {
  // Dimensions without a name have the empty one in common, and nothing else.
  if (args.dims.contains("") || args.dim_ranges.contains("")) {
    const std::string names = args.dims.contains("") ? "args.dim_names" : "args.range_names";
    return Status(BP_INVALID_ARGUMENT, "argument " + names +
                                           " holds an empty name, expected the name of a dimension "
                                           "of the model's inputs");
  }
  for (const auto& [name, size] : args.dims) dim_ranges_[name] = {size, size};
  for (const auto& [name, range] : args.dim_ranges) {
    if (dim_ranges_.emplace(name, range).second) continue;
    return Status(BP_INVALID_ARGUMENT, "dimension '" + name + "' is fixed to " +
                                           std::to_string(args.dims.at(name)) +
                                           ", and has a range too");
  }
  std::set<std::string, std::less<>> unused;
  for (const auto& [name, range] : dim_ranges_) unused.insert(name);
  std::vector<Dims> sizes;
  for (const ValueId id : graph_.inputs()) {
    Dims fixed = graph_.value(id).type.sizes;
    for (int64_t& size : fixed) {
      const auto name = unused.find(graph_.symbol_name(size));
      if (name != unused.end()) unused.erase(name);
      const DimRange range = range_of(graph_, size);
      if (range.min == range.max) size = range.min;
    }
    sizes.push_back(fixed);
  }
  if (!unused.empty()) return unknown_dim(graph_, default_inputs_.get(), *unused.begin());
  if (dim_ranges_.empty()) return {};
  BP_TRY_ASSIGN(graph_, graph_.with_input_sizes(sizes));
  return {};
}

/// Inference knows sizes and no ranges: it is asked about the ends, one dimension at a time, since
/// the ends of two need not go together.
Status Session::check_dim_ranges() const {
  for (const auto& [name, range] : dim_ranges_) {
    if (range.min == range.max) continue;
    for (const int64_t end : {range.min, range.max}) {
      if (end == INT64_MAX) continue;  // no end
      std::vector<Dims> sizes;
      for (const ValueId id : graph_.inputs()) {
        sizes.push_back(graph_.value(id).type.sizes);
        for (int64_t& size : sizes.back()) {
          if (graph_.symbol_name(size) == name) size = end;
        }
      }
      const Status fits = graph_.with_input_sizes(sizes).status();
      if (fits.ok()) continue;
      return fits.with_prefix("dimension '" + name + "' of " + range_text(range) + " cannot be " +
                              std::to_string(end));
    }
  }
  return {};
}

DimRange Session::range_of(const Graph& graph, int64_t size) const {
  if (is_known(size)) return {size, size};
  const auto found = dim_ranges_.find(graph.symbol_name(size));
  return found == dim_ranges_.end() ? DimRange() : found->second;
}

SessionIo Session::describe(const Graph& graph, std::string_view name,
                            const TensorType& type) const {
  SessionIo io{.name = std::string(name),
               .dtype = type.dtype,
               .has_rank = type.has_rank,
               .sizes = type.sizes,
               .dim_names = {},
               .min_sizes = {},
               .max_sizes = {}};
  for (int64_t& size : io.sizes) {
    const DimRange range = range_of(graph, size);
    if (range.min == range.max) size = range.min;  // of a default input, which set_dims() leaves
    io.dim_names.emplace_back(graph.symbol_name(size));
    io.min_sizes.push_back(range.min);
    io.max_sizes.push_back(range.max);
  }
  return io;
}

void Session::describe_io() {
  for (const ValueId id : graph_.inputs()) {
    inputs_.push_back(describe(graph_, graph_.value(id).name, graph_.value(id).type));
  }
  for (size_t i = 0; i < graph_.outputs().size(); ++i) {
    const TensorType& type = graph_.value(graph_.outputs()[i]).type;
    outputs_.push_back(describe(graph_, graph_.output_names()[i], type));
  }
  if (default_inputs_ == nullptr) return;
  const Graph& model = default_inputs_->graph();
  for (const DefaultInput& input : model.default_inputs()) {
    inputs_.push_back(describe(model, model.value(input.value).name, input.type));
    inputs_.back().has_default = true;
  }
}

Status Session::check_io(std::string_view role, const SessionIo& io, const Tensor& tensor,
                         std::map<std::string, int64_t>* symbols) const {
  const auto refuse = [&](const std::string& expected) {
    return Status(BP_INVALID_ARGUMENT, std::string(role) + " '" + io.name + "': expected " +
                                           expected + ", found " + tensor.describe());
  };
  if (tensor.dtype() != io.dtype) return refuse("dtype " + std::string(dtype_name(io.dtype)));
  if (!io.has_rank) return {};
  if (tensor.sizes().size() != io.sizes.size()) {
    return refuse("rank " + std::to_string(io.sizes.size()) + " " + graph_.to_string(io.sizes));
  }
  for (size_t d = 0; d < io.sizes.size(); ++d) {
    const int64_t size = tensor.sizes()[d];
    if (is_known(io.sizes[d])) {
      if (size != io.sizes[d]) return refuse("sizes " + graph_.to_string(io.sizes));
    } else if (!io.dim_names[d].empty()) {
      const DimRange range{io.min_sizes[d], io.max_sizes[d]};
      if (size < range.min || size > range.max) {
        return Status(BP_INVALID_ARGUMENT,
                      std::string(role) + " '" + io.name + "': expected dimension " +
                          std::to_string(d) + " (" + io.dim_names[d] + ") of " + range_text(range) +
                          ", found " + std::to_string(size) + " in " + tensor.describe());
      }
      const auto [known, added] = symbols->emplace(io.dim_names[d], size);
      if (!added && known->second != size) {
        return refuse("dimension " + std::to_string(d) + " (" + io.dim_names[d] + ") of size " +
                      std::to_string(known->second) + " as elsewhere");
      }
    }
  }
  return {};
}

Result<std::vector<Ref<Tensor>>> Session::order_inputs(std::span<const NamedTensor> inputs) const {
  std::vector<Ref<Tensor>> ordered(graph_.inputs().size());
  auto next = inputs_.begin();  // mostly they come in the model's order, and may be many
  for (const auto& [name, tensor] : inputs) {
    // Captured by name, since older compilers cannot capture what a binding declares.
    const auto is_it = [&wanted = name](const SessionIo& i) { return i.name == wanted; };
    const bool in_order = next != inputs_.end() && is_it(*next);
    const auto io = in_order ? next : std::find_if(inputs_.begin(), inputs_.end(), is_it);
    if (io == inputs_.end()) {
      std::vector<std::string> names;
      for (const SessionIo& i : inputs_) names.push_back(i.name);
      std::string text = "the model has no input '" + name + "'; it has";
      for (const std::string& known : names) text += " '" + known + "'";
      if (const auto near = nearest_match(name, names)) text += "; did you mean '" + *near + "'?";
      return Status(BP_INVALID_ARGUMENT, text);
    }
    next = io + 1;
    Ref<Tensor>& place = ordered[static_cast<size_t>(io - inputs_.begin())];
    if (place) return Status(BP_INVALID_ARGUMENT, "input '" + name + "' is given twice");
    if (!tensor) return Status(BP_INVALID_ARGUMENT, "input '" + name + "' is null");
    place = tensor;
  }
  std::map<std::string, int64_t> symbols;
  for (size_t i = 0; i < ordered.size(); ++i) {
    if (!ordered[i])
      return Status(BP_INVALID_ARGUMENT, "input '" + inputs_[i].name + "' is missing");
    BP_TRY(check_io("input", inputs_[i], *ordered[i], &symbols));
  }
  return ordered;
}

}  // namespace bp
