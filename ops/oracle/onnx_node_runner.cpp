// SPDX-License-Identifier: Apache-2.0
//
// Test program: ONNX's own node tests through the reader and the oracle, so that neither is judged
// by what we believe. Folders with model.onnx, input_<n>.pb and output_<n>.pb come one per line on
// standard input, each with a least relative tolerance behind a tab; each is answered by one line:
// PASS, FAIL (wrong values) or REFUSED, the folder, and words.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "core/base/dtype.hpp"
#include "ops/onnx/import.hpp"
#include "ops/oracle/oracle.hpp"
#include "ops/register.hpp"

namespace bp {
namespace {

/// input_0.pb, input_1.pb... as far as they are there.
Result<std::vector<OracleTensor>> load_tensors(const std::filesystem::path& folder,
                                               const std::string& kind) {
  std::vector<OracleTensor> tensors;
  for (size_t i = 0;; ++i) {
    const auto path = folder / (kind + "_" + std::to_string(i) + ".pb");
    if (!std::filesystem::exists(path)) return tensors;
    BP_TRY_ASSIGN(const HostTensor tensor, load_tensor_proto(path.string()));
    tensors.push_back(oracle_tensor(tensor));
  }
}

/// ONNX computed its expected values in the output's own dtype, or in f32. The functions that it
/// writes out round at each of their steps.
double relative_tolerance(uint32_t dtype) {
  if (dtype == BP_DTYPE_BF16) return 1.6e-2;
  if (dtype == BP_DTYPE_F16) return 2e-3;
  return dtype == BP_DTYPE_F32 || dtype == BP_DTYPE_F64 ? 1e-5 : 0;
}

bool close(double expected, double found, double tolerance) {
  if (std::isnan(expected)) return std::isnan(found);
  if (expected == found) return true;
  return std::fabs(expected - found) <= tolerance * (std::fabs(expected) + 0.01);
}

/// `least_tolerance`: relative, for values that the case has written down with few digits.
Status compare(const OracleTensor& expected, const OracleTensor& found, double least_tolerance) {
  if (expected.dtype != found.dtype || !(expected.sizes == found.sizes)) {
    return {BP_INTERNAL, "expected " + std::string(dtype_name(expected.dtype)) +
                             to_string(expected.sizes) + ", found " +
                             std::string(dtype_name(found.dtype)) + to_string(found.sizes)};
  }
  const auto expected_values = expected.to_f64();
  const auto found_values = found.to_f64();
  const double tolerance = std::max(relative_tolerance(expected.dtype), least_tolerance);
  for (size_t i = 0; i < expected_values.size(); ++i) {
    if (close(expected_values[i], found_values[i], tolerance)) continue;
    return {BP_INTERNAL, "element " + std::to_string(i) + ": expected " +
                             std::to_string(expected_values[i]) + ", found " +
                             std::to_string(found_values[i])};
  }
  return {};
}

Status run_case(const OpRegistry& registry, const std::filesystem::path& folder,
                double least_tolerance) {
  BP_TRY_ASSIGN(const Graph graph, load_onnx((folder / "model.onnx").string(), registry));
  BP_TRY_ASSIGN(const std::vector<OracleTensor> inputs, load_tensors(folder, "input"));
  BP_TRY_ASSIGN(const std::vector<OracleTensor> expected, load_tensors(folder, "output"));
  std::vector<OracleTensor> outputs;
  BP_TRY(evaluate_graph(graph, inputs, &outputs));
  if (expected.empty() || outputs.size() != expected.size()) {
    return {BP_INTERNAL, "expected " + std::to_string(expected.size()) + " outputs, found " +
                             std::to_string(outputs.size())};
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Status same = compare(expected[i], outputs[i], least_tolerance);
    if (!same.ok()) return same.with_prefix("output " + std::to_string(i));
  }
  return {};
}

}  // namespace
}  // namespace bp

int main() {
  bp::OpRegistry registry;
  const bp::Status registered = bp::register_ops(&registry);
  if (!registered.ok()) {
    std::cerr << registered.to_string() << "\n";
    return 1;
  }
  std::string line;
  while (std::getline(std::cin, line)) {
    const size_t tab = line.find('\t');
    const std::string folder = line.substr(0, tab);
    const double tolerance = tab == std::string::npos ? 0 : std::stod(line.substr(tab + 1));
    const bp::Status status = bp::run_case(registry, folder, tolerance);
    // Comparisons answer INTERNAL; what the reader or inference refuses is no wrong result.
    const char* verdict = "REFUSED";
    if (status.ok()) verdict = "PASS";
    if (status.code() == BP_INTERNAL) verdict = "FAIL";
    std::cout << verdict << "\t" << folder << "\t" << status.message() << "\n";
  }
  return 0;
}
