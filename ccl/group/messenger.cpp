// SPDX-License-Identifier: Apache-2.0
//
// See messenger.hpp.
#include "ccl/group/messenger.hpp"

#include <algorithm>
#include <utility>

#include "core/base/log.hpp"

namespace bp::ccl {
namespace {

/// How long a driver asks before it sleeps: most messages inside a host take less, and to be woken
/// may take longer than they do.
constexpr auto kSpin = std::chrono::microseconds(200);
/// ... and before it lets others run who want its processor: what it waits for may be one of them.
constexpr auto kSpinAlone = std::chrono::microseconds(10);
/// To ask the engine whether something has come is much of what a message takes; all else waits.
constexpr uint32_t kTurnsBetweenLooks = 16;
/// How long nobody has to have driven before the messenger's own thread does without need.
constexpr auto kPatience = std::chrono::milliseconds(5);
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

void Messenger::wake_sleeper() noexcept {
  if (is_asleep_.load(std::memory_order_seq_cst)) engine_->wake();
}

void Messenger::kick() noexcept {
  kick_count_.fetch_add(1, std::memory_order_seq_cst);
  wake_sleeper();
  if (!is_parked_.load(std::memory_order_seq_cst)) return;
  notify();
}

/// Who waits holds the mutex from its last look until it waits.
void Messenger::notify() noexcept {
  { const std::lock_guard lock(turn_mutex_); }
  turn_.notify_all();
}

/// `kicks`: their count before the advance() that found nothing to do.
void Messenger::sleep(uint64_t kicks, Clock::time_point until) {
  is_asleep_.store(true, std::memory_order_seq_cst);
  if (kick_count_.load(std::memory_order_seq_cst) == kicks) engine_->wait(until);
  is_asleep_.store(false, std::memory_order_release);
}

bool Messenger::is_needed() const {
  return is_busy_.load(std::memory_order_acquire) ||
         kick_count_.load(std::memory_order_seq_cst) !=
             driven_kicks_.load(std::memory_order_acquire);
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

bool Messenger::advance(bool is_full) {
  const uint64_t kicks = kick_count_.load(std::memory_order_seq_cst);
  bool has_moved = false;
  const Status progress = contain([&] { has_moved = engine_->progress(*this); });
  drop_unwanted();
  if (!progress.ok()) {
    for (const auto& [group, port] : ports_) port->messages_lost();
  }
  const bool has_news =
      !progress.ok() || has_moved || kicks != driven_kicks_.load(std::memory_order_relaxed);
  if (!has_news && !is_full) return false;
  return advance_ports(kicks, Clock::now()) || has_moved;
}

/// `kicks`: their count before the ports look.
bool Messenger::advance_ports(uint64_t kicks, Clock::time_point now) {
  bool has_moved = false;
  bool is_busy = engine_->has_unsent();
  // A port may not add or remove others: run_exclusively() waits for this.
  for (const auto& [group, port] : ports_) {
    has_moved |= port->advance(now);
    is_busy |= port->is_busy();
  }
  is_busy_.store(is_busy, std::memory_order_release);
  driven_kicks_.store(kicks, std::memory_order_release);
  return has_moved;
}

Clock::time_point Messenger::next_look() const {
  auto next = Clock::now() + kLongest;
  for (const auto& [group, port] : ports_) next = std::min(next, port->next_look());
  return next;
}

void Messenger::run() {
  std::unique_lock turn(turn_mutex_);
  uint64_t turns = turn_count_.load();
  bool is_quiet = false;  // nobody has taken a turn for a while
  while (!is_stopping_) {
    if (waiting_count_ > 0 || (!is_quiet && !is_needed())) {
      is_parked_.store(true, std::memory_order_seq_cst);
      turn_.wait_for(turn, kPatience,
                     [this] { return is_stopping_ || (waiting_count_ == 0 && is_needed()); });
      is_parked_.store(false, std::memory_order_relaxed);
      is_quiet = waiting_count_ == 0 && turn_count_ == std::exchange(turns, turn_count_.load());
      continue;
    }
    turn.unlock();
    [[maybe_unused]] const Status driven = contain([&] {
      std::unique_lock drive(drive_mutex_);
      const Driver here(driver_);
      const uint64_t kicks = kick_count_.load(std::memory_order_seq_cst);
      if (!advance(true)) sleep(kicks, next_look());
    });
    turn.lock();
  }
}

bool Messenger::drive(const std::function<bool()>& is_done, Clock::time_point deadline,
                      Clock::time_point now) {
  const Driver here(driver_);
  Clock::time_point moved{};  // about when something did
  uint32_t turn = 1;
  // What the caller has submitted goes out before the engine is asked for what has come.
  advance_ports(kick_count_.load(std::memory_order_seq_cst), now);
  while (!is_done() && exclusive_count_.load(std::memory_order_acquire) == 0) {
    const uint64_t kicks = kick_count_.load(std::memory_order_seq_cst);
    const bool is_full = turn++ % kTurnsBetweenLooks == 0;
    const bool has_moved = advance(is_full);
    if (has_moved) moved = {};
    if (!is_full) continue;
    if (is_done()) break;
    now = Clock::now();
    if (now >= deadline) break;
    if (moved == Clock::time_point()) moved = now;
    if (has_moved) continue;
    if (now >= moved + kSpin && !is_done()) {
      sleep(kicks, std::min(deadline, next_look()));
    } else if (now >= moved + kSpinAlone) {
      std::this_thread::yield();
    }
  }
  return is_done();
}

/// Counts a thread that wants to drive, or that nobody does, while it lives.
class Messenger::Turn {
 public:
  Turn(Messenger& messenger, bool is_exclusive)
      : messenger_(messenger), is_exclusive_(is_exclusive) {
    messenger_.waiting_count_.fetch_add(1, std::memory_order_seq_cst);
    if (is_exclusive_) messenger_.exclusive_count_.fetch_add(1, std::memory_order_seq_cst);
  }
  ~Turn() {
    if (is_exclusive_) messenger_.exclusive_count_.fetch_sub(1, std::memory_order_seq_cst);
    // One that is lost is no matter: it has changed.
    messenger_.turn_count_.store(messenger_.turn_count_.load(std::memory_order_relaxed) + 1,
                                 std::memory_order_relaxed);
    messenger_.waiting_count_.fetch_sub(1, std::memory_order_seq_cst);
    if (is_exclusive_ || messenger_.is_needed()) messenger_.notify();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  /// Somebody else drives, who is to look again, and go.
  void ask_driver() {
    messenger_.kick_count_.fetch_add(1, std::memory_order_seq_cst);
    messenger_.wake_sleeper();
  }

 private:
  Messenger& messenger_;
  const bool is_exclusive_;
};

bool Messenger::drive_until(const std::function<bool()>& is_done, Clock::time_point deadline,
                            Clock::time_point now) {
  if (is_done()) return true;
  // From a log sink or a deleter of what is driven: it goes on when that has returned.
  if (driver_.load(std::memory_order_relaxed) == std::this_thread::get_id()) return false;
  Turn turn(*this, false);
  bool has_asked = false;
  // Who drives does so for all, and may be at it for long: this one asks now and then.
  constexpr auto kPause = std::chrono::microseconds(100);
  do {
    if (exclusive_count_.load(std::memory_order_acquire) != 0) {
      std::unique_lock lock(turn_mutex_);
      turn_.wait_until(lock, deadline, [this] { return exclusive_count_.load() == 0; });
      continue;
    }
    TimedLock drive_lock(drive_mutex_, std::try_to_lock);
    if (!drive_lock && !std::exchange(has_asked, true)) turn.ask_driver();
    if (!drive_lock && !lock_within(drive_lock, kPause)) continue;
    const Status driven = contain([&] { drive(is_done, deadline, now); });
    if (!driven.ok()) std::this_thread::sleep_for(kPause);  // no memory for a moment
  } while (!is_done() && (now = Clock::now()) < deadline);
  return is_done();
}

void Messenger::run_exclusively(const std::function<void()>& body) {
  Turn turn(*this, true);
  turn.ask_driver();
  const std::lock_guard lock(drive_mutex_);
  body();
}

}  // namespace bp::ccl
