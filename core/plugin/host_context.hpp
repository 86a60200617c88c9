// SPDX-License-Identifier: Apache-2.0
//
// The core's side of what an instance is lent: where a plugin's words about failures arrive, and
// how they find the call that they belong to.
#ifndef BACKPLANE_CORE_PLUGIN_HOST_CONTEXT_HPP
#define BACKPLANE_CORE_PLUGIN_HOST_CONTEXT_HPP

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "backplane/device_api.h"
#include "core/base/status.hpp"

namespace bp {

/// While it lives, this thread's reports count as those of `thread`, for which it makes a call;
/// once that has stopped waiting (`is_abandoned`), they are dropped.
class ReportsForThread {
 public:
  ReportsForThread(std::thread::id thread, const std::atomic<bool>* is_abandoned);
  ~ReportsForThread();
  ReportsForThread(const ReportsForThread&) = delete;
  ReportsForThread& operator=(const ReportsForThread&) = delete;

 private:
  friend class HostContext;
  const std::thread::id thread_;
  const std::atomic<bool>* const is_abandoned_;
};

/// What a plugin said about a failure.
struct PluginReport {
  bp_status status = BP_OK;
  bp_status raw_status =
      BP_OK;  // as it came; `status` is INTERNAL where this core does not know it
  int64_t vendor_code = 0;
  uint64_t op_seq = 0;          // of the launch that failed; 0: unknown
  bp_stream* stream = nullptr;  // nullptr: none
  std::string message;          // for people: bounded and cleaned
};

/// What the core lends to one instance; its address is the plugin's host_ctx. Any thread: its lock
/// is taken only where something failed, and after waits.
class HostContext {
 public:
  explicit HostContext(std::string plugin_id) : plugin_id_(std::move(plugin_id)) {}
  /// One for an instance of a plugin. None is ever destroyed, since threads of a plugin may report
  /// after its shutdown; the plugin's next instance gets it. Throws bad_alloc.
  static HostContext* lend(std::string plugin_id);
  /// Forgets the reports that no call took, and drops what comes until it is lent again.
  void give_back();
  static const bp_host_api* api();  // the table for init

  /// The newest report of the calling thread, and forgets its older ones: to be called right after
  /// a slot answered an error, on the thread that called the slot.
  std::optional<PluginReport> take_report();
  /// The calling thread has words about this status.
  bool has_report(bp_status raw_status);
  /// The oldest report about a stream from any thread: the words for an asynchronous failure.
  std::optional<PluginReport> take_stream_report(bp_stream* stream);
  /// After the stream's end: another one may get its address.
  void drop_stream_reports(bp_stream* stream);
  /// OK, or the code (unknown ones as INTERNAL) with words by error_of(), taken by take_report().
  /// `what`: CallGate::call_name().
  Status to_status(bp_status code, std::string_view what);
  /// What every error of a plugin's call reads like:
  /// "npu:0: mem_copy: WORDS (OUT_OF_MEMORY, status 4, vendor code -61)".
  static Status error_of(bp_status code, std::string_view what,
                         const std::optional<PluginReport>& report);

 private:
  static void on_report(void* host_ctx, const bp_report_info* info);
  static void on_log(void* host_ctx, uint32_t level, bp_str message);

  const std::string plugin_id_;
  std::mutex mutex_;
  bool is_given_back_ = false;                                     // under mutex_
  HostContext* next_context_ = nullptr;                            // of all that were ever lent
  std::vector<std::pair<std::thread::id, PluginReport>> reports_;  // oldest first, bounded
};

}  // namespace bp

#endif
