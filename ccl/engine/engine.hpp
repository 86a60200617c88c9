// SPDX-License-Identifier: Apache-2.0
//
// How one rank reaches others: messages between pairs, each with a short header that the receiver
// sees before it says where the payload goes. No engine knows groups, operations or devices.
#ifndef BACKPLANE_CCL_ENGINE_ENGINE_HPP
#define BACKPLANE_CCL_ENGINE_ENGINE_HPP

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/base/status.hpp"

namespace bp::ccl {

using Clock = std::chrono::steady_clock;

/// A payload on its way. The caller's, which keeps it, and the memory that it moves, until it is
/// over: `status` is not BP_PENDING any more. Read by any thread, written by the engine.
struct Transfer {
  std::atomic<bp_status> status{BP_PENDING};
  size_t engine_place = 0;  // the engine's own
  bool is_over() const { return status.load(std::memory_order_acquire) != BP_PENDING; }
};

/// What the system tells of a peer's process.
enum class PeerState : uint8_t { kUnknown, kRuns, kStopped };

/// What the engine tells, inside progress() alone. Must not throw, nor call the engine.
class Inbox {
 public:
  /// A message whose payload of `bytes` waits for Engine::receive() or drop() with this token. Of
  /// one peer they come in the order in which they were sent. `header` is there during the call.
  virtual void message_arrived(uint32_t peer, std::span<const std::byte> header, uint64_t bytes,
                               uint64_t token) noexcept = 0;
  /// Nothing comes from the peer any more, nor reaches it. Told once. GONE: its end was closed, and
  /// all that it had sent has come. Anything else: it died or broke off, and messages of others on
  /// the same way may be stuck behind one that it had begun.
  virtual void peer_lost(uint32_t peer, const Status& why) noexcept = 0;

 protected:
  ~Inbox() = default;
};

/// One rank's end. One thread at a time, but for wake(). Its destructor ends all transfers.
class Engine {
 public:
  static constexpr size_t kMostHeaderBytes = 128;

  virtual ~Engine() = default;
  virtual std::string_view name() const = 0;  // "loop"
  /// What others need to connect.
  virtual std::string address() const = 0;
  /// From now on `peer` means the end with this address, which may be this one. Never waits.
  /// Errors: INVALID_ARGUMENT for what is no address; UNAVAILABLE for one that nobody has.
  virtual Status connect(uint32_t peer, std::string_view address) = 0;

  /// Begins to send; what goes wrong is the transfer's status (UNAVAILABLE: the peer is gone). The
  /// header is the caller's again on return.
  virtual void send(uint32_t peer, std::span<const std::byte> header, const void* data,
                    uint64_t bytes, Transfer* transfer) = 0;
  /// Takes an arrived payload into memory of its size.
  virtual void receive(uint64_t token, void* into, Transfer* transfer) = 0;
  /// Nobody wants it. Its sender is told that it was sent.
  virtual void drop(uint64_t token) = 0;
  /// The transfer is over, and its memory the caller's, when this returns; its status is CANCELLED
  /// unless it was over before. The peer may be lost by it, on both sides.
  virtual void cancel(Transfer* transfer) = 0;

  /// Of a peer that is not heard. kStopped: by a signal or a debugger; then messages of others may
  /// be stuck behind one that it had begun. kRuns: they may be this peer's.
  virtual PeerState state_of(uint32_t peer) const = 0;
  /// What was sent has not left yet, so that somebody has to progress() on.
  virtual bool has_unsent() const = 0;
  /// Does what can be done now, and tells the inbox. True: something happened.
  virtual bool progress(Inbox& inbox) = 0;
  /// Sleeps until progress() may have something to do, somebody wakes it, or the time has come.
  virtual void wait(Clock::time_point until) = 0;
  /// Ends the wait in progress, or the next one. Any thread.
  virtual void wake() noexcept = 0;
};

/// Threads of one process. Errors: OUT_OF_MEMORY.
std::unique_ptr<Engine> make_loop_engine();

}  // namespace bp::ccl

#endif
