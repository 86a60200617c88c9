// SPDX-License-Identifier: Apache-2.0
#include "core/cli/vectors.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "core/base/dtype.hpp"
#include "core/cli/compare.hpp"
#include "core/cli/files/files.hpp"
#include "core/cli/text.hpp"
#include "ops/oracle/oracle.hpp"

namespace bp::cli {
namespace {

constexpr double kRelative = 1e-3;
constexpr double kOfRms = 1e-4;

void take(const std::string& prefix, const std::vector<std::string>& names,
          const NamedTensors& arrays, const std::string& path, std::vector<NamedArray>* out) {
  for (const auto& [array, tensor] : arrays) {
    if (!array.starts_with(prefix)) continue;
    const std::string name = array.substr(prefix.size());
    if (std::find(names.begin(), names.end(), name) == names.end()) continue;
    out->push_back({name, tensor, path + ":" + array});
  }
}

/// Of the finite ones: an infinite value says nothing of how large the others are. In long double,
/// which holds the squares of all doubles.
double rms_of(const std::vector<double>& values) {
  long double sum = 0;
  size_t count = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    sum += static_cast<long double>(value) * value;
    ++count;
  }
  return count == 0 ? 0 : static_cast<double>(std::sqrt(sum / static_cast<long double>(count)));
}

/// In units of rms, the expected values'; of itself where that is 0.
double largest_difference(const std::vector<double>& have, const std::vector<double>& want,
                          double rms) {
  double largest = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    if (have[i] == want[i] || (std::isnan(have[i]) && std::isnan(want[i]))) continue;
    if (!std::isfinite(have[i]) || !std::isfinite(want[i])) {
      return std::numeric_limits<double>::infinity();
    }
    const double difference = std::abs(have[i] - want[i]);
    largest = std::max(largest, rms > 0 ? difference / rms : difference);
  }
  return largest;
}

Status add_output(const NamedArray& expected, const HostTensor& found, Deviation* out) {
  const std::vector<double> have = oracle_tensor(found).to_f64();
  const std::vector<double> want = oracle_tensor(expected.tensor).to_f64();
  const double rms = rms_of(want);
  const Tolerance tolerance = is_float_dtype(found.dtype) ? Tolerance{kRelative, kOfRms * rms}
                                                          : Tolerance{.rtol = 0, .atol = 0};
  BP_TRY_ASSIGN(const Comparison comparison, compare(found, expected.tensor, tolerance));
  out->max_error = std::max(out->max_error, largest_difference(have, want, rms));
  if (comparison.passed) return {};
  if (out->passed) {
    out->words =
        "output '" + expected.name + "' is not as in " + expected.source + ": " + comparison.words;
  }
  out->passed = false;
  return {};
}

}  // namespace

Result<Vectors> read_vectors(const std::string& path, const Graph& graph) {
  BP_TRY_ASSIGN(const NamedTensors arrays, read_tensors(path));
  Vectors vectors;
  take("in/", input_names(graph), arrays, path, &vectors.inputs);
  take("out/", output_names(graph), arrays, path, &vectors.outputs);
  if (!vectors.inputs.empty() || !vectors.outputs.empty()) return vectors;
  return Status(BP_INVALID_ARGUMENT,
                path + ": expected arrays in/NAME and out/NAME of the model, found none");
}

Result<Deviation> deviation(const std::vector<NamedArray>& found,
                            const std::vector<NamedArray>& expected) {
  Deviation result;
  for (const NamedArray& want : expected) {
    const auto have = std::find_if(found.begin(), found.end(),
                                   [&](const NamedArray& each) { return each.name == want.name; });
    const HostTensor& made = have->tensor;
    if (made.dtype != want.tensor.dtype || !(made.sizes == want.tensor.sizes)) {
      return Status(BP_INVALID_ARGUMENT,
                    "output '" + want.name + "': expected " +
                        std::string(dtype_name(want.tensor.dtype)) + " " +
                        shape_text(want.tensor.sizes) + " as in " + want.source + ", found " +
                        std::string(dtype_name(made.dtype)) + " " + shape_text(made.sizes));
    }
    BP_TRY(add_output(want, made, &result));
  }
  return result;
}

}  // namespace bp::cli
