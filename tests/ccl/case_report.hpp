// SPDX-License-Identifier: Apache-2.0
//
// The table of cases as people and scripts read it.
#ifndef BACKPLANE_TESTS_CCL_CASE_REPORT_HPP
#define BACKPLANE_TESTS_CCL_CASE_REPORT_HPP

#include <string>
#include <vector>

#include "tests/ccl/case.hpp"

namespace bp::ccl::cases {

struct CaseResult {
  std::string table;  // "schedules", or the devices of a mixed group
  Case what;
  Verdict verdict = Verdict::kNotRun;
  std::string words = {};  // why it is not passed
};

/// NAME.md and NAME.json in `folder`. `words` come first: a heading, and what was run. False: not
/// written.
bool write_report(const std::string& folder, const std::string& name, const std::string& words,
                  const std::vector<CaseResult>& results);

}  // namespace bp::ccl::cases

#endif
