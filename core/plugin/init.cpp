// SPDX-License-Identifier: Apache-2.0
//
// Steps 8 and 9: starts an instance and counts its devices; and ends it. These are control calls of
// the instance's gate: what hangs is abandoned with all that it may still touch.
#include <fmt/format.h>

#include "core/base/foreign_text.hpp"
#include "core/base/fork.hpp"
#include "core/base/log.hpp"
#include "core/plugin/load_steps.hpp"

namespace bp {
namespace {

struct InitCall {
  decltype(bp_root_api::init) function;
  decltype(bp_root_api::shutdown) shutdown;
  void* host_ctx;
  bp_config config;
  bp_instance* instance;
  const CallGate* gate;  // lives for ever once it is abandoned, as the host context does
  bp_status operator()() { return function(HostContext::api(), host_ctx, &config, &instance); }
  /// Nothing else can reach the instance, and hardware that is open for one process alone would
  /// stay taken. The gate lets no call through any more.
  void end_late(bp_status status) {
    if (status != BP_OK || instance == nullptr) return;
    bp_status code = BP_OK;
    const Status made = contain([&] { code = shutdown(instance); });
    const std::string what = gate->call_name(Slot::kShutdown);
    if (!made.ok()) {
      log(BP_LOG_WARNING, fmt::format("{} threw: {}", what, foreign_text(made.message())));
    } else if (code != BP_OK) {
      log(BP_LOG_WARNING, static_cast<HostContext*>(host_ctx)->to_status(code, what).to_string());
    }
  }
};

struct CountCall {
  decltype(bp_device_api::device_count) function;
  bp_instance* instance;
  uint32_t count;
  bp_status operator()() { return function(instance, &count); }
};

struct ShutdownCall {
  decltype(bp_root_api::shutdown) function;
  bp_instance* instance;
  bp_status operator()() { return function(instance); }
};

}  // namespace

Status start_instance(Attempt* attempt) {
  LoadedPlugin::Parts& parts = attempt->parts;
  CallGate& gate = *parts.gate;
  const auto options = std::make_shared<const OwnedOptions>(parts.instance_options);
  const bp_config config{sizeof(bp_config),
                         0,
                         parts.abi_semantics,
                         static_cast<uint32_t>(options->settings.size()),
                         options->arrays.names.data(),
                         options->arrays.values.data()};
  const bp_root_api& root = parts.tables.root;
  InitCall call{root.init, root.shutdown, parts.host, config, nullptr, &gate};
  const auto init = [&] { return gate.control(Slot::kInit, &call); };
  const auto defect = [] { return AnswerDefect(); };
  const bp_status code = gate.make(Slot::kInit, &call.instance, init, defect, [] {});
  if (gate.is_abandoned()) gate.keep_for_late_call(options);
  parts.instance = call.instance;
  if (code == BP_OK) return {};
  return parts.host->to_status(code, gate.call_name(Slot::kInit));
}

Status count_devices(Attempt* attempt) {
  constexpr uint32_t kMaxCount = 4096;
  LoadedPlugin::Parts& parts = attempt->parts;
  CountCall call{parts.tables.device.device_count, parts.instance, 0};
  const bp_status code = parts.gate->control(Slot::kDeviceCount, &call);
  parts.device_count = call.count;
  if (code == BP_OK && parts.device_count <= kMaxCount) return {};
  const std::string what = parts.gate->call_name(Slot::kDeviceCount);
  if (code != BP_OK) return parts.host->to_status(code, what);
  return fail(BP_INTERNAL, "{}: expected at most {}, found {}", what, kMaxCount,
              parts.device_count);
}

LoadedPlugin::~LoadedPlugin() {
  if (parts_.host == nullptr || parts_.gate == nullptr || forked()) return;
  // A call that was abandoned may still be inside, and uses what shutdown would end.
  if (parts_.gate->is_occupied()) return;
  if (parts_.instance != nullptr) {
    ShutdownCall call{parts_.tables.root.shutdown, parts_.instance};
    const bp_status code = parts_.gate->control(Slot::kShutdown, &call);
    if (parts_.gate->is_abandoned()) return;  // which was told
    [[maybe_unused]] const Status logged = contain([&] {
      if (code == BP_OK) return;
      const std::string what = parts_.gate->call_name(Slot::kShutdown);
      log(BP_LOG_WARNING, parts_.host->to_status(code, what).to_string());
    });
  }
  parts_.host->give_back();
}

}  // namespace bp
