// SPDX-License-Identifier: Apache-2.0
//
// For plugins over a library whose init of a communicator waits until all ranks have come:
// comm_init may not, so a thread does. A library whose init can be polled needs none of this.
#ifndef BACKPLANE_SDK_COMM_INIT_HPP
#define BACKPLANE_SDK_COMM_INIT_HPP

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "backplane/collective.h"
#include "backplane/sdk/slot.hpp"

namespace bp::sdk {

/// A communicator while its library makes it, and the made one. `Library` is the plugin's:
///
///   Comm init();   // waits for all ranks. On the thread, once
///   void abort();  // only where the library has it: makes an init in progress throw. Once at most
///
/// Comm owns what the library made: its destructor ends it, waits for no rank and throws nothing.
/// What init throws is the group's failure, with its words: a Failure has its status, for the rest
/// see guard().
///
/// abort() comes on another thread than init(), perhaps just before init() calls the library: what
/// it leaves makes that call return, too. It never comes once init() has returned, and a Comm never
/// ends while abort() is in progress.
///
/// A library without abort cannot be made to return. Its thread is left behind: the group has
/// failed at once, and whenever init() returns, the thread ends the Comm, and then Library, itself.
/// That may be after device_close and shutdown. So Library has copies of all that it uses, and no
/// pointer to a device, an instance, a Host or the arguments of comm_init. A library that minds
/// being called while the process exits wants an ExitGate in init().
template <class Library>
class CommInit {
 public:
  using Comm = decltype(std::declval<Library&>().init());
  static constexpr bool kHasAbort = requires(Library & library) { library.abort(); };

  /// Begins. Throws std::system_error where there is no thread, and then Library is gone.
  explicit CommInit(std::unique_ptr<Library> library)
      : shared_(std::make_shared<Shared>(std::move(library))),
        thread_([shared = shared_] { run(*shared); }) {}

  /// For comm_destroy. Waits for no rank: where the library has abort, for init() to return, half a
  /// second at most; without, only for one that has returned. Ends the Comm.
  ~CommInit() {
    abort(Host());
    if (shared_->is_over_within(std::chrono::milliseconds(kHasAbort ? 500 : 0))) {
      thread_.join();
    } else {
      thread_.detach();
    }
  }
  CommInit(const CommInit&) = delete;
  CommInit& operator=(const CommInit&) = delete;

  /// For comm_poll: the state, with its status, whose words are reported. The plugin fills in what
  /// it knows beside: enqueued_sequence, and what became of a group since it was ready. Any thread.
  bp_comm_state poll(const Host& host) const noexcept {
    bp_comm_state now{};
    now.struct_size = sizeof(now);
    now.state = shared_->state;
    if (now.state == BP_COMM_FAILED) {
      const Failure& why = shared_->failure;
      now.status = host.fail(why.status, why.message, why.vendor_code);
    }
    return now;
  }

  /// For comm_abort: the group fails with BP_CANCELLED, unless it has failed. Where it joins, the
  /// library's abort is called, and what that throws is a warning in the log. Where it was ready,
  /// answers the Comm, whose operations are the plugin's to end; else NULL. Any thread, and again.
  Comm* abort(const Host& host) noexcept {
    Shared& shared = *shared_;
    if (!shared.cancel()) return nullptr;
    if (Comm* const made = shared.made) return made;
    if constexpr (kHasAbort) {
      const std::lock_guard lock(shared.call_mutex);
      if (shared.call != Call::kInProgress) return nullptr;
      const Failure why = outcome_of([&shared] { shared.library->abort(); });
      if (why.status != BP_OK) host.log(BP_LOG_WARNING, why.message);
    }
    return nullptr;
  }

  /// For collective_enqueue: the Comm, good until this object ends. Throws Failure: BP_PENDING
  /// while the group joins, or what it failed with. Any thread.
  Comm& require_ready() const {
    const uint32_t state = shared_->state;
    if (state == BP_COMM_JOINING) throw Failure{BP_PENDING, "the communicator still joins"};
    if (state == BP_COMM_FAILED) throw Failure(shared_->failure);
    return *shared_->made;
  }

 private:
  enum class Call { kToCome, kInProgress, kReturned };

  /// The thread has it, too, so that either may end first.
  struct Shared {
    explicit Shared(std::unique_ptr<Library> given) : library(std::move(given)) {}

    /// False: the group has failed before.
    bool cancel() noexcept {
      const std::lock_guard lock(mutex);
      return state.exchange(BP_COMM_FAILED) != BP_COMM_FAILED;
    }
    /// What init came to. False: an abort was quicker, and nobody else has the Comm.
    bool settle(Failure* why) noexcept {
      const std::lock_guard lock(mutex);
      if (state == BP_COMM_FAILED) return false;
      if (comm.has_value()) made = &*comm;
      if (made == nullptr) failure = std::move(*why);
      state = made != nullptr ? BP_COMM_READY : BP_COMM_FAILED;
      is_over = true;
      ended.notify_all();
      return true;
    }
    void end() noexcept {
      const std::lock_guard lock(mutex);
      is_over = true;
      ended.notify_all();
    }
    bool is_over_within(std::chrono::milliseconds patience) {
      std::unique_lock lock(mutex);
      return ended.wait_for(lock, patience, [this] { return is_over; });
    }

    const std::unique_ptr<Library> library;  // ends after the Comm, which may use it
    std::optional<Comm> comm;                // the thread's, until it is made
    std::atomic<Comm*> made{nullptr};
    /// Written before FAILED only. An abort's words are there beforehand: it takes no memory.
    Failure failure{BP_CANCELLED, "the communicator was aborted"};
    std::atomic<uint32_t> state{BP_COMM_JOINING};
    std::mutex mutex;  // of what changes the state, and of is_over
    std::condition_variable ended;
    bool is_over = false;   // the thread calls nothing of the plugin's but Library's destructor
    std::mutex call_mutex;  // held during Library::abort; poll does not take it
    Call call = Call::kToCome;
  };

  static void run(Shared& shared) noexcept {
    if (begin_call(shared)) {
      Failure why = outcome_of([&shared] { shared.comm.emplace(shared.library->init()); });
      end_call(shared);
      if (shared.settle(&why)) return;
      shared.comm.reset();
    }
    shared.end();
  }

  /// False: it was aborted before.
  static bool begin_call(Shared& shared) noexcept {
    const std::lock_guard lock(shared.call_mutex);
    if (shared.state == BP_COMM_FAILED) return false;
    shared.call = Call::kInProgress;
    return true;
  }
  /// Waits for an abort in progress; from now on there is none.
  static void end_call(Shared& shared) noexcept {
    const std::lock_guard lock(shared.call_mutex);
    shared.call = Call::kReturned;
  }

  /// How `body` ended: the guard's report, whose words are kept in place of sent to the core.
  template <class Body>
  static Failure outcome_of(Body&& body) noexcept {
    Failure why{BP_OK, {}};
    bp_host_api keeper{};
    keeper.struct_size = sizeof(keeper);
    keeper.report = [](void* kept, const bp_report_info* info) {
      auto* const failure = static_cast<Failure*>(kept);
      failure->vendor_code = info->vendor_code;
      try {
        failure->message = view(info->message);
      } catch (const std::bad_alloc&) {  // without words it is a failure, too
      }
    };
    const bp_status status = guard(Host(&keeper, &why), [&body] {
      body();
      return BP_OK;
    });
    why.status = status;
    return why;
  }

  const std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace bp::sdk

#endif
