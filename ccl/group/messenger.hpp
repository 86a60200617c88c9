// SPDX-License-Identifier: Apache-2.0
//
// One rank's end of the engine, shared by its groups, and who drives it: a thread that waits for
// another rank, or else a thread of the messenger's own. Everything that a group does with messages
// happens while the messenger is driven, on one thread at a time.
#ifndef BACKPLANE_CCL_GROUP_MESSENGER_HPP
#define BACKPLANE_CCL_GROUP_MESSENGER_HPP

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "ccl/engine/engine.hpp"
#include "ccl/group/message.hpp"
#include "core/base/timed_lock.hpp"

namespace bp::ccl {

/// What a messenger drives. Every call is made while it is driven. Must not throw.
class Port {
 public:
  virtual void message_arrived(uint32_t peer, const Header& header, uint64_t bytes,
                               uint64_t token) noexcept = 0;
  virtual void peer_lost(uint32_t peer, const Status& why) noexcept = 0;
  /// What others sent may not come, for want of memory.
  virtual void messages_lost() noexcept = 0;
  /// Does what can be done now. True: something moved.
  virtual bool advance(Clock::time_point now) noexcept = 0;
  /// Somebody has to drive: else nobody does for a while, where nobody waits.
  virtual bool is_busy() const noexcept = 0;
  /// When advance() is to be called at the latest, whatever arrives.
  virtual Clock::time_point next_look() const noexcept = 0;

 protected:
  ~Port() = default;
};

class Messenger final : private Inbox {
 public:
  /// Errors: OUT_OF_MEMORY, where the system gives no thread.
  static Result<std::shared_ptr<Messenger>> create(std::unique_ptr<Engine> engine);
  ~Messenger();
  Messenger(const Messenger&) = delete;
  Messenger& operator=(const Messenger&) = delete;

  std::string address();
  std::string_view engine_name() const { return engine_->name(); }
  /// Errors: the engine's.
  Status connect(uint32_t peer, std::string_view address);

  /// The port gets the messages of this group from now on, also those that came before. Errors:
  /// INVALID_ARGUMENT for a group that has a port.
  Status add(uint64_t group, Port* port);
  /// When this returns the port is not called any more, and later messages are dropped.
  void remove(uint64_t group);

  /// There is something for advance() to do, and the caller may not drive. Any thread.
  void kick() noexcept;
  /// Drives, or waits for who drives, until is_done() or the time has come. `is_done` is asked
  /// often, on this thread. `now`: of a caller who has just read the clock, which costs as much as
  /// much of what a short message takes. False: not done.
  bool drive_until(const std::function<bool()>& is_done, Clock::time_point deadline,
                   Clock::time_point now = Clock::now());
  /// Runs `body` while nobody drives.
  void run_exclusively(const std::function<void()>& body);

  /// The engine, for ports and run_exclusively() alone.
  Engine& engine() { return *engine_; }

 private:
  explicit Messenger(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}
  class Turn;
  struct EarlyMessage {
    uint32_t peer;
    Header header;
    uint64_t bytes;
    uint64_t token;
  };
  void message_arrived(uint32_t peer, std::span<const std::byte> header, uint64_t bytes,
                       uint64_t token) noexcept override;
  void peer_lost(uint32_t peer, const Status& why) noexcept override;
  void run();
  /// Asks the engine; ports advance where something has come, or `is_full`.
  bool advance(bool is_full);
  bool advance_ports(uint64_t kicks, Clock::time_point now);
  void sleep(uint64_t kicks, Clock::time_point until);
  void wake_sleeper() noexcept;
  void notify() noexcept;
  bool is_needed() const;
  Clock::time_point next_look() const;
  bool drive(const std::function<bool()>& is_done, Clock::time_point deadline,
             Clock::time_point now);
  void drop_unwanted();

  static constexpr size_t kMostEarly = 4096;
  static constexpr size_t kMostRemoved = 4096;

  const std::unique_ptr<Engine> engine_;
  /// The thread that drives, while it does.
  class Driver {
   public:
    explicit Driver(std::atomic<std::thread::id>& driver) : driver_(driver) {
      driver_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    }
    ~Driver() { driver_.store({}, std::memory_order_relaxed); }
    Driver(const Driver&) = delete;
    Driver& operator=(const Driver&) = delete;

   private:
    std::atomic<std::thread::id>& driver_;
  };
  std::atomic<std::thread::id> driver_{};
  std::timed_mutex drive_mutex_;  // held by who drives; all below
  std::map<uint64_t, Port*> ports_;
  std::set<uint64_t> removed_;
  std::vector<EarlyMessage> early_;
  std::vector<uint64_t> unwanted_;  // tokens: an inbox must not call the engine
  std::map<uint32_t, Status> lost_;

  // Who kicks counts first and looks for sleepers then; who sleeps does it the other way round.
  std::atomic<uint64_t> kick_count_{0};
  std::atomic<uint64_t> driven_kicks_{0};  // of these, those before the last advance()
  std::atomic<bool> is_busy_{false};       // some port was, after it
  std::atomic<bool> is_asleep_{false};     // who drives
  std::atomic<bool> is_parked_{false};     // the messenger's own thread, which does not drive

  // Threads that wait for a turn to drive, and the messenger's own, which lets them go first. It
  // stays away between their turns too, or each would have to wake it and send it away again.
  std::mutex turn_mutex_;
  std::condition_variable turn_;
  std::atomic<uint32_t> waiting_count_{0};
  std::atomic<uint32_t> exclusive_count_{0};  // of those, who want nobody to drive
  std::atomic<uint64_t> turn_count_{0};       // of those that have ended
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace bp::ccl

#endif
