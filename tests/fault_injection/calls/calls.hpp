// SPDX-License-Identifier: Apache-2.0
//
// The calls of the application API that are swept, each with what it needs, what it must give, and
// how its results are let go. list_test.py sees to it that none is left out.
#ifndef BACKPLANE_TESTS_FAULT_INJECTION_CALLS_CALLS_HPP
#define BACKPLANE_TESTS_FAULT_INJECTION_CALLS_CALLS_HPP

#include <span>
#include <string_view>
#include <vector>

#include "tests/fault_injection/world.hpp"

namespace bp::faults {

struct Call {
  std::string_view name;
  /// Needs a runtime that has never made this call: what is cached would hide most of it.
  bool is_cold = false;
  /// Ends the world: nothing can be tried again in it.
  bool is_last = false;
  /// Puts into the world what the call works on.
  void (*prepare)(World& world) = nullptr;
  /// Makes the call. Allocates nothing itself.
  bpa_status (*act)(World& world) = nullptr;
  /// nullptr: the results are right; else what is wrong.
  const char* (*check)(World& world) = nullptr;
  /// Releases what the call gave, whether it failed or not.
  void (*drop)(World& world) = nullptr;
  /// Only on devices whose queues can be named and wrapped.
  bool needs_native_streams = false;
  /// Answers from what the host knows, or ends an object: OK on a lost device too.
  bool works_when_lost = false;
  /// Only on targets with what data parallel needs.
  bool trains = false;
  /// Only on devices whose queues go on while nobody asks for them.
  bool needs_progress = false;
};

const std::vector<Call>& calls();

}  // namespace bp::faults

#endif
