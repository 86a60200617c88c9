// SPDX-License-Identifier: Apache-2.0
//
// The host table's functions. They are called by foreign code, so every text is bounded and
// cleaned, and nothing they throw may leave them.
#include <algorithm>
#include <cstddef>

#include "core/base/log.hpp"
#include "core/base/utf8.hpp"
#include "core/plugin/load_steps.hpp"

namespace bp {
namespace {

constexpr size_t kMaxReports = 64;

std::string clean(bp_str text) {
  return text.ptr == nullptr ? std::string() : printable({text.ptr, text.len});
}

}  // namespace

const bp_host_api* HostContext::api() {
  static constexpr bp_host_api kApi = {sizeof(bp_host_api), 0, &on_report, &on_log};
  return &kApi;
}

void HostContext::on_report(void* host_ctx, const bp_report_info* info) {
  constexpr size_t kNeeded = offsetof(bp_report_info, message) + sizeof(bp_str);
  if (host_ctx == nullptr || info == nullptr || info->struct_size < kNeeded) return;
  auto* self = static_cast<HostContext*>(host_ctx);
  // Out of memory: the status still tells.
  [[maybe_unused]] const Status told = contain([&] {
    PluginReport report{known_status(info->status), info->vendor_code, info->op_seq, info->stream,
                        clean(info->message)};
    log(BP_LOG_DEBUG, fmt::format("plugin {} reports {}: {}", self->plugin_id_,
                                  status_name(report.status), report.message));
    const std::lock_guard lock(self->mutex_);
    auto& reports = self->reports_;
    // What breaks an emulated stream is a call that failed on this thread, with words of its own.
    if (report.stream != nullptr) {
      const auto own = std::find_if(reports.rbegin(), reports.rend(), [&](const auto& entry) {
        return entry.first == std::this_thread::get_id() && entry.second.stream == nullptr &&
               entry.second.status == report.status;
      });
      if (own != reports.rend()) std::swap(report.message, own->second.message);
    }
    if (reports.size() == kMaxReports) reports.erase(reports.begin());
    reports.emplace_back(std::this_thread::get_id(), std::move(report));
  });
}

void HostContext::on_log(void* host_ctx, uint32_t level, bp_str message) {
  if (host_ctx == nullptr || !log_enabled(level)) return;
  [[maybe_unused]] const Status told = contain([&] {
    log(level, "plugin " + static_cast<HostContext*>(host_ctx)->plugin_id_ + ": " + clean(message));
  });
}

std::optional<PluginReport> HostContext::take_report() {
  const std::lock_guard lock(mutex_);
  std::optional<PluginReport> newest;
  std::erase_if(reports_, [&](auto& entry) {
    if (entry.first != std::this_thread::get_id()) return false;
    newest = std::move(entry.second);
    return true;
  });
  return newest;
}

std::optional<PluginReport> HostContext::take_stream_report(bp_stream* stream) {
  const std::lock_guard lock(mutex_);
  const auto at = std::find_if(reports_.begin(), reports_.end(),
                               [=](const auto& entry) { return entry.second.stream == stream; });
  if (at == reports_.end()) return std::nullopt;
  std::optional<PluginReport> report = std::move(at->second);
  reports_.erase(at);
  return report;
}

Status HostContext::to_status(bp_status code, std::string_view what) {
  if (code == BP_OK) return {};
  const auto report = take_report();
  const bool fits = report && report->status == known_status(code) && !report->message.empty();
  return fail(known_status(code), "{}: {}", what,
              fits ? report->message : "the plugin gave no words");
}

}  // namespace bp
