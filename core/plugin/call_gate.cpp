// SPDX-License-Identifier: Apache-2.0
//
// Helper threads are kept from call to call, so that a program in its stride starts none. There is
// one per call in progress; a device that is used by one thread has one.
#include "core/plugin/call_gate.hpp"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <thread>

#include "core/base/float_environment.hpp"
#include "core/base/foreign_text.hpp"
#include "core/base/fork.hpp"
#include "core/base/log.hpp"
#include "core/base/status.hpp"
#include "core/base/timed_lock.hpp"
#include "core/plugin/host_context.hpp"

// There is no object behind what is caught, which a sanitizer takes for a defect.
#define BP_CATCHES_FORCED_UNWIND __attribute__((no_sanitize("null")))

namespace bp {
namespace {

// Abandoned gates, which are never freed. From here a leak check finds what they keep.
constinit std::atomic<CallGate*> first_abandoned{nullptr};

std::chrono::steady_clock::time_point time_in(uint64_t ns) {
  // A century counts as for ever, so that the sum cannot overflow.
  const auto now = std::chrono::steady_clock::now();
  return now + std::chrono::nanoseconds(static_cast<int64_t>(std::min(ns, uint64_t{1} << 61)));
}

}  // namespace

/// A helper thread and the call that it makes. The thread shares it, so a call that never returns
/// keeps what it uses. Between calls it looks for other threads' calls that do not return.
struct CallGate::Waiter {
  explicit Waiter(CallGate* owner) : gate(owner) {}

  CallGate* const gate;  // not to be used once it is ending, nor after a late call
  std::mutex mutex;
  std::condition_variable changed;
  CallBody body;  // nothing to do: body.make is null
  bool is_done = false;
  bool is_ending = false;
  bool has_left = false;  // the call ended this thread
  std::atomic<bool> is_abandoned{false};
  bp_status status = BP_OK;
  Status thrown;
  std::vector<LogScope::Line> lines;
  std::thread::id caller;
  std::thread thread;
  alignas(std::max_align_t) std::byte call[kCallBytes];

  void work() {
    std::unique_lock lock(mutex);
    while (wait_for_call(&lock)) {
      const CallBody made = body;
      lock.unlock();
      make_call();
      if (forked()) return;  // the plugin forked: this thread is all of the child
      lock.lock();
      body.make = nullptr;
      is_done = true;
      if (is_abandoned) {
        lock.unlock();
        if (made.end_late == nullptr || !thrown.ok()) return;
        [[maybe_unused]] const Status ended = contain([&] { made.end_late(call, status); });
        return;
      }
      changed.notify_all();
    }
  }

 private:
  /// False: the gate ends.
  bool wait_for_call(std::unique_lock<std::mutex>* lock) {
    const auto has_news = [this] { return is_ending || body.make != nullptr; };
    while (!has_news()) {
      if (changed.wait_until(*lock, gate->next_look(), has_news)) break;
      lock->unlock();
      // A sink may call the API, and so end the gate.
      [[maybe_unused]] const Status told = contain([&] {
        for (const std::string& line : gate->take_stuck_calls()) log(BP_LOG_WARNING, line);
      });
      lock->lock();
    }
    return body.make != nullptr;
  }

  /// The caller may hold the core's locks, and a sink may call the API: so lines are not written
  /// here but, at most gates, become the caller's.
  BP_CATCHES_FORCED_UNWIND void make_call() {
    const ReportsForThread reports(caller, &is_abandoned);
    const KeepFloatEnvironment arithmetic;  // for the next call
    std::optional<LogScope> scope;
    if (!gate->logs_at_once_) scope.emplace();
    try {
      status = body.make(call);
      thrown = {};
    } catch (abi::__forced_unwind&) {
      // pthread_exit: this thread is the core's own, and so may end.
      leave();
      throw;
    } catch (...) {
      thrown = status_of_exception();
    }
    if (scope) lines = scope->take();
  }

  void leave() {
    const std::lock_guard lock(mutex);
    has_left = true;
    is_done = true;
    changed.notify_all();
  }
};

CallGate::CallGate(std::string name) : name_(std::move(name)) {}

CallGate::~CallGate() {
  for (const std::shared_ptr<Waiter>& waiter : idle_waiters_) {
    if (forked()) {  // the thread is not in this process
      new std::shared_ptr<Waiter>(waiter);
      continue;
    }
    {
      const std::lock_guard lock(waiter->mutex);
      waiter->is_ending = true;
    }
    waiter->changed.notify_all();
    if (waiter->thread.get_id() == std::this_thread::get_id()) {
      waiter->thread.detach();  // a sink ends the gate from within its own helper
    } else {
      waiter->thread.join();
    }
  }
}

void CallGate::report_to(const bp_host_api* host, void* host_ctx) {
  host_ = host;
  host_ctx_ = host_ctx;
}

void CallGate::pause(std::chrono::nanoseconds length) {
  if (length.count() == 0) return std::this_thread::yield();
  std::this_thread::sleep_for(length);
}

// --- turns ---

bool CallGate::take_turn(Slot slot) {
  if (is_abandoned()) return false;
  if (!one_call_at_a_time()) return true;
  TimedLock turn(turn_, std::defer_lock);
  if (!turn.try_lock()) {
    // In slices: the call whose turn it is may be abandoned meanwhile.
    constexpr auto kSlice = std::chrono::milliseconds(20);
    const auto end = time_in(timeout_ns());
    while (!lock_within(turn, kSlice)) {
      if (is_abandoned()) return false;
      if (std::chrono::steady_clock::now() < end) continue;
      abandon(turn_slot_, timeout_ns());
      return false;
    }
    if (is_abandoned()) return false;
  }
  turn.release();
  turn_slot_.store(slot, std::memory_order_relaxed);
  return true;
}

void CallGate::give_turn() {
  if (one_call_at_a_time()) turn_.unlock();
}

// --- control calls ---

std::shared_ptr<CallGate::Waiter> CallGate::take_waiter() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_waiters_.empty()) {
      std::shared_ptr<Waiter> waiter = std::move(idle_waiters_.back());
      idle_waiters_.pop_back();
      return waiter;
    }
  }
  std::shared_ptr<Waiter> made;
  const Status status = contain([&] {
    auto waiter = std::make_shared<Waiter>(this);
    waiter->thread = std::thread([waiter] { waiter->work(); });
    made = std::move(waiter);
  });
  return status.ok() ? made : nullptr;
}

void CallGate::give_waiter(std::shared_ptr<Waiter> waiter) {
  if (waiter == nullptr) return;
  {
    const std::lock_guard lock(mutex_);
    const bool has_room = idle_waiters_.size() < most_idle_helpers_;
    if (has_room && contain([&] { idle_waiters_.push_back(waiter); }).ok()) return;
  }
  {
    const std::lock_guard waiter_lock(waiter->mutex);
    waiter->is_ending = true;
  }
  waiter->changed.notify_all();
  waiter->thread.join();
}

bp_status CallGate::run_copy(Slot slot, void* call, const CallBody& body, uint64_t deadline_ns) {
  if (forked()) return BP_FORKED;
  const Turn turn(*this, slot);
  if (!turn.taken()) return refuse();
  const std::shared_ptr<Waiter> waiter = take_waiter();
  const auto run_here = [&] { return body.make(call); };
  if (waiter == nullptr) return guarded(slot, run_here, nullptr);
  {
    std::unique_lock lock(waiter->mutex);
    std::memcpy(waiter->call, call, body.bytes);
    waiter->body = body;
    waiter->is_done = false;
    waiter->caller = std::this_thread::get_id();
    waiter->changed.notify_all();
    const auto is_done = [&] { return waiter->is_done; };
    if (!waiter->changed.wait_until(lock, time_in(deadline_ns), is_done)) {
      waiter->is_abandoned = true;
      waiter->thread.detach();
      lock.unlock();
      abandon(slot, deadline_ns);
      return refuse();
    }
  }
  if (waiter->has_left) {
    waiter->thread.detach();
    return bad_answer(slot, "ended its thread");
  }
  std::memcpy(call, waiter->call, body.bytes);
  const bp_status status = finish(slot, waiter.get());
  give_waiter(waiter);
  return status;
}

bp_status CallGate::finish(Slot slot, Waiter* waiter) {
  const Status thrown_by_call = std::exchange(waiter->thrown, {});
  // Without memory for words the status still tells, and the helper is given back.
  [[maybe_unused]] const Status told = contain([&] {
    for (const LogScope::Line& line : std::exchange(waiter->lines, {})) log(line.level, line.text);
    if (thrown_by_call.ok()) return;
    tell(BP_INTERNAL,
         fmt::format("{} threw: {}", call_name(slot), foreign_text(thrown_by_call.message())));
  });
  if (!thrown_by_call.ok()) return BP_INTERNAL;
  const auto answer = [&] { return waiter->status; };
  return guarded(slot, answer, nullptr);
}

// --- calls that do not return ---

namespace {

/// The calls of all threads that ever made one. Never destroyed: plugin threads may call while
/// static destructors run.
struct ListedCalls {
  std::mutex mutex;
  std::vector<detail::CallInProgress*> calls;
};

ListedCalls& listed_calls() {
  static auto* listed = new ListedCalls;
  return *listed;
}

struct ListedUntilThreadEnds {
  detail::CallInProgress* const call = &detail::call_in_progress;
  ListedUntilThreadEnds() {
    const std::lock_guard lock(listed_calls().mutex);
    listed_calls().calls.push_back(call);
  }
  ~ListedUntilThreadEnds() {
    if (forked()) return;  // the lock may be held for ever
    const std::lock_guard lock(listed_calls().mutex);
    std::erase(listed_calls().calls, call);
  }
};

}  // namespace

namespace detail {

constinit thread_local CallInProgress call_in_progress;

void list_calls_of_this_thread() noexcept {
  call_in_progress.is_listed = true;  // without memory it is never named
  [[maybe_unused]] const Status listed =
      contain([] { static thread_local const ListedUntilThreadEnds until_end; });
}

}  // namespace detail

std::chrono::steady_clock::time_point CallGate::next_look() const {
  constexpr uint64_t kLooksPerTimeout = 4;
  const auto pause_ns = static_cast<int64_t>(
      std::clamp<uint64_t>(timeout_ns() / kLooksPerTimeout, 1'000'000, uint64_t{1} << 61));
  const std::lock_guard lock(watch_mutex_);
  return latest_look_ + std::chrono::nanoseconds(pause_ns);
}

std::vector<std::string> CallGate::take_stuck_calls() {
  const auto now = std::chrono::steady_clock::now();
  std::vector<std::string> lines;
  if (now < next_look()) return lines;  // another helper was here
  const std::lock_guard lock(watch_mutex_);
  latest_look_ = now;
  const std::vector<SeenCall> before = std::exchange(seen_calls_, {});
  const std::lock_guard list_lock(listed_calls().mutex);
  for (const detail::CallInProgress* call : listed_calls().calls) {
    if (!can_be_named(*call)) continue;
    SeenCall seen{call, call->number.load(std::memory_order_acquire), now, false};
    const auto known = std::find_if(before.begin(), before.end(), [&](const SeenCall& other) {
      return other.call == call && other.number == seen.number;
    });
    if (known != before.end()) seen = *known;
    const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(now - seen.since);
    if (!seen.is_told && age >= std::chrono::nanoseconds(timeout_ns())) {
      seen.is_told = true;
      lines.push_back(fmt::format(
          "{} has not returned for {} ms; such a call cannot be ended, its thread waits for it",
          call_name(call->what.load(), call->kernel.load()), age.count()));
    }
    seen_calls_.push_back(seen);
  }
  return lines;
}

std::string CallGate::calls_in_progress() const {
  std::string names;
  const std::lock_guard watch_lock(watch_mutex_);
  const std::lock_guard list_lock(listed_calls().mutex);
  for (const detail::CallInProgress* call : listed_calls().calls) {
    if (!can_be_named(*call)) continue;
    if (!names.empty()) names += ", ";
    names += call_name(call->what.load(), call->kernel.load());
  }
  return names;
}

bool CallGate::can_be_named(const detail::CallInProgress& call) const {
  if (call.gate.load(std::memory_order_acquire) != this) return false;
  return has_kernels_ || call.kernel.load() == nullptr;
}

void CallGate::forget_kernels() {
  const std::lock_guard lock(watch_mutex_);
  has_kernels_ = false;
}

// --- abandonment ---

void CallGate::abandon(Slot slot, uint64_t waited_ns) {
  {
    const std::lock_guard lock(mutex_);
    if ((state_.load() & kAbandoned) != 0) return;
    abandoned_slot_ = slot;
    abandoned_after_ns_ = waited_ns;
    kept_for_ever_ = weak_from_this().lock();
    next_abandoned_ = kept_for_ever_ != nullptr ? first_abandoned.exchange(this) : nullptr;
    state_.fetch_or(kAbandoned, std::memory_order_release);
  }
  if (instance_ != nullptr) instance_->abandoned_devices_.fetch_add(1);
  [[maybe_unused]] const Status logged = contain([&] {
    log(BP_LOG_ERROR, why_abandoned() + "; nothing calls it any more, other devices go on");
  });
}

std::string CallGate::why_abandoned() const {
  const std::lock_guard lock(mutex_);
  if ((state_.load() & kAbandoned) == 0) return {};
  return fmt::format("{} is abandoned: {} did not return within {} ms", name_,
                     slot_info(abandoned_slot_).name, abandoned_after_ns_ / 1'000'000);
}

bp_status CallGate::refuse() {
  [[maybe_unused]] const Status told = contain([&] { tell(BP_DEVICE_LOST, why_abandoned()); });
  return BP_DEVICE_LOST;
}

// --- answers ---

CallGate& CallGate::keeper_of(LiveKind kind) {
  return kind == LiveKind::kDeviceClose && instance_ != nullptr ? *instance_ : *this;
}

bool CallGate::remember(LiveKind kind, std::list<uint64_t>* node) {
  CallGate& keeper = keeper_of(kind);
  const std::lock_guard lock(keeper.live_mutex_);
  std::list<uint64_t>& live = keeper.live_[static_cast<size_t>(kind)];
  if (std::find(live.begin(), live.end(), node->front()) != live.end()) return false;
  live.splice(live.begin(), *node);
  return true;
}

void CallGate::forget(LiveKind kind, uint64_t value) {
  std::list<uint64_t> ended;
  CallGate& keeper = keeper_of(kind);
  const std::lock_guard lock(keeper.live_mutex_);
  std::list<uint64_t>& live = keeper.live_[static_cast<size_t>(kind)];
  const auto found = std::find(live.begin(), live.end(), value);
  if (found != live.end()) ended.splice(ended.begin(), live, found);
}

std::string CallGate::call_name(CallTitle title, const bp_kernel* kernel) const {
  std::string text = name_ + ": " + title.text;
  if (kernel != nullptr) text += " of kernel " + foreign_text(kernel->name);
  return text;
}

bp_status CallGate::absent(Slot slot) {
  tell(BP_UNSUPPORTED, call_name(slot) + " is not there");
  return BP_UNSUPPORTED;
}

bp_status CallGate::bad_answer(Slot slot, std::string_view words, const bp_kernel* kernel) {
  tell(BP_INTERNAL, fmt::format("{} {}", call_name(slot, kernel), words));
  return BP_INTERNAL;
}

BP_CATCHES_FORCED_UNWIND bp_status CallGate::thrown(Slot slot, const bp_kernel* kernel) {
  try {
    throw;
  } catch (abi::__forced_unwind&) {
    // Nothing can keep a thread that pthread_exit ends, and it ends the process on its way through
    // functions that no exception may leave. A log's sink would get no line before that.
    [[maybe_unused]] const Status told = contain([&] {
      std::fprintf(stderr, "backplane error: %s ends its thread, which is not the plugin's\n",
                   call_name(slot, kernel).c_str());
    });
    throw;
  } catch (...) {
  }
  const Status status = status_of_exception();
  [[maybe_unused]] const Status told = contain([&] {
    tell(BP_INTERNAL,
         fmt::format("{} threw: {}", call_name(slot, kernel), foreign_text(status.message())));
  });
  return BP_INTERNAL;
}

namespace {

bool asks_for_work(Slot slot) {
  return slot == Slot::kStreamQuery || slot == Slot::kEventQuery || slot == Slot::kEventElapsed;
}
bool waits_for_work(Slot slot) { return slot == Slot::kStreamSync || slot == Slot::kEventSync; }

bool may_answer(Slot slot, bp_status status) {
  switch (status) {
    case BP_PENDING:
      return asks_for_work(slot) || slot == Slot::kCollectiveEnqueue;  // it joins still
    case BP_TIMEOUT:
      return waits_for_work(slot);
    case BP_CANCELLED:  // of work that was stopped on request
      return asks_for_work(slot) || waits_for_work(slot) || slot == Slot::kCollectiveEnqueue;
    default:
      return can_fail_work(status);
  }
}

}  // namespace

bp_status CallGate::checked(Slot slot, const bp_kernel* kernel, bp_status status) {
  if (known_status(status) != status) return unknown_status(slot, kernel, status);
  if (may_answer(slot, status)) return status;
  [[maybe_unused]] const Status told = contain([&] {
    bad_answer(
        slot,
        fmt::format("answered {}, which no {} can mean", status_name(status), slot_info(slot).name),
        kernel);
  });
  return BP_INTERNAL;
}

bp_status CallGate::waited(Slot slot, bp_status status, uint64_t gone_ns, uint64_t timeout_ns) {
  // Clocks differ a little, and so may what a plugin takes for the deadline.
  if (status != BP_TIMEOUT || gone_ns >= timeout_ns / 2) return status;
  [[maybe_unused]] const Status told = contain([&] {
    bad_answer(slot, fmt::format("answered TIMEOUT after {} of {} ms", gone_ns / 1'000'000,
                                 timeout_ns / 1'000'000));
  });
  return BP_INTERNAL;
}

bp_status CallGate::unknown_status(Slot slot, const bp_kernel* kernel, bp_status status) {
  // The plugin's own words say more than that its status is new.
  const bool is_lent = host_ == HostContext::api();
  if (is_lent && static_cast<HostContext*>(host_ctx_)->has_report(status)) return BP_INTERNAL;
  [[maybe_unused]] const Status told = contain([&] {
    tell(status, fmt::format("{} answered status {}, which is new to this core",
                             call_name(slot, kernel), status));
  });
  return BP_INTERNAL;
}

bp_status CallGate::changed_arithmetic(Slot slot, const bp_kernel* kernel) {
  [[maybe_unused]] const Status told = contain([&] {
    tell(
        BP_INTERNAL,
        call_name(slot, kernel) +
            " changed how its thread calculates (rounding, traps or tiny numbers); it is as before "
            "again");
  });
  return BP_INTERNAL;
}

void CallGate::tell(bp_status status, std::string_view words) {
  if (host_ == nullptr) return;
  const bp_report_info info{.struct_size = sizeof(bp_report_info),
                            .flags = 0,
                            .status = status,
                            .reserved = 0,
                            .vendor_code = 0,
                            .op_seq = 0,
                            .stream = nullptr,
                            .message = {words.data(), words.size()}};
  host_->report(host_ctx_, &info);
}

}  // namespace bp
