// SPDX-License-Identifier: Apache-2.0
//
// The fault table: a row for each call, kind of fault and device, as Markdown and as JSON.
#ifndef BACKPLANE_TESTS_FAULT_INJECTION_REPORT_HPP
#define BACKPLANE_TESTS_FAULT_INJECTION_REPORT_HPP

#include <cstdint>
#include <string>
#include <vector>

namespace bp::faults {

struct Row {
  std::string call;
  std::string kind;
  std::string device;
  uint64_t points = 0;    // at which the fault came
  uint64_t errors = 0;    // the call answered an error, and everything else was as before
  uint64_t streams = 0;   // ... and its stream had failed, until it was reset
  uint64_t absorbed = 0;  // the call succeeded all the same
  std::vector<std::string> failed = {};  // "point 7: words"
};

/// Writes PATH.md and PATH.json. False: they could not be written.
bool write_report(const std::string& path, const std::vector<Row>& rows);

}  // namespace bp::faults

#endif
