// SPDX-License-Identifier: Apache-2.0
//
// Numbers are never given twice, so a late one names nothing.
#include "core/emulation/host_call.hpp"

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "core/base/log.hpp"
#include "core/base/status.hpp"

namespace bp {
namespace {

struct HostCall {
  std::shared_ptr<void> owned;
  void (*task)(void* owned, bp_status stream_status);
};

struct OpenCalls {
  std::mutex mutex;
  std::unordered_map<uint64_t, HostCall> by_number;
  uint64_t next_number = 1;
  bool has_told = false;
};

// Never destroyed: plugin threads may come while static destructors run.
OpenCalls& open_calls() {
  static auto* calls = new OpenCalls;
  return *calls;
}

/// Empty if the number is not open.
HostCall take(uint64_t number) {
  const std::lock_guard lock(open_calls().mutex);
  auto found = open_calls().by_number.extract(number);
  return found.empty() ? HostCall{} : std::move(found.mapped());
}

bool tell_this_time() {
  const std::lock_guard lock(open_calls().mutex);
  return !std::exchange(open_calls().has_told, true);
}

void run(void* user, bp_status stream_status) {
  const HostCall call = take(reinterpret_cast<uint64_t>(user));
  if (call.owned == nullptr) {
    if (!tell_this_time()) return;
    [[maybe_unused]] const Status logged = contain([] {
      log(BP_LOG_ERROR,
          "a plugin called a host function again, or one that it never got; such calls do nothing "
          "(stream_host_call calls a function once)");
    });
    return;
  }
  [[maybe_unused]] const Status ran = contain([&] {
    if (call.task != nullptr) call.task(call.owned.get(), known_status(stream_status));
  });
}

}  // namespace

bp_status call_host_once(const DeviceTable& table, bp_stream* stream, std::shared_ptr<void>* owned,
                         void (*task)(void* owned, bp_status stream_status)) {
  uint64_t number = 0;
  {
    const std::lock_guard lock(open_calls().mutex);
    number = open_calls().next_number++;
    open_calls().by_number.emplace(number, HostCall{*owned, task});
  }
  const bp_status status = table.stream_host_call(stream, run, reinterpret_cast<void*>(number));
  if (status != BP_OK) {
    take(number);
  } else {
    owned->reset();
  }
  return status;
}

}  // namespace bp
