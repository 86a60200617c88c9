// SPDX-License-Identifier: Apache-2.0
//
// The end of a Runtime among threads that go on calling: refuse, wait, close, in that order.
// Nothing is freed under a call that is waited for in vain.
#include <thread>

#include "core/base/fork.hpp"
#include "core/base/log.hpp"
#include "core/runtime/runtime.hpp"

namespace bp {
namespace {

/// An address that no other live thread has.
const void* this_thread_mark() {
  static constinit thread_local const char mark = 0;
  return &mark;
}

}  // namespace

RuntimeUse::RuntimeUse(const Runtime& runtime) noexcept
    : granted_(contain([&] { HandleUses::announce(&runtime); }).ok() &&
               !runtime.is_closed_by_another_thread()) {}

bool Runtime::is_closed_by_another_thread() const {
  const void* closer = closer_.load(std::memory_order_seq_cst);
  return closer != nullptr && closer != this_thread_mark();
}

void Runtime::end(const Runtime* runtime) noexcept {
  if (!in_sink_of_a_working_thread()) return delete runtime;
  // Without a thread for it, it stays for ever.
  [[maybe_unused]] const Status begun =
      contain([runtime] { std::thread([runtime] { delete runtime; }).detach(); });
}

Status Runtime::close_amid_calls(OwnerOf owner_of) {
  BP_TRY(check_not_forked());
  if (workers_.on_worker()) {
    return Status(BP_BUSY, "a run of this Runtime is still in its callback, which called this");
  }
  if (in_sink_of_a_working_thread()) {
    return Status(BP_BUSY, "a thread that works for a device logs a line, whose sink called this");
  }
  if (closer_.load() == this_thread_mark()) return {};  // a callback of the close in progress
  if (is_used_by_this_thread(this, owner_of)) {
    return Status(BP_BUSY,
                  "another call on this Runtime is still in its callback, which called this");
  }
  BP_TRY(take_close_turn());
  const Status status = contain([&]() -> Status {
    if (is_ended_.load()) return {};
    BP_TRY(end_calls(owner_of));
    close();
    return {};
  });
  end_close_turn();
  return status;
}

Status Runtime::take_close_turn() {
  const auto deadline = std::chrono::steady_clock::now() + wait_timeout_;
  std::unique_lock lock(close_mutex_);
  const auto is_free = [this] { return closer_.load() == nullptr; };
  if (!close_turn_ended_.wait_until(lock, deadline, is_free)) {
    return Status(BP_TIMEOUT, "another thread is still closing the Runtime (BACKPLANE_TIMEOUT)");
  }
  closer_.store(this_thread_mark());
  return {};
}

void Runtime::end_close_turn() {
  std::vector<std::shared_ptr<const void>> late;
  {
    const std::lock_guard lock(close_mutex_);
    closer_.store(nullptr);
    late.swap(late_);
  }
  close_turn_ended_.notify_all();
  for (auto& object : late) let_go(std::move(object));  // another close may have begun
}

void Runtime::let_go(std::shared_ptr<const void> object) noexcept {
  for (;;) {
    {
      const RuntimeUse use(*this);
      if (use.granted()) return object.reset();
    }
    const std::lock_guard lock(close_mutex_);
    if (closer_.load() == nullptr) continue;
    if (contain([&] { late_.push_back(object); }).ok()) return;
    // Without memory to note it, it stays for ever: it would reach what is being closed.
    union Forever {
      explicit Forever(std::shared_ptr<const void>&& given) : kept(std::move(given)) {}
      ~Forever() {}
      std::shared_ptr<const void> kept;
    } never_destroyed(std::move(object));
    return;
  }
}

Status Runtime::end_calls(OwnerOf owner_of) {
  closed_.store(true, std::memory_order_seq_cst);  // what each call asks after it noted its uses
  tell_close_listeners();
  BP_TRY(stop_runs());
  const auto deadline = std::chrono::steady_clock::now() + wait_timeout_;
  if (wait_for_uses_by_others(this, owner_of, deadline)) return {};
  return timed_out("a call on another thread has not returned");
}

Status Runtime::add_close_listener(CloseListener* listener) {
  const std::lock_guard lock(listeners_mutex_);
  BP_TRY(check_open());
  close_listeners_.push_back(listener);
  return {};
}

void Runtime::remove_close_listener(CloseListener* listener) {
  const std::lock_guard lock(listeners_mutex_);
  std::erase(close_listeners_, listener);
}

void Runtime::tell_close_listeners() {
  const std::lock_guard lock(listeners_mutex_);
  for (CloseListener* listener : close_listeners_) listener->runtime_closes();
}

Status Runtime::stop_runs() {
  stopping_.store(true);
  const auto deadline = std::chrono::steady_clock::now() + wait_timeout_;
  const Status stopped = workers_.close(wait_timeout_);
  if (stopped.code() == BP_TIMEOUT) return timed_out("an asynchronous run has not ended");
  BP_TRY(stopped);
  while (runs_.load() != 0) {
    if (std::chrono::steady_clock::now() >= deadline) {
      return timed_out("a run has not ended");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return {};
}

Status Runtime::timed_out(std::string text) const {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(wait_timeout_);
  text += " within " + std::to_string(seconds.count()) + " s (BACKPLANE_TIMEOUT)";
  for (const auto& device : devices_) {
    const std::string calls = device->table().gate->calls_in_progress();
    if (!calls.empty()) text += "; in progress is " + calls;
  }
  return Status(BP_TIMEOUT, text);
}

void Runtime::close() {
  if (forked()) return;  // the plugins' threads are not here to be ended
  closed_.store(true, std::memory_order_seq_cst);
  if (is_ended_.exchange(true)) return;
  tell_close_listeners();
  [[maybe_unused]] const Status logged = contain([&] {
    const std::string summary = fallback_summary();
    if (!summary.empty()) log(BP_LOG_INFO, "fallback: " + summary);
  });
  for (auto device = devices_.rbegin(); device != devices_.rend(); ++device) (*device)->close();
  while (!plugins_.plugins.empty()) plugins_.plugins.pop_back();
}

}  // namespace bp
