// SPDX-License-Identifier: Apache-2.0
//
// What `backplane doctor` tries on one device: copies, a few operators by the core's way to them,
// and every kernel by itself, all against the oracle.
#ifndef BACKPLANE_CORE_CLI_DEVICE_CHECKS_HPP
#define BACKPLANE_CORE_CLI_DEVICE_CHECKS_HPP

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/runtime/runtime.hpp"

namespace bp::cli {

enum class CheckState {
  kOk,
  kUnsupported,  // there is no way to run it here, which is no fault
  kFailed,
};
/// "ok", "unsupported", "FAILED".
std::string_view check_state_name(CheckState state);

struct CheckResult {
  std::string name;       // "copies", "matmul", "kernels"
  std::string placement;  // "native", "decomposed", "fallback"; empty: no operator ran
  CheckState state = CheckState::kFailed;
  std::string words;        // what was tried, or what went wrong
  std::string next_action;  // set if it failed
};

/// Told what is about to be tried: "copies".
using BeginCheck = std::function<void(std::string_view check)>;

/// Uses some MiB of the device's memory; waits for its work.
std::vector<CheckResult> check_device(Runtime& runtime, Device& device, const BeginCheck& begin);

}  // namespace bp::cli

#endif
