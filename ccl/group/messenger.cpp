// SPDX-License-Identifier: Apache-2.0
//
// See messenger.hpp.
#include "ccl/group/messenger.hpp"

#include <algorithm>

#include "core/base/log.hpp"

namespace bp::ccl {
namespace {

/// How long a driver asks before it sleeps: a message between two threads takes less.
constexpr auto kSpin = std::chrono::microseconds(20);
constexpr auto kLongest = std::chrono::seconds(1);

}  // namespace

Result<std::shared_ptr<Messenger>> Messenger::create(std::unique_ptr<Engine> engine) {
  std::shared_ptr<Messenger> messenger(new Messenger(std::move(engine)));
  const Status started =
      contain([&] { messenger->thread_ = std::thread([raw = messenger.get()] { raw->run(); }); });
  if (!started.ok()) return started.with_prefix("a thread for collectives");
  return messenger;
}

Messenger::~Messenger() {
  {
    const std::lock_guard lock(turn_mutex_);
    is_stopping_ = true;
  }
  turn_.notify_all();
  engine_->wake();
  if (thread_.joinable()) thread_.join();
}

std::string Messenger::address() { return engine_->address(); }

Status Messenger::connect(uint32_t peer, std::string_view address) {
  Status status;
  run_exclusively([&] { status = engine_->connect(peer, address); });
  return status;
}

Status Messenger::add(uint64_t group, Port* port) {
  Status status;
  run_exclusively([&] {
    status = contain([&]() -> Status {
      if (!ports_.emplace(group, port).second) {
        return Status(BP_INVALID_ARGUMENT, "this rank is in the group already");
      }
      removed_.erase(group);
      return {};
    });
    if (!status.ok()) return;
    for (const EarlyMessage& early : early_) {
      if (early.header.group != group) continue;
      port->message_arrived(early.peer, early.header, early.bytes, early.token);
    }
    std::erase_if(early_, [&](const EarlyMessage& early) { return early.header.group == group; });
    for (const auto& [peer, why] : lost_) port->peer_lost(peer, why);
  });
  return status;
}

void Messenger::remove(uint64_t group) {
  run_exclusively([&] {
    ports_.erase(group);
    [[maybe_unused]] const Status noted = contain([&] {
      if (removed_.size() >= kMostRemoved) removed_.erase(removed_.begin());
      removed_.insert(group);
    });
  });
}

void Messenger::message_arrived(uint32_t peer, std::span<const std::byte> header, uint64_t bytes,
                                uint64_t token) noexcept {
  const auto read = read_header(header);
  const auto port = read ? ports_.find(read->group) : ports_.end();
  if (port != ports_.end()) return port->second->message_arrived(peer, *read, bytes, token);
  // A group that this rank has still to make; what nobody will ask for is dropped.
  const bool is_early = read && removed_.count(read->group) == 0 && early_.size() < kMostEarly;
  [[maybe_unused]] const Status noted = contain([&] {
    if (is_early) return early_.push_back({peer, *read, bytes, token});
    unwanted_.push_back(token);
  });
}

void Messenger::peer_lost(uint32_t peer, const Status& why) noexcept {
  [[maybe_unused]] const Status noted = contain([&] { lost_.emplace(peer, why); });
  for (const auto& [group, port] : ports_) port->peer_lost(peer, why);
}

void Messenger::drop_unwanted() {
  for (const uint64_t token : unwanted_) engine_->drop(token);
  unwanted_.clear();
}

bool Messenger::advance() {
  bool has_moved = false;
  const Status progress = contain([&] { has_moved = engine_->progress(*this); });
  drop_unwanted();
  const auto now = Clock::now();
  // A port may not add or remove others: run_exclusively() waits for this.
  for (const auto& [group, port] : ports_) {
    if (!progress.ok()) port->messages_lost();
    has_moved |= port->advance(now);
  }
  return has_moved;
}

Clock::time_point Messenger::next_look() const {
  auto next = Clock::now() + kLongest;
  for (const auto& [group, port] : ports_) next = std::min(next, port->next_look());
  return next;
}

void Messenger::run() {
  std::unique_lock turn(turn_mutex_);
  while (!is_stopping_) {
    if (waiting_count_ > 0) {
      turn_.wait(turn, [this] { return waiting_count_ == 0 || is_stopping_; });
      continue;
    }
    turn.unlock();
    [[maybe_unused]] const Status driven = contain([&] {
      std::unique_lock drive(drive_mutex_);
      if (!advance()) engine_->wait(next_look());
    });
    turn.lock();
  }
}

bool Messenger::drive(const std::function<bool()>& is_done, Clock::time_point deadline) {
  auto spin_end = Clock::now() + kSpin;
  while (!is_done() && exclusive_count_.load(std::memory_order_acquire) == 0) {
    const bool has_moved = advance();
    const auto now = Clock::now();
    if (now >= deadline) break;
    if (has_moved) {
      spin_end = now + kSpin;
    } else if (now >= spin_end && !is_done()) {
      engine_->wait(std::min(deadline, next_look()));
    }
  }
  return is_done();
}

/// Counts a thread that wants to drive, or that nobody does, while it lives.
class Messenger::Turn {
 public:
  Turn(Messenger& messenger, bool is_exclusive)
      : messenger_(messenger), is_exclusive_(is_exclusive) {
    {
      const std::lock_guard lock(messenger_.turn_mutex_);
      ++messenger_.waiting_count_;
      if (is_exclusive_) ++messenger_.exclusive_count_;
    }
    messenger_.engine_->wake();  // who sleeps there looks again
  }
  ~Turn() {
    {
      const std::lock_guard lock(messenger_.turn_mutex_);
      --messenger_.waiting_count_;
      if (is_exclusive_) --messenger_.exclusive_count_;
    }
    messenger_.turn_.notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Messenger& messenger_;
  const bool is_exclusive_;
};

bool Messenger::drive_until(const std::function<bool()>& is_done, Clock::time_point deadline) {
  if (is_done()) return true;
  const Turn turn(*this, false);
  // Who drives does so for all, and may be at it for long: this one asks now and then.
  constexpr auto kPause = std::chrono::microseconds(100);
  while (!is_done() && Clock::now() < deadline) {
    if (exclusive_count_.load(std::memory_order_acquire) != 0) {
      std::unique_lock lock(turn_mutex_);
      turn_.wait_until(lock, deadline, [this] { return exclusive_count_.load() == 0; });
      continue;
    }
    TimedLock drive_lock(drive_mutex_, std::defer_lock);
    if (!lock_within(drive_lock, kPause)) continue;
    const Status driven = contain([&] { drive(is_done, deadline); });
    if (!driven.ok()) std::this_thread::sleep_for(kPause);  // no memory for a moment
  }
  return is_done();
}

void Messenger::run_exclusively(const std::function<void()>& body) {
  const Turn turn(*this, true);
  const std::lock_guard lock(drive_mutex_);
  body();
}

}  // namespace bp::ccl
