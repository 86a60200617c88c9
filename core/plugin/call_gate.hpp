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
  /// The gate of the instance that this device belongs to: it learns of an abandoned call.
  void belongs_to(std::shared_ptr<CallGate> instance) { instance_ = std::move(instance); }
  void set_one_call_at_a_time() { state_.fetch_or(kOneAtATime); }
  /// Waits begin with the plugin's own, and not with questions: for tests of plugins.
  void set_waits_without_asking() { asks_before_waiting_ = false; }
  /// Helper threads kept for later calls; further ones end with theirs. For who counts threads.
  void set_most_idle_helpers(size_t count) { most_idle_helpers_ = count; }

  const std::string& name() const { return name_; }
  uint64_t timeout_ns() const { return timeout_ns_; }
  bool one_call_at_a_time() const { return (state_.load() & kOneAtATime) != 0; }
  /// A call did not return by its deadline: no further call goes through, each answers DEVICE_LOST,
  /// and all that the plugin made stays as it is.
  bool is_abandoned() const { return (state_.load(std::memory_order_acquire) & kAbandoned) != 0; }
  /// This gate or, of an instance, one of its devices' is abandoned: a thread may still be inside.
  bool is_occupied() const { return is_abandoned() || has_abandoned_device_.load(); }
  /// "npu:0 is abandoned: stream_sync did not return within 2000 ms"; empty if it is not.
  std::string why_abandoned() const;

  /// A call on the way of data: on this thread, with no deadline. Costs one load and one compare
  /// where nothing goes wrong and calls need no turn. `kernel` is named in errors.
  template <class Call>
  bp_status call(Slot slot, Call&& make_call, const bp_kernel* kernel = nullptr) {
    if (state_.load(std::memory_order_relaxed) == 0) [[likely]]
      return guarded(slot, make_call, kernel);
    const Turn turn(*this, slot);
    return turn.taken() ? guarded(slot, make_call, kernel) : refuse();
  }

  /// A control call. `call` holds all that it reads and writes; it runs as a copy on a helper
  /// thread and is copied back when it has returned. Past the deadline the gate is abandoned, and
  /// the copy belongs to the late call for ever. Reports and log lines of the helper become this
  /// thread's. Without memory for a helper the call runs here, with no deadline.
  template <class ControlCall>
  bp_status control(Slot slot, ControlCall* call) {
    return run(slot, call, timeout_ns_);
  }
  /// A control call that ends by itself after `timeout_ns`; it may overrun that a little.
  template <class ControlCall>
  bp_status wait(Slot slot, ControlCall* call, uint64_t timeout_ns) {
    const uint64_t grace_ns = std::min<uint64_t>(timeout_ns_, 5'000'000'000);
    return run(slot, call, timeout_ns > kForever - grace_ns ? kForever : timeout_ns + grace_ns);
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
  /// Before the call that ends the object.
  void forget(LiveKind kind, uint64_t value);

  /// UNSUPPORTED: the plugin has no such slot, and nothing stands in for it.
  bp_status absent(Slot slot);
  /// INTERNAL, in words.
  bp_status bad_answer(Slot slot, std::string_view words);
  /// From now on the gate is abandoned. The first caller logs the one line.
  void abandon(Slot slot, uint64_t waited_ns);

 private:
  struct Waiter;
  static constexpr uint32_t kOneAtATime = 1;
  static constexpr uint32_t kAbandoned = 2;
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

  template <class Call>
  bp_status guarded(Slot slot, Call& make_call, const bp_kernel* kernel) {
    bp_status status = BP_OK;
    try {
      status = make_call();
    } catch (...) {
      return thrown(slot, kernel);
    }
    if (static_cast<uint32_t>(status) <= BP_INTERNAL) [[likely]]
      return status;
    return unknown_status(slot, kernel, status);
  }

  template <class ControlCall>
  bp_status run(Slot slot, ControlCall* call, uint64_t deadline_ns) {
    static_assert(std::is_trivially_copyable_v<ControlCall> && sizeof(ControlCall) <= kCallBytes);
    return run_copy(
        slot, call, sizeof(ControlCall),
        [](void* copy) { return (*static_cast<ControlCall*>(copy))(); }, deadline_ns);
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
  bp_status run_copy(Slot slot, void* call, size_t bytes, bp_status (*body)(void*),
                     uint64_t deadline_ns);
  bp_status finish(Slot slot, Waiter* waiter, void* call, size_t bytes);
  std::shared_ptr<Waiter> take_waiter();
  void give_waiter(std::shared_ptr<Waiter> waiter);
  /// True, and the node is the gate's, unless it keeps the value already.
  bool remember(LiveKind kind, std::list<uint64_t>* node);
  /// Inside a catch block.
  bp_status thrown(Slot slot, const bp_kernel* kernel);
  bp_status unknown_status(Slot slot, const bp_kernel* kernel, bp_status status);
  bp_status refuse();
  void tell(bp_status status, std::string_view words);
  std::string call_name(Slot slot, const bp_kernel* kernel) const;

  static constexpr auto kBriefly = std::chrono::microseconds(100);

  const std::string name_;
  std::atomic<uint32_t> state_{0};
  std::atomic<bool> has_abandoned_device_{false};
  bool asks_before_waiting_ = true;
  uint64_t timeout_ns_ = 300'000'000'000;
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

  std::mutex live_mutex_;
  std::array<std::list<uint64_t>, static_cast<size_t>(LiveKind::kCount)> live_;
};

}  // namespace bp

#endif
