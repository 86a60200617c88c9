// SPDX-License-Identifier: Apache-2.0
//
// Holds a stream of the core still, so that a test fixes what happens before what without measuring
// time. (tests/raw_abi.hpp has one for a plugin's own streams.)
#ifndef BACKPLANE_TESTS_INTEGRATION_STREAM_GATE_HPP
#define BACKPLANE_TESTS_INTEGRATION_STREAM_GATE_HPP

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "core/runtime/device.hpp"
#include "core/runtime/stream.hpp"

namespace bp {

/// Holds a stream from hold() to open(). Opens by itself in the end, so that a test fails by its
/// values and not by a hang.
class StreamGate {
 public:
  StreamGate() = default;
  ~StreamGate() { open(); }
  StreamGate(const StreamGate&) = delete;
  StreamGate& operator=(const StreamGate&) = delete;

  [[nodiscard]] bool hold(Stream& stream) {
    const DeviceTable& table = stream.device().table();
    TimedLock lock;
    if (!stream.hold(lock).ok()) return false;
    auto share = std::make_unique<std::shared_ptr<State>>(state_);
    if (table.stream_host_call(stream.handle(), wait, share.get()) != BP_OK) return false;
    static_cast<void>(share.release());  // the call's
    return true;
  }
  void open() {
    const std::lock_guard lock(state_->mutex);
    state_->open = true;
    state_->changed.notify_all();
  }
  /// Time for others to run ahead.
  void open_later() {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    open();
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool open = false;
  };
  /// Runs once, maybe after the gate has gone: the state is shared with it.
  static void wait(void* user, bp_status) {
    const std::unique_ptr<std::shared_ptr<State>> share(static_cast<std::shared_ptr<State>*>(user));
    State& state = **share;
    std::unique_lock lock(state.mutex);
    state.changed.wait_for(lock, std::chrono::seconds(40), [&] { return state.open; });
  }

  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace bp

#endif
