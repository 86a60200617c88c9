// SPDX-License-Identifier: Apache-2.0
//
// Test vectors of a model: one .npz with an array in/NAME for each input and out/NAME for each
// output.
#ifndef BACKPLANE_CORE_CLI_VECTORS_HPP
#define BACKPLANE_CORE_CLI_VECTORS_HPP

#include <string>
#include <vector>

#include "core/base/status.hpp"
#include "core/cli/run_inputs.hpp"
#include "core/graph/graph.hpp"

namespace bp::cli {

struct Vectors {
  std::vector<NamedArray> inputs;
  std::vector<NamedArray> outputs;
};

/// Arrays of other names are left alone. Errors: the reader's; INVALID_ARGUMENT for an archive with
/// an array for none of the model's inputs and outputs.
Result<Vectors> read_vectors(const std::string& path, const Graph& graph);

struct Deviation {
  bool passed = true;
  double max_error = 0;  // the largest difference, in units of the expected values' rms
  std::string words;     // of the first output that differs
};

/// |found - expected| <= 1e-3 |expected| + 1e-4 rms(expected) for finite floats, where the rms is
/// of finite values; equal for the rest. Of the outputs that the vectors have. Errors:
/// INVALID_ARGUMENT for another dtype or other sizes.
Result<Deviation> deviation(const std::vector<NamedArray>& found,
                            const std::vector<NamedArray>& expected);

}  // namespace bp::cli

#endif
