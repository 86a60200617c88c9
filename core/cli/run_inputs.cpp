// SPDX-License-Identifier: Apache-2.0
//
// The filling uses a generator of its own, since those of the standard library's distributions
// differ between libraries and the same seed must give the same values everywhere.
#include "core/cli/run_inputs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>

#include "core/base/dtype.hpp"
#include "core/base/options.hpp"
#include "core/cli/files/files.hpp"
#include "ops/oracle/oracle_tensor.hpp"

namespace bp::cli {
namespace {

constexpr std::string_view kArchiveMark = ".npz:";

struct FileChoice {
  std::string path;
  std::string array;
};

FileChoice split_choice(const std::string& name, const std::string& text) {
  const size_t mark = text.rfind(kArchiveMark);
  if (mark == std::string::npos) return {text, name};
  return {text.substr(0, mark + kArchiveMark.size() - 1), text.substr(mark + kArchiveMark.size())};
}

Result<HostTensor> read_array(const FileChoice& choice) {
  BP_TRY_ASSIGN(const auto arrays, read_tensors(choice.path, choice.array));
  if (arrays.size() == 1 && arrays.front().first.empty()) return arrays.front().second;
  std::vector<std::string> names;
  for (const auto& [name, tensor] : arrays) {
    if (name == choice.array) return tensor;
    names.push_back(name);
  }
  std::string text = choice.path + " has no array '" + choice.array + "'; it has";
  for (const std::string& name : names) text += " '" + name + "'";
  return Status(BP_INVALID_ARGUMENT, text + ". Pick one with " + choice.path + ":ARRAY");
}

Status check_name(const std::string& name, const std::vector<std::string>& known,
                  const char* what) {
  if (std::find(known.begin(), known.end(), name) != known.end()) return {};
  std::string text = std::string("the model has no ") + what + " '" + name + "'; it has";
  if (known.empty()) text += " none";
  for (const std::string& each : known) text += " '" + each + "'";
  if (const auto near = nearest_match(name, known)) text += "; did you mean '" + *near + "'?";
  return Status(BP_INVALID_ARGUMENT, text);
}

/// SplitMix64: every state gives a well mixed number.
class Generator {
 public:
  Generator(uint64_t seed, std::string_view name) : state_(seed) {
    for (const char c : name) state_ = next() ^ static_cast<unsigned char>(c);
  }
  uint64_t next() {
    state_ += 0x9E3779B97F4A7C15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

void fill(Generator generator, uint32_t dtype, int64_t count, int64_t limit, std::byte* out_data) {
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = generator.next();
    if (is_float_dtype(dtype)) {
      // 7 bits: exact in every float dtype, so that all of them get the same values.
      ops::store_float(dtype, out_data, i, static_cast<long double>(bits >> 57) / 128);
    } else if (limit > 0 && dtype != BP_DTYPE_BOOL) {
      ops::store_integer(dtype, out_data, i, (bits >> 1) % static_cast<uint64_t>(limit));
    } else {
      ops::store_integer(dtype, out_data, i, bits >> 63);
    }
  }
}

/// Sizes of dimensions by name.
using SizesByName = std::map<std::string_view, int64_t>;

/// `limit`: 0 if the input is no index.
Result<HostTensor> make_input(const SessionIo& io, const SizesByName& dims, uint64_t seed,
                              int64_t limit) {
  if (!io.has_rank) {
    return Status(BP_INVALID_ARGUMENT,
                  "its rank is not known; give it with --input " + io.name + "=FILE");
  }
  if (io.dtype < BP_DTYPE_BOOL || io.dtype > BP_DTYPE_F64) {
    return Status(BP_UNSUPPORTED, "no values are made for dtype " +
                                      std::string(dtype_name(io.dtype)) +
                                      "; give it with --input " + io.name + "=FILE");
  }
  Dims sizes = io.sizes;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (is_known(sizes[d])) continue;
    const auto dim = dims.find(io.dim_names[d]);
    sizes[d] = dim == dims.end() ? 1 : dim->second;
  }
  void* data = nullptr;
  BP_TRY_ASSIGN(HostTensor tensor, HostTensor::allocate(io.dtype, sizes, &data));
  const int64_t tensor_count = element_count(std::span<const int64_t>(sizes.data(), sizes.size()));
  fill(Generator(seed, io.name), io.dtype, tensor_count, limit, static_cast<std::byte*>(data));
  return tensor;
}

/// The first given input that has the dimension tells its size.
std::optional<DimSource> size_from_inputs(const Graph& graph, std::string_view dim,
                                          const std::vector<NamedArray>& given) {
  for (const NamedArray& array : given) {
    const Dims& sizes = graph.value(graph.find_value(array.name)).type.sizes;
    if (sizes.size() != array.tensor.sizes.size()) continue;  // refused by the run, in its words
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (is_known(sizes[d]) || graph.symbol_name(sizes[d]) != dim) continue;
      return DimSource{std::string(dim), array.tensor.sizes[d], "input " + array.name};
    }
  }
  return std::nullopt;
}

/// `wanted`: what --dim says of it; nullptr: nothing.
DimSource find_dim(const Graph& graph, const std::string& name, const DimArg* wanted,
                   const std::vector<NamedArray>& given) {
  if (wanted != nullptr && wanted->min == wanted->max) return {name, wanted->min, "--dim"};
  if (const auto found = size_from_inputs(graph, name, given)) return *found;
  if (wanted == nullptr) return {name, 1, "nothing says it, so 1", false};
  const int64_t size = std::clamp<int64_t>(1, wanted->min, wanted->max);
  return {name, size,
          "nothing says it, so " + std::to_string(size) + " of " + std::to_string(wanted->min) +
              ".." + std::to_string(wanted->max),
          false};
}

}  // namespace

Result<std::vector<NamedArray>> read_arrays(const std::vector<NameValue>& files,
                                            const std::vector<std::string>& known,
                                            const char* what) {
  std::vector<NamedArray> arrays;
  for (const auto& [name, file] : files) {
    BP_TRY(check_name(name, known, what));
    auto tensor = read_array(split_choice(name, file));
    if (!tensor.ok()) {
      return tensor.status().with_prefix(std::string(what) + " '" + name + "'");
    }
    arrays.push_back({name, std::move(*tensor), file});
  }
  return arrays;
}

std::vector<std::string> input_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const ValueId input : graph.inputs()) names.push_back(graph.value(input).name);
  for (const DefaultInput& input : graph.default_inputs()) {
    names.push_back(graph.value(input.value).name);
  }
  return names;
}

std::vector<std::string> output_names(const Graph& graph) {
  return {graph.output_names().begin(), graph.output_names().end()};
}

Result<std::vector<DimSource>> find_dims(const Graph& graph, const DimArgs& dims,
                                         const std::vector<NamedArray>& given) {
  std::vector<DimSource> found;
  std::set<std::string> seen;  // a model may have as many as it has inputs
  for (const ValueId input : graph.inputs()) {
    for (const int64_t size : graph.value(input).type.sizes) {
      const std::string name(graph.symbol_name(size));
      if (name.empty() || !seen.insert(name).second) continue;
      const auto dim = std::ranges::find(dims, name, &DimArg::name);
      found.push_back(find_dim(graph, name, dim == dims.end() ? nullptr : &*dim, given));
    }
  }
  std::vector<std::string> names;
  for (const DimSource& dim : found) names.push_back(dim.name);
  // Refused by the session, which tells why these have no sizes to choose.
  for (const DefaultInput& input : graph.default_inputs()) {
    for (const int64_t size : input.type.sizes) names.emplace_back(graph.symbol_name(size));
  }
  for (const DimArg& dim : dims) BP_TRY(check_name(dim.name, names, "dimension"));
  return found;
}

std::string words_of_guesses(const Session& session, const std::vector<DimSource>& dims,
                             const std::vector<NamedArray>& inputs) {
  std::vector<std::string> guesses;
  bool has_named = false;
  bool has_nameless = false;
  for (const DimSource& dim : dims) {
    if (dim.is_told) continue;
    guesses.push_back(dim.name + " = " + std::to_string(dim.size));
    has_named = true;
  }
  for (const SessionIo& io : session.inputs()) {
    const auto input = std::ranges::find(inputs, io.name, &NamedArray::name);
    if (input == inputs.end() || !input->is_made_up) continue;
    for (size_t d = 0; d < io.sizes.size(); ++d) {
      if (is_known(io.sizes[d]) || !io.dim_names[d].empty()) continue;
      guesses.push_back(
          fmt::format("dimension {} of '{}' = {}", d, io.name, input->tensor.sizes[d]));
      has_nameless = true;
    }
  }
  if (guesses.empty()) return {};
  return fmt::format("; guessed sizes: {} ({}{}{})", fmt::join(guesses, ", "),
                     has_named ? "--dim NAME=SIZE tells one" : "",
                     has_named && has_nameless ? "; " : "",
                     has_nameless ? "a file of the input tells one without a name" : "");
}

Result<Ref<Session>> open_session(Runtime& runtime, Device& device, Graph graph,
                                  const DimArgs& dims) {
  SessionArgs args;
  args.device = &device;
  args.max_contexts = 1;
  for (const DimArg& dim : dims) {
    if (dim.min == dim.max) {
      args.dims.emplace(dim.name, dim.min);
    } else {
      args.dim_ranges.emplace(dim.name, DimRange{dim.min, dim.max});
    }
  }
  return Session::create(runtime, std::move(graph), args);
}

Status fill_missing(const Session& session, const std::vector<DimSource>& dims, uint64_t seed,
                    const InputLimits& limits, std::vector<NamedArray>* inputs) {
  std::set<std::string> given;
  for (const NamedArray& each : *inputs) given.insert(each.name);
  SizesByName sizes;
  for (const DimSource& each : dims) sizes.emplace(each.name, each.size);
  for (const SessionIo& io : session.inputs()) {
    if (io.has_default || given.contains(io.name)) continue;
    const auto limit = limits.find(io.name);
    auto tensor = make_input(io, sizes, seed, limit == limits.end() ? 0 : limit->second);
    if (!tensor.ok()) return tensor.status().with_prefix("input '" + io.name + "'");
    inputs->push_back(
        {io.name, std::move(*tensor), "made up from seed " + std::to_string(seed), true});
  }
  return {};
}

}  // namespace bp::cli
