// SPDX-License-Identifier: Apache-2.0
//
// Each call with values small enough to know the right answer by hand. "Making the call" includes
// reading its values back: an asynchronous failure comes to light only there.
#include "tests/fault_injection/calls/support.hpp"

namespace bp::faults {

const std::vector<Call>& calls() {
  static const std::vector<Call> kCalls = [] {
    std::vector<Call> joined;
    for (const auto part : {runtime_calls(), tensor_calls(), operator_calls(), stream_calls(),
                            session_calls(), run_calls(), ccl_calls(), ccl_job_calls(),
                            dist_calls(), last_calls()}) {
      joined.insert(joined.end(), part.begin(), part.end());
    }
    return joined;
  }();
  return kCalls;
}

}  // namespace bp::faults
