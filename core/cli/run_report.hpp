// SPDX-License-Identifier: Apache-2.0
//
// What one `backplane run` found, and its two faces: tables for people, JSON for programs.
#ifndef BACKPLANE_CORE_CLI_RUN_REPORT_HPP
#define BACKPLANE_CORE_CLI_RUN_REPORT_HPP

#include <cstdint>
#include <string>
#include <vector>

#include "core/cli/cli.hpp"
#include "core/cli/compare.hpp"
#include "core/cli/run_inputs.hpp"
#include "core/execute/session.hpp"

namespace bp::cli {

struct OutputReport {
  std::string name;
  HostTensor tensor;
  std::string file;  // empty: not written
};

struct CheckReport {
  std::string name;
  std::string file;
  Comparison comparison;
};

struct Latency {
  double first_ns = 0;  // with the making of the plan
  double min_ns = 0;    // of the runs behind the first; of the first if it is the only one
  double median_ns = 0;
  uint64_t run_count = 0;
};

struct RunReport {
  std::string device;
  std::vector<DimSource> dims;
  std::vector<NamedArray> inputs;
  std::vector<OutputReport> outputs;
  std::vector<CheckReport> checks;
  Latency latency;
  PlacementCounts counts;
  MemoryPlan memory;
  std::vector<PlacementRow> placements;
};

std::string report_text(const RunArgs& args, const RunReport& report);
std::string report_json(const RunArgs& args, const RunReport& report);

}  // namespace bp::cli

#endif
