// SPDX-License-Identifier: Apache-2.0
//
// The host table's functions. They are called by foreign code, so every text is bounded and
// cleaned, and nothing they throw may leave them.
#include "core/plugin/host_context.hpp"

#include <algorithm>

#include "core/base/foreign_text.hpp"
#include "core/base/log.hpp"
#include "core/plugin/foreign.hpp"
#include "core/plugin/slots.hpp"

namespace bp {
namespace {

constexpr size_t kMaxReports = 64;

/// All that were ever lent: never destroyed, reachable from here and from plugins.
constinit std::mutex g_contexts_mutex;
constinit HostContext* g_contexts = nullptr;
constinit thread_local const ReportsForThread* reports_for_thread = nullptr;

}  // namespace

ReportsForThread::ReportsForThread(std::thread::id thread, const std::atomic<bool>* is_abandoned)
    : thread_(thread), is_abandoned_(is_abandoned) {
  reports_for_thread = this;
}

ReportsForThread::~ReportsForThread() { reports_for_thread = nullptr; }

HostContext* HostContext::lend(std::string plugin_id) {
  const std::lock_guard lock(g_contexts_mutex);
  for (HostContext* context = g_contexts; context != nullptr; context = context->next_context_) {
    if (context->plugin_id_ != plugin_id) continue;
    const std::lock_guard context_lock(context->mutex_);
    if (std::exchange(context->is_given_back_, false)) return context;
  }
  auto* const made = new HostContext(std::move(plugin_id));
  made->next_context_ = std::exchange(g_contexts, made);
  return made;
}

void HostContext::give_back() {
  std::vector<std::pair<std::thread::id, PluginReport>> dropped;
  const std::lock_guard lock(mutex_);
  is_given_back_ = true;
  reports_.swap(dropped);
}

const bp_host_api* HostContext::api() {
  static constexpr bp_host_api kApi = {sizeof(bp_host_api), 0, &on_report, &on_log};
  return &kApi;
}

void HostContext::on_report(void* host_ctx, const bp_report_info* info) {
  if (host_ctx == nullptr || info == nullptr) return;
  if (info->struct_size < kRequiredBytes<bp_report_info>) return;
  auto* self = static_cast<HostContext*>(host_ctx);
  const ReportsForThread* const speaks_for = reports_for_thread;
  if (speaks_for != nullptr && *speaks_for->is_abandoned_) return;
  const std::thread::id thread =
      speaks_for != nullptr ? speaks_for->thread_ : std::this_thread::get_id();
  // Out of memory: the status still tells.
  [[maybe_unused]] const Status told = contain([&] {
    PluginReport report{
        known_status(info->status), info->status, info->vendor_code, info->op_seq, info->stream,
        foreign_text(info->message)};
    log(BP_LOG_DEBUG, fmt::format("plugin {} reports {}: {}", self->plugin_id_,
                                  status_name(report.status), report.message));
    const std::lock_guard lock(self->mutex_);
    if (self->is_given_back_) return;
    auto& reports = self->reports_;
    // What breaks an emulated stream is a call that failed on this thread, with words of its own.
    if (report.stream != nullptr) {
      const auto own = std::find_if(reports.rbegin(), reports.rend(), [&](const auto& entry) {
        return entry.first == thread && entry.second.stream == nullptr &&
               entry.second.status == report.status;
      });
      if (own != reports.rend()) {
        report.message = std::move(own->second.message);
        report.raw_status = own->second.raw_status;
        report.vendor_code = own->second.vendor_code;
        reports.erase(std::next(own).base());
      }
    }
    if (reports.size() == kMaxReports) reports.erase(reports.begin());
    reports.emplace_back(thread, std::move(report));
  });
}

void HostContext::on_log(void* host_ctx, uint32_t level, bp_str message) {
  if (host_ctx == nullptr || !log_enabled(level)) return;
  [[maybe_unused]] const Status told = contain([&] {
    log(level,
        "plugin " + static_cast<HostContext*>(host_ctx)->plugin_id_ + ": " + foreign_text(message));
  });
}

bool HostContext::has_report(bp_status raw_status) {
  const std::lock_guard lock(mutex_);
  return std::any_of(reports_.begin(), reports_.end(), [&](const auto& entry) {
    return entry.first == std::this_thread::get_id() && entry.second.raw_status == raw_status;
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

void HostContext::drop_stream_reports(bp_stream* stream) {
  const std::lock_guard lock(mutex_);
  std::erase_if(reports_, [=](const auto& entry) { return entry.second.stream == stream; });
}

Status HostContext::to_status(bp_status code, std::string_view what) {
  if (code == BP_OK) return {};
  auto report = take_report();
  if (report && report->status != known_status(code)) report.reset();  // of another failure
  return error_of(code, what, report);
}

Status HostContext::error_of(bp_status code, std::string_view what,
                             const std::optional<PluginReport>& report) {
  const bool fits = report && report->status == known_status(code);
  const bool has_words = report && !report->message.empty();
  std::string text(what);
  if (has_words && report->message.starts_with(what)) text.clear();
  if (!text.empty()) text += ": ";
  text += has_words ? report->message : "the plugin gave no words";
  text += fmt::format(" ({}, status {}", status_name(code), fits ? report->raw_status : code);
  if (report && report->vendor_code != 0) {
    text += fmt::format(", vendor code {}", report->vendor_code);
  }
  return Status(known_status(code), text + ")");
}

}  // namespace bp
