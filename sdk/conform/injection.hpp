// SPDX-License-Identifier: Apache-2.0
//
// The extension bp.test_inject of the plugin under test: its driver fails on demand.
#ifndef BACKPLANE_SDK_CONFORM_INJECTION_HPP
#define BACKPLANE_SDK_CONFORM_INJECTION_HPP

#include "backplane/sdk/test_inject.h"
#include "core/plugin/loader.hpp"
#include "sdk/conform/checks.hpp"

namespace bp::conform {

class Injection {
 public:
  Injection() = default;  // not offered
  explicit Injection(const LoadedPlugin& plugin);

  bool is_offered() const { return table_ != nullptr; }
  /// The driver call `nth`, counted from now, fails once with INVALID_ARGUMENT; 0: none does.
  void arm(Checks& checks, uint64_t nth) const;
  /// Whether it has.
  bool has_failed(Checks& checks) const;

 private:
  const bp_test_inject_api* table_ = nullptr;
  bp_instance* instance_ = nullptr;
};

}  // namespace bp::conform

#endif
