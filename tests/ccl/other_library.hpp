// SPDX-License-Identifier: Apache-2.0
//
// Programs that repeat, with another library of collectives, what ccl_cases_test has left of its
// cases: the same inputs, and results that are compared with ours element by element.
#ifndef BACKPLANE_TESTS_CCL_OTHER_LIBRARY_HPP
#define BACKPLANE_TESTS_CCL_OTHER_LIBRARY_HPP

#include <functional>
#include <string>
#include <vector>

#include "tests/ccl/case_report.hpp"
#include "tests/ccl/oracle.hpp"

namespace bp::ccl::cases {

/// Those that the library is asked for: all but what this side refuses, and dtypes that others do
/// not have (f16, bf16, 8-bit floating point and scales). Without what ours has left nothing of in
/// `folder` since hosts cannot be made here.
std::vector<Case> repeated_cases(const std::string& folder);

/// What the library makes of a rank's contribution: what the rank receives.
using Repeat = std::function<Bytes(const Case& c, uint32_t rank, const Bytes& input)>;

/// Runs it on one rank. Empty: the results agree, and are right. Also an exception is told.
std::string repeat_on_rank(const std::string& folder, const Case& c, uint32_t rank,
                           const Repeat& repeat);

struct Library {
  std::string name;   // of the report
  std::string title;  // for people
  std::string ranks;  // what its ranks are
};

/// Prints and writes ccl_NAME.{md,json}. The exit code of the program: 0 where all that ours has
/// left in `folder` agree.
int report_repeated(const std::string& folder, const std::string& reports, const Library& library,
                    std::vector<CaseResult> results);

/// Elements behind a rank's sum or average: of what the library leaves to its caller.
void divide(const Case& c, Bytes* values);

}  // namespace bp::ccl::cases

#endif
