// SPDX-License-Identifier: Apache-2.0
//
// What was proved of each algorithm for each number of ranks, as a table.
#ifndef BACKPLANE_CCL_SCHEDULE_PROOF_REPORT_TEST_HPP
#define BACKPLANE_CCL_SCHEDULE_PROOF_REPORT_TEST_HPP

#include <string>

#include "ccl/schedule/symbolic_sweep_test.hpp"

namespace bp::ccl::symbolic {

/// What the tests of this program have proved so far.
std::vector<ProvedRow>& proved_rows();
/// Proves, and adds its rows to these.
Proof prove_and_note(Kind kind, const std::vector<uint32_t>& rank_counts, Sweep sweep);
uint64_t case_count(const std::vector<ProvedRow>& rows);

/// When the tests are over: writes NAME.md and NAME.json into the folder, and demands as many rows
/// and cases; nothing where only some tests ran.
void report_proofs(const std::string& folder, const std::string& name, size_t rows, uint64_t cases);

}  // namespace bp::ccl::symbolic

#endif
