// SPDX-License-Identifier: Apache-2.0
//
// The extension bp.test_inject for a plugin written in C++: one TestInject in its bp_instance (as
// the member `inject`), one driver_call() at each place where the driver would be called, and
// TestInjectSlots<bp_instance>::kExtension in its list of extensions.
#ifndef BACKPLANE_SDK_TEST_INJECT_HPP
#define BACKPLANE_SDK_TEST_INJECT_HPP

#include <atomic>
#include <mutex>

#include "backplane/sdk/sdk.hpp"
#include "backplane/sdk/test_inject.h"

namespace bp::sdk {

/// Any-thread. Costs one relaxed load per driver call while it is not armed.
class TestInject {
 public:
  void arm(const bp_inject_args& args) {
    if (args.kind > BP_INJECT_LOSE_DEVICE) fail(BP_UNSUPPORTED, "inject_arm: kind ", args.kind);
    if (args.kind != BP_INJECT_NONE && args.nth == 0) refuse("inject_arm: nth is 0");
    const std::scoped_lock lock(mutex_);
    args_ = args;
    if (args_.status == BP_OK) args_.status = BP_INTERNAL;
    counts_ = {sizeof(counts_), 0, 0, 0};
    armed_ = args.kind != BP_INJECT_NONE;
  }

  /// From the instance options inject and inject_nth, so that opening a device can be made to fail.
  void arm(const bp_config& config) {
    constexpr std::string_view kKinds[] = {"none", "fail_call", "fail_from", "lose_device"};
    const auto kind = std::find(std::begin(kKinds), std::end(kKinds),
                                option(&config, "inject").value_or(kKinds[BP_INJECT_NONE]));
    bp_inject_args args{};
    args.kind = static_cast<uint32_t>(kind - std::begin(kKinds));
    args.nth = static_cast<uint64_t>(option_i64(&config, "inject_nth", 1));
    arm(args);
  }

  bp_inject_info counts() const {
    const std::scoped_lock lock(mutex_);
    return counts_;
  }

  /// `lost` is the calling device's own. Throws Failure where the call is to fail.
  void driver_call(std::atomic<bool>& lost) {
    if (armed_.load(std::memory_order_relaxed)) {
      const std::scoped_lock lock(mutex_);
      ++counts_.call_count;
      const bool is_nth = counts_.call_count == args_.nth;
      const bool is_later = counts_.call_count > args_.nth && args_.kind == BP_INJECT_FAIL_FROM;
      if (is_nth || is_later) ++counts_.failed_count;
      if (is_nth && args_.kind == BP_INJECT_LOSE_DEVICE) lost = true;
      if ((is_nth && !lost) || is_later) fail(args_.status, "injected by ", BP_TEST_INJECT_NAME);
    }
    require_not_lost(lost);
  }

  static void require_not_lost(const std::atomic<bool>& lost) {
    if (lost.load(std::memory_order_relaxed)) fail(BP_DEVICE_LOST, "the device is lost");
  }

 private:
  std::atomic<bool> armed_{false};
  mutable std::mutex mutex_;
  bp_inject_args args_{};
  bp_inject_info counts_{sizeof(bp_inject_info), 0, 0, 0};
};

/// The table, for the plugin's own bp_instance; a template since that type is not known here.
template <class Instance>
struct TestInjectSlots {
  static bp_status arm(bp_instance* instance, const bp_inject_args* args) {
    if (instance == nullptr || args == nullptr) return BP_INVALID_ARGUMENT;
    return guard(Host(), [&] {
      static_cast<Instance*>(instance)->inject.arm(read_args(args));
      return BP_OK;
    });
  }
  static bp_status read(bp_instance* instance, bp_inject_info* out_info) {
    if (instance == nullptr || out_info == nullptr) return BP_INVALID_ARGUMENT;
    write_out(out_info, static_cast<Instance*>(instance)->inject.counts());
    return BP_OK;
  }
  static constexpr bp_test_inject_api kTable = {sizeof(bp_test_inject_api), 0, arm, read};
  static constexpr bp_extension kExtension = {sizeof(bp_extension),   0, str(BP_TEST_INJECT_NAME),
                                              BP_TEST_INJECT_VERSION, 0, &kTable};
};

}  // namespace bp::sdk

#endif
