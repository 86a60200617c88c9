// SPDX-License-Identifier: Apache-2.0
//
// Steps 8 and 9: starts an instance and counts its devices; and ends it. Foreign code that hangs
// must not hang the core: each call has a thread of its own, abandoned at its deadline with what
// it may still touch. An abandoned init's instance is shut down there, should it come.
#include <atomic>
#include <future>

#include "core/base/fork.hpp"
#include "core/base/log.hpp"
#include "core/plugin/load_steps.hpp"

namespace bp {
namespace {

/// Shared by the caller and the thread: a copy of all that the call needs.
struct ForeignCall {
  const bp_root_api root;
  HostContext* const host;
  const std::vector<OptionSetting> options;
  const uint32_t abi_semantics;
  bp_instance* instance;
  std::atomic<bool> settled{false};  // by the end of the call or by its deadline, who is first
};

Status init(ForeignCall* call) {
  const OptionArrays arrays(call->options);
  const bp_config config{sizeof(bp_config),   0,
                         call->abi_semantics, static_cast<uint32_t>(call->options.size()),
                         arrays.names.data(), arrays.values.data()};
  bp_instance** const out = &call->instance;
  const bp_status code = call->root.init(HostContext::api(), call->host, &config, out);
  Status status = call->host->to_status(code, "init");
  if (status.ok() && *out == nullptr) status = fail(BP_INTERNAL, "init gave no instance");
  const bool is_late = call->settled.exchange(true);
  if (is_late && status.ok()) call->root.shutdown(*out);
  return status;
}

Status shutdown(ForeignCall* call) {
  Status status = call->host->to_status(call->root.shutdown(call->instance), "shutdown");
  call->instance = nullptr;
  call->settled = true;
  return status;
}

Status run_with_deadline(const LoadedPlugin::Parts& parts, Status (*body)(ForeignCall*),
                         std::string_view name, bp_instance** out_instance) {
  BP_TRY(check_not_forked());
  try {
    const std::shared_ptr<ForeignCall> call(new ForeignCall{parts.tables.root, parts.host,
                                                            parts.instance_options,
                                                            parts.abi_semantics, parts.instance});
    std::packaged_task<Status()> task([call, body] { return body(call.get()); });
    std::future<Status> result = task.get_future();
    std::thread thread(std::move(task));
    *out_instance = nullptr;  // it is the thread's now
    const bool ready = result.wait_for(parts.call_timeout) == std::future_status::ready;
    if (!ready && !call->settled.exchange(true)) {
      thread.detach();
      parts.host->keep_from_others();
      return fail(BP_TIMEOUT, "{} did not return within {} ms and was abandoned", name,
                  parts.call_timeout.count());
    }
    thread.join();
    BP_TRY(result.get());
    *out_instance = call->instance;
    return {};
  } catch (...) {
    return status_of_exception().with_prefix(std::string(name) + " threw");
  }
}

}  // namespace

Status start_instance(Attempt* attempt) {
  LoadedPlugin::Parts& parts = attempt->parts;
  parts.gate = std::make_shared<CallGate>("plugin " + parts.manifest.id);
  parts.host = HostContext::lend(parts.manifest.id);
  parts.gate->report_to(HostContext::api(), parts.host);
  parts.gate->set_timeout(parts.call_timeout);
  return run_with_deadline(parts, init, "init", &parts.instance);
}

Status count_devices(Attempt* attempt) {
  constexpr uint32_t kMaxCount = 4096;
  LoadedPlugin::Parts& parts = attempt->parts;
  struct CountCall {
    decltype(bp_device_api::device_count) function;
    bp_instance* instance;
    uint32_t count;
    bp_status operator()() { return function(instance, &count); }
  };
  CountCall call{parts.tables.device.device_count, parts.instance, 0};
  const bp_status code = parts.gate->control(Slot::kDeviceCount, &call);
  if (code != BP_OK) return parts.host->to_status(code, "device_count");
  parts.device_count = call.count;
  if (parts.device_count <= kMaxCount) return {};
  return fail(BP_INTERNAL, "device_count: expected at most {}, found {}", kMaxCount,
              parts.device_count);
}

LoadedPlugin::~LoadedPlugin() {
  if (parts_.host == nullptr || parts_.gate == nullptr || forked()) return;
  // A call that was abandoned may still be inside, and uses what shutdown would end.
  if (parts_.gate->is_occupied()) return;
  bp_instance* left = parts_.instance;
  [[maybe_unused]] const Status logged = contain([&] {
    if (left == nullptr) return;
    const Status status = run_with_deadline(parts_, shutdown, "shutdown", &left);
    if (!status.ok()) log(BP_LOG_WARNING, "plugin " + id() + ": " + status.to_string());
  });
  // Without memory or a thread for the deadline it is ended without one.
  const auto shut_down_here = [&] { return parts_.tables.root.shutdown(left); };
  if (left != nullptr) parts_.gate->call(Slot::kShutdown, shut_down_here);
  parts_.host->give_back();
}

}  // namespace bp
