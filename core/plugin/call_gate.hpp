// SPDX-License-Identifier: Apache-2.0
//
// The one way into foreign code. All calls into one instance, or into one of its devices, go
// through its gate, which keeps one-call-at-a-time devices in turn, turns what is thrown into a
// status, ends control calls at their deadline, and checks what comes back. The typed calls that
// are generated from the headers (core/device/slot_calls.hpp) are its callers.
#ifndef BACKPLANE_CORE_PLUGIN_CALL_GATE_HPP
#define BACKPLANE_CORE_PLUGIN_CALL_GATE_HPP

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "backplane/device_api.h"
#include "core/base/float_environment.hpp"
#include "core/plugin/slots.hpp"

namespace bp {

/// What is wrong with an answer.
struct AnswerDefect {
  const char* words = nullptr;  // nullptr: nothing
  bool can_be_given_back = false;
};

/// Two handles of one kind are equal if these numbers are.
inline uint64_t live_value(uint64_t handle) { return handle; }
inline uint64_t live_value(const void* handle) { return reinterpret_cast<uint64_t>(handle); }

/// What people know a call by.
struct CallTitle {
  CallTitle(Slot slot) : text(slot_info(slot).name) {}
  CallTitle(const char* function) : text(function) {}  // of a table that has no slots yet
  const char* text;
};

class CallGate;

namespace detail {

/// The call on the way of data that a thread is in. Written by that thread alone.
struct CallInProgress {
  std::atomic<const CallGate*> gate{nullptr};  // nullptr: none
  std::atomic<const char*> what{nullptr};
  std::atomic<const bp_kernel*> kernel{nullptr};
  std::atomic<uint64_t> number{0};  // of this thread's calls
  bool is_listed = false;
};
extern constinit thread_local CallInProgress call_in_progress;
/// So that others find it, until the thread ends.
void list_calls_of_this_thread() noexcept;

}  // namespace detail

/// While it lives, this thread is in a call that nothing can end. One that takes longer than the
/// gate's timeout is named in the log, once, by an idle helper thread of the gate.
class WatchedCall {
 public:
  [[gnu::always_inline]] WatchedCall(const CallGate& gate, const char* what,
                                     const bp_kernel* kernel) {
    if (!call_.is_listed) [[unlikely]]
      detail::list_calls_of_this_thread();
    const uint64_t number = call_.number.load(std::memory_order_relaxed) + 1;
    call_.number.store(number, std::memory_order_relaxed);
    call_.what.store(what, std::memory_order_relaxed);
    call_.kernel.store(kernel, std::memory_order_relaxed);
    call_.gate.store(&gate, std::memory_order_release);
  }
  ~WatchedCall() { call_.gate.store(nullptr, std::memory_order_release); }
  WatchedCall(const WatchedCall&) = delete;
  WatchedCall& operator=(const WatchedCall&) = delete;

 private:
  detail::CallInProgress& call_ = detail::call_in_progress;
};

class CallGate : public std::enable_shared_from_this<CallGate> {
 public:
  /// For people: "npu:0", or "plugin npu" for an instance.
  explicit CallGate(std::string name = "a device");
  ~CallGate();
  CallGate(const CallGate&) = delete;
  CallGate& operator=(const CallGate&) = delete;

  // Settings, all before the first call.

  /// Where the words of a failure go, as the plugin's own go there.
  void report_to(const bp_host_api* host, void* host_ctx);
  /// For control calls, and for a turn on a one-call-at-a-time device.
  void set_timeout(std::chrono::nanoseconds timeout) { timeout_ns_ = to_ns(timeout); }
  /// Calls on the way of data that change how their thread calculates are errors from now on.
  void set_checks_arithmetic() { state_.fetch_or(kChecksArithmetic); }
  /// What control calls log is not kept back until they return, which may be never: for gates
  /// whose callers hold no lock of the core.
  void set_logs_at_once() { logs_at_once_ = true; }
  /// From now on there is a helper thread to name calls that do not return. Without memory or a
  /// thread for it they stay unnamed.
  void watch() { give_waiter(take_waiter()); }
  /// Kernels end after this: calls of theirs are not named any more.
  void forget_kernels();
  /// What an abandoned call may still use: kept with the gate, which then lives for ever.
  void keep_for_late_call(std::shared_ptr<const void> used) {
    const std::lock_guard lock(mutex_);
    used_by_late_call_ = std::move(used);
  }
  /// The gate of the instance that this device belongs to: it learns of an abandoned call.
  void belongs_to(std::shared_ptr<CallGate> instance) { instance_ = std::move(instance); }
  void set_one_call_at_a_time() { state_.fetch_or(kOneAtATime); }
  /// Waits begin with the plugin's own, and not with questions: for tests of plugins.
  void set_waits_without_asking() { asks_before_waiting_ = false; }
  /// Helper threads kept for later calls; further ones end with theirs. For who counts threads.
  void set_most_idle_helpers(size_t count) { most_idle_helpers_ = count; }

  const std::string& name() const { return name_; }
  uint64_t timeout_ns() const { return timeout_ns_.load(std::memory_order_relaxed); }
  bool one_call_at_a_time() const { return (state_.load() & kOneAtATime) != 0; }
  /// A call did not return by its deadline: no further call goes through, each answers DEVICE_LOST,
  /// and all that the plugin made stays as it is.
  bool is_abandoned() const { return (state_.load(std::memory_order_acquire) & kAbandoned) != 0; }
  /// This gate or, of an instance, one of its devices' is abandoned: a thread may still be inside.
  bool is_occupied() const { return is_abandoned() || abandoned_device_count() != 0; }
  /// Of an instance: how many of its devices are abandoned.
  uint32_t abandoned_device_count() const { return abandoned_devices_.load(); }
  /// "npu:0 is abandoned: stream_sync did not return within 2000 ms"; empty if it is not.
  std::string why_abandoned() const;
  /// The calls on the way of data that threads are in, by call_name(); empty: none.
  std::string calls_in_progress() const;
  /// "npu:0: launch of kernel relu_f32": what every error and log line calls a call.
  std::string call_name(CallTitle title, const bp_kernel* kernel = nullptr) const;

  /// A call on the way of data: on this thread, with no deadline. Where nothing goes wrong and
  /// calls need no turn it costs some plain loads and stores. `kernel` is named in errors.
  template <class Call>
  [[gnu::always_inline]] bp_status call(Slot slot, Call&& make_call,
                                        const bp_kernel* kernel = nullptr) {
    if (state_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      return call_in_turn(slot, make_call, kernel);
    const WatchedCall watched(*this, slot_info(slot).name, kernel);
    return guarded(slot, make_call, kernel);
  }

  /// A control call. `call` holds all that it reads and writes; it runs as a copy on a helper
  /// thread and is copied back when it has returned. Past the deadline the gate is abandoned, and
  /// the copy belongs to the late call for ever; its end_late(status), if it has one, is run when
  /// that returns after all. Reports and log lines of the helper become this thread's. Without
  /// memory for a helper the call runs here, with no deadline.
  template <class ControlCall>
  bp_status control(Slot slot, ControlCall* call) {
    return run(slot, call, timeout_ns());
  }
  /// A control call that ends by itself after `timeout_ns`; it may overrun that a little.
  template <class ControlCall>
  bp_status wait(Slot slot, ControlCall* call, uint64_t timeout_ns) {
    const uint64_t grace_ns = std::min<uint64_t>(this->timeout_ns(), 5'000'000'000);
    const uint64_t end_ns = timeout_ns > kForever - grace_ns ? kForever : timeout_ns + grace_ns;
    const auto start = std::chrono::steady_clock::now();
    const bp_status status = run(slot, call, end_ns);
    return waited(slot, status, to_ns(std::chrono::steady_clock::now() - start), timeout_ns);
  }

  /// Before a wait: asks `query` for a moment, which spares a healthy short wait the helper, or,
  /// on a one-call-at-a-time device, which must not be blocked in, until the timeout. nullopt: the
  /// plugin's own wait has to tell.
  template <class Query>
  std::optional<bp_status> ask(Query query, uint64_t timeout_ns) {
    if (one_call_at_a_time()) return ask_until(query, timeout_ns);
    return asks_before_waiting_ ? ask_briefly(query) : std::nullopt;
  }
  /// Before a call that waits for work and has no timeout.
  template <class Query>
  void ask_if_one_at_a_time(Query query, uint64_t timeout_ns) {
    if (one_call_at_a_time()) ask_until(query, timeout_ns);
  }

  /// A call that answers a new object: NULL, or what `defect` finds, is INTERNAL, and the object is
  /// given back by `give_back` where that is safe. On any error *out is zero.
  template <class Handle, class Make, class Defect, class GiveBack>
  bp_status make(Slot slot, Handle* out, Make make_call, Defect defect, GiveBack give_back) {
    bp_status status = make_call();
    if (status == BP_OK) {
      AnswerDefect found = defect();
      if (*out == Handle{}) found = {"answered OK and NULL", false};
      if (found.words == nullptr) return BP_OK;
      if (found.can_be_given_back) give_back();
      status = bad_answer(slot, found.words);
    }
    *out = Handle{};
    return status;
  }
  /// The same for objects of which no two may be alike until forget().
  template <class Handle, class Make, class Defect, class GiveBack>
  bp_status make_live(Slot slot, LiveKind kind, Handle* out, Make make_call, Defect defect,
                      GiveBack give_back) {
    std::list<uint64_t> room;
    try {
      room.push_back(0);
    } catch (const std::bad_alloc&) {
      return BP_OUT_OF_MEMORY;
    }
    return make(
        slot, out, make_call,
        [&]() -> AnswerDefect {
          if (*out == Handle{}) return {};
          room.front() = live_value(*out);
          if (!remember(kind, &room)) return {"answered an object that it gave before", false};
          return defect();
        },
        give_back);
  }
  /// Before the call that ends the object. Devices are kept by their instance's gate.
  void forget(LiveKind kind, uint64_t value);

  /// UNSUPPORTED: the plugin has no such slot, and nothing stands in for it.
  bp_status absent(Slot slot);
  /// INTERNAL, in words.
  bp_status bad_answer(Slot slot, std::string_view words, const bp_kernel* kernel = nullptr);
  /// From now on the gate is abandoned. The first caller logs the one line.
  void abandon(Slot slot, uint64_t waited_ns);

 private:
  struct Waiter;
  /// What a helper thread does with its copy of a control call.
  struct CallBody {
    size_t bytes = 0;
    bp_status (*make)(void* copy) = nullptr;
    void (*end_late)(void* copy, bp_status status) = nullptr;  // nullptr: nothing
  };
  /// A call on the way of data, seen by a helper.
  struct SeenCall {
    const detail::CallInProgress* call;
    uint64_t number;
    std::chrono::steady_clock::time_point since;
    bool is_told;
  };
  static constexpr uint32_t kOneAtATime = 1;
  static constexpr uint32_t kAbandoned = 2;
  static constexpr uint32_t kChecksArithmetic = 4;
  static constexpr uint64_t kForever = UINT64_MAX;
  static constexpr size_t kCallBytes = 256;

  /// The device's turn while it lives; owns nothing where calls need none.
  class Turn {
   public:
    Turn(CallGate& gate, Slot slot) : gate_(gate), taken_(gate.take_turn(slot)) {}
    ~Turn() {
      if (taken_) gate_.give_turn();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    bool taken() const { return taken_; }

   private:
    CallGate& gate_;
    const bool taken_;
  };

  static uint64_t to_ns(std::chrono::nanoseconds time) {
    return static_cast<uint64_t>(time.count());
  }

  /// call() where it takes more than that: apart, so that the way of most calls stays short.
  template <class Call>
  [[gnu::noinline]] bp_status call_in_turn(Slot slot, Call& make_call, const bp_kernel* kernel) {
    const Turn turn(*this, slot);
    if (!turn.taken()) return refuse();
    const WatchedCall watched(*this, slot_info(slot).name, kernel);
    if ((state_.load() & kChecksArithmetic) == 0) return guarded(slot, make_call, kernel);
    const KeepFloatEnvironment arithmetic;
    const uint64_t before = float_settings();
    const bp_status status = guarded(slot, make_call, kernel);
    return float_settings() == before ? status : changed_arithmetic(slot, kernel);
  }

  template <class Call>
  bp_status guarded(Slot slot, Call& make_call, const bp_kernel* kernel) {
    bp_status status = BP_OK;
    try {
      status = make_call();
    } catch (...) {
      return thrown(slot, kernel);
    }
    if (status == BP_OK) [[likely]]
      return status;
    return checked(slot, kernel, status);
  }

  template <class ControlCall>
  bp_status run(Slot slot, ControlCall* call, uint64_t deadline_ns) {
    static_assert(std::is_trivially_copyable_v<ControlCall> && sizeof(ControlCall) <= kCallBytes);
    CallBody body;
    body.bytes = sizeof(ControlCall);
    body.make = [](void* copy) { return (*static_cast<ControlCall*>(copy))(); };
    if constexpr (requires { call->end_late(BP_OK); }) {
      body.end_late = [](void* copy, bp_status status) {
        static_cast<ControlCall*>(copy)->end_late(status);
      };
    }
    return run_copy(slot, call, body, deadline_ns);
  }

  template <class Query>
  std::optional<bp_status> ask_briefly(Query query) {
    const auto end = std::chrono::steady_clock::now() + kBriefly;
    for (;;) {
      const bp_status status = query();
      if (status == BP_OK || is_abandoned()) return status;
      if (status != BP_PENDING || std::chrono::steady_clock::now() >= end) return std::nullopt;
      pause({});
    }
  }
  /// The answer of a wait: BP_TIMEOUT where it is still BP_PENDING at the end.
  template <class Query>
  bp_status ask_until(Query query, uint64_t timeout_ns) {
    const auto start = std::chrono::steady_clock::now();
    std::chrono::nanoseconds length = std::chrono::microseconds(2);
    for (;;) {
      const bp_status status = query();
      if (status != BP_PENDING) return status;
      const uint64_t gone_ns = to_ns(std::chrono::steady_clock::now() - start);
      if (gone_ns >= timeout_ns) return BP_TIMEOUT;
      const uint64_t left_ns = std::min<uint64_t>(timeout_ns - gone_ns, 1'000'000);
      pause(std::min(length, std::chrono::nanoseconds(static_cast<int64_t>(left_ns))));
      length = std::min<std::chrono::nanoseconds>(2 * length, std::chrono::milliseconds(1));
    }
  }
  static void pause(std::chrono::nanoseconds length);  // 0: lets others run

  bool take_turn(Slot slot);
  void give_turn();
  bp_status run_copy(Slot slot, void* call, const CallBody& body, uint64_t deadline_ns);
  bp_status finish(Slot slot, Waiter* waiter);
  std::shared_ptr<Waiter> take_waiter();
  void give_waiter(std::shared_ptr<Waiter> waiter);
  /// True, and the node is the gate's, unless it keeps the value already.
  bool remember(LiveKind kind, std::list<uint64_t>* node);
  CallGate& keeper_of(LiveKind kind);
  /// Inside a catch block. What ends the thread goes on.
  bp_status thrown(Slot slot, const bp_kernel* kernel);
  /// What a status that is not OK counts as.
  bp_status checked(Slot slot, const bp_kernel* kernel, bp_status status);
  /// What a wait answered; INTERNAL for a TIMEOUT that came long before.
  bp_status waited(Slot slot, bp_status status, uint64_t gone_ns, uint64_t timeout_ns);
  bp_status unknown_status(Slot slot, const bp_kernel* kernel, bp_status status);
  bp_status changed_arithmetic(Slot slot, const bp_kernel* kernel);
  bp_status refuse();
  void tell(bp_status status, std::string_view words);
  /// When an idle helper looks for calls that do not return.
  std::chrono::steady_clock::time_point next_look() const;
  /// A line for each that has not been told yet; none before next_look().
  std::vector<std::string> take_stuck_calls();
  /// It is of this gate, and its kernel is still there. Under watch_mutex_.
  bool can_be_named(const detail::CallInProgress& call) const;

  static constexpr auto kBriefly = std::chrono::microseconds(100);

  const std::string name_;
  std::atomic<uint32_t> state_{0};
  std::atomic<uint32_t> abandoned_devices_{0};
  bool asks_before_waiting_ = true;
  bool logs_at_once_ = false;
  std::atomic<uint64_t> timeout_ns_{300'000'000'000};
  const bp_host_api* host_ = nullptr;
  void* host_ctx_ = nullptr;
  std::shared_ptr<CallGate> instance_;

  std::timed_mutex turn_;
  std::atomic<Slot> turn_slot_{};  // of the call whose turn it is

  mutable std::mutex mutex_;
  size_t most_idle_helpers_ = 16;
  std::vector<std::shared_ptr<Waiter>> idle_waiters_;
  Slot abandoned_slot_{};
  uint64_t abandoned_after_ns_ = 0;
  std::shared_ptr<CallGate> kept_for_ever_;  // itself, once abandoned
  CallGate* next_abandoned_ = nullptr;
  std::shared_ptr<const void> used_by_late_call_;

  mutable std::mutex watch_mutex_;
  bool has_kernels_ = true;
  std::chrono::steady_clock::time_point latest_look_ = std::chrono::steady_clock::now();
  std::vector<SeenCall> seen_calls_;

  std::mutex live_mutex_;
  std::array<std::list<uint64_t>, static_cast<size_t>(LiveKind::kCount)> live_;
};

}  // namespace bp

#endif
