// SPDX-License-Identifier: Apache-2.0
//
// Where the inputs of `backplane run` and `bench` come from: files, or a seed for those that were
// not given.
#ifndef BACKPLANE_CORE_CLI_RUN_INPUTS_HPP
#define BACKPLANE_CORE_CLI_RUN_INPUTS_HPP

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.hpp"
#include "core/cli/cli.hpp"
#include "core/execute/session.hpp"
#include "core/graph/graph.hpp"

namespace bp::cli {

struct NamedArray {
  std::string name;
  HostTensor tensor;
  std::string source;  // a file, or "made up from seed 1"
  bool is_made_up = false;
};

struct DimSource {
  std::string name;
  int64_t size = 0;
  std::string source;  // "--dim", "input image", "nothing says it"
  bool is_told = true;
};

/// Reads NAME=FILE for each; FILE.npz gives the array NAME, FILE.npz:ARRAY that one. `known`: the
/// names there can be, `what`: "input" or "output". Errors: INVALID_ARGUMENT for a name that the
/// model does not have, with the nearest, or an array that is not in the archive; the readers'.
Result<std::vector<NamedArray>> read_arrays(const std::vector<NameValue>& files,
                                            const std::vector<std::string>& known,
                                            const char* what);

/// As --dim gives them; each name once.
using DimArgs = std::vector<DimArg>;
/// By an input's name: its integers are at least 0 and below this.
using InputLimits = std::map<std::string, int64_t>;

std::vector<std::string> input_names(const Graph& graph);
std::vector<std::string> output_names(const Graph& graph);

/// The size of every symbolic dimension: as --dim fixed it, as the given inputs have it, else 1, or
/// what in the range of --dim is nearest to it.
/// Errors: INVALID_ARGUMENT for a --dim that the model does not have, with the nearest.
Result<std::vector<DimSource>> find_dims(const Graph& graph, const DimArgs& dims,
                                         const std::vector<NamedArray>& given);
/// "; guessed sizes: N = 1, S = 1 (--dim NAME=SIZE tells one)", for an error of a run that may come
/// from one. Empty if all are told. `inputs`: with those that were made up.
std::string words_of_guesses(const Session& session, const std::vector<DimSource>& dims,
                             const std::vector<NamedArray>& inputs);
/// For one run at a time, with these sizes and ranges.
Result<Ref<Session>> open_session(Runtime& runtime, Device& device, Graph graph,
                                  const DimArgs& dims);

/// Inputs whose integers become indices, through casts and changes of shape at most, and below what
/// they have to be: the extent that they point into, or 1 where it is not known.
InputLimits index_limits(const Graph& graph);

/// Adds what is missing and has no default, made from the seed and the input's name alone: floats
/// in [0, 1), integers and bools 0 or 1, integers of an input in `limits` from 0 to below it.
/// Errors: INVALID_ARGUMENT for an input without a rank; UNSUPPORTED for dtypes that have no such
/// values; OUT_OF_MEMORY. All name the input.
Status fill_missing(const Session& session, const std::vector<DimSource>& dims, uint64_t seed,
                    const InputLimits& limits, std::vector<NamedArray>* inputs);

}  // namespace bp::cli

#endif
