// SPDX-License-Identifier: Apache-2.0
//
// The interface of engines over a library's table. What the library says is looked at before it is
// used: its transfers are numbers, so that one that never was, or is over, harms nothing.
#include "ccl/engine/library_engine.hpp"

#include <cstring>
#include <vector>

#include "ccl/engine/load_library.hpp"
#include "core/base/foreign_text.hpp"
#include "core/base/fork.hpp"
#include "core/base/log.hpp"

namespace bp::ccl {
namespace {

/// More than any engine needs.
constexpr uint64_t kMostAddressBytes = uint64_t{64} << 10;

std::string text_of(const char* text) {
  if (text == nullptr) return {};
  return foreign_text(std::string_view(text, strnlen(text, BP_ENGINE_WORDS_BYTES)));
}

/// Of a transfer that the library says is over.
bp_status end_status(int32_t status) {
  return status == BP_PENDING ? BP_INTERNAL : known_status(status);
}

class LibraryEngine final : public Engine {
 public:
  explicit LibraryEngine(const bp_engine_api& api) : api_(api) {}
  ~LibraryEngine() override;
  Status open(const LibraryEngineArgs& args);

  std::string_view name() const override { return api_.name; }
  std::string address() const override;
  Status connect(uint32_t peer, std::string_view address) override;
  void send(uint32_t peer, std::span<const std::byte> header, const void* data, uint64_t bytes,
            Transfer* transfer) override;
  void receive(uint64_t token, void* into, Transfer* transfer) override;
  void drop(uint64_t token) override;
  void cancel(Transfer* transfer) override;
  PeerState state_of(uint32_t peer) const override;
  bool has_unsent() const override { return !forked() && api_.has_unsent(engine_) != 0; }
  bool progress(Inbox& inbox) override;
  void wait(Clock::time_point until) override;
  void wake() noexcept override;

 private:
  /// What the library knows a pending transfer by: the place of one of these, and its turn there.
  struct Pending {
    Transfer* transfer = nullptr;
    uint32_t turn = 1;
  };
  static void message_arrived(void* context, uint32_t peer, const void* header,
                              uint64_t header_bytes, uint64_t bytes, uint64_t token);
  static void peer_lost(void* context, uint32_t peer, int32_t status, const char* words);
  static void transfer_ended(void* context, void* transfer, int32_t status);
  template <class Begin>
  void begin(Transfer* transfer, Begin call);
  void* number_of(size_t place) const;
  Transfer* forget(const void* number);
  void tell_defect(const char* what) noexcept;
  std::string prefix() const { return "engine " + std::string(name()); }

  const bp_engine_api& api_;
  bp_engine* engine_ = nullptr;
  Inbox* inbox_ = nullptr;  // inside progress()
  std::vector<Pending> pending_;
  std::vector<uint32_t> free_places_;  // of these
  bool has_told_defect_ = false;
};

// A forked child has none of the threads and connections of the library: it makes no call of it,
// and leaves everything where it is.

LibraryEngine::~LibraryEngine() {
  [[maybe_unused]] const Status ended = contain([&] {
    if (engine_ != nullptr && !forked()) api_.destroy(engine_);
  });
  for (const Pending& pending : pending_) {
    if (pending.transfer == nullptr) continue;
    pending.transfer->status.store(BP_CANCELLED, std::memory_order_release);
  }
}

Status LibraryEngine::open(const LibraryEngineArgs& args) {
  const bp_engine_args given = {.interface_name = args.interface_name.c_str(),
                                .uses_shared_memory = args.uses_shared_memory ? 1u : 0u};
  bp_engine_words words{};
  const int32_t status = api_.create(&given, &engine_, &words);
  if (status != BP_OK) return Status(known_status(status), text_of(words.text));
  if (engine_ == nullptr) return Status(BP_INTERNAL, "it made no end");
  const uint64_t bytes = address().size();
  if (bytes > 0) return {};
  return Status(BP_INTERNAL, "it gave no address: expected 1 to " +
                                 std::to_string(kMostAddressBytes) + " bytes");
}

std::string LibraryEngine::address() const {
  if (forked()) return {};
  const void* bytes = nullptr;
  uint64_t count = 0;
  api_.address(engine_, &bytes, &count);
  if (bytes == nullptr || count > kMostAddressBytes) return {};
  return std::string(static_cast<const char*>(bytes), count);
}

Status LibraryEngine::connect(uint32_t peer, std::string_view address) {
  BP_TRY(check_not_forked());
  bp_engine_words words{};
  const int32_t status = api_.connect(engine_, peer, address.data(), address.size(), &words);
  if (status == BP_OK) return {};
  return Status(known_status(status), prefix() + ": " + text_of(words.text));
}

void* LibraryEngine::number_of(size_t place) const {
  return reinterpret_cast<void*>(uint64_t{pending_[place].turn} << 32 | place);
}

/// Its place is there before the call, which must not be undone for want of memory.
template <class Begin>
void LibraryEngine::begin(Transfer* transfer, Begin call) {
  transfer->status.store(BP_PENDING, std::memory_order_relaxed);
  if (forked()) return transfer->status.store(BP_FORKED, std::memory_order_release);
  if (free_places_.empty()) {
    free_places_.reserve(pending_.size() + 1);  // all may be free
    pending_.emplace_back();
    free_places_.push_back(static_cast<uint32_t>(pending_.size() - 1));
  }
  const uint32_t place = free_places_.back();
  const bp_status status = call(number_of(place));
  if (status != BP_PENDING) {
    return transfer->status.store(known_status(status), std::memory_order_release);
  }
  free_places_.pop_back();
  pending_[place].transfer = transfer;
  transfer->engine_place = place;
}

void LibraryEngine::send(uint32_t peer, std::span<const std::byte> header, const void* data,
                         uint64_t bytes, Transfer* transfer) {
  begin(transfer, [&](void* number) {
    return api_.send(engine_, peer, header.data(), header.size(), data, bytes, number);
  });
}

void LibraryEngine::receive(uint64_t token, void* into, Transfer* transfer) {
  begin(transfer, [&](void* number) { return api_.receive(engine_, token, into, number); });
}

void LibraryEngine::drop(uint64_t token) {
  if (!forked()) api_.drop(engine_, token);
}

/// nullptr: there is none of this number that is pending.
Transfer* LibraryEngine::forget(const void* number) {
  const auto value = reinterpret_cast<uint64_t>(number);
  const auto place = static_cast<uint32_t>(value);
  if (place >= pending_.size() || number_of(place) != number) return nullptr;
  Transfer* const transfer = std::exchange(pending_[place].transfer, nullptr);
  if (transfer == nullptr) return nullptr;
  ++pending_[place].turn;
  free_places_.push_back(place);  // which has room for all
  return transfer;
}

void LibraryEngine::tell_defect(const char* what) noexcept {
  if (std::exchange(has_told_defect_, true)) return;
  [[maybe_unused]] const Status told = contain(
      [&] { log(BP_LOG_ERROR, prefix() + " " + what + ": a defect of the library, told once"); });
}

void LibraryEngine::cancel(Transfer* transfer) {
  const size_t place = transfer->engine_place;
  if (place >= pending_.size() || pending_[place].transfer != transfer) return;
  void* const number = number_of(place);
  forget(number);
  bp_status status = forked() ? BP_FORKED : BP_INTERNAL;
  [[maybe_unused]] const Status cancelled = contain([&] {
    if (!forked()) status = end_status(api_.cancel(engine_, number));
  });
  transfer->status.store(status, std::memory_order_release);
}

PeerState LibraryEngine::state_of(uint32_t peer) const {
  uint32_t state = BP_ENGINE_PEER_UNKNOWN;
  [[maybe_unused]] const Status asked = contain([&] {
    if (!forked()) state = api_.state_of(engine_, peer);
  });
  if (state == BP_ENGINE_PEER_STOPPED) return PeerState::kStopped;
  return state == BP_ENGINE_PEER_RUNS ? PeerState::kRuns : PeerState::kUnknown;
}

void LibraryEngine::message_arrived(void* context, uint32_t peer, const void* header,
                                    uint64_t header_bytes, uint64_t bytes, uint64_t token) {
  auto& engine = *static_cast<LibraryEngine*>(context);
  const bool is_header = header_bytes <= BP_ENGINE_HEADER_BYTES_MAX && header != nullptr;
  if (!is_header) engine.tell_defect("told of a message without a header that may be");
  if (engine.inbox_ == nullptr) return engine.tell_defect("told of a message outside progress()");
  const std::span text(static_cast<const std::byte*>(header), is_header ? header_bytes : 0);
  engine.inbox_->message_arrived(peer, text, bytes, token);
}

void LibraryEngine::peer_lost(void* context, uint32_t peer, int32_t status, const char* words) {
  auto& engine = *static_cast<LibraryEngine*>(context);
  if (engine.inbox_ == nullptr) return engine.tell_defect("told of a peer outside progress()");
  const bp_status code = status == BP_OK ? BP_INTERNAL : end_status(status);
  const Status why = contain([&] { return Status(code, text_of(words)); });
  engine.inbox_->peer_lost(peer, why);
}

void LibraryEngine::transfer_ended(void* context, void* number, int32_t status) {
  auto& engine = *static_cast<LibraryEngine*>(context);
  Transfer* const transfer = engine.forget(number);
  if (transfer == nullptr) return engine.tell_defect("ended a transfer that is not in progress");
  transfer->status.store(end_status(status), std::memory_order_release);
}

bool LibraryEngine::progress(Inbox& inbox) {
  if (forked()) return false;
  const bp_engine_inbox told = {.context = this,
                                .message_arrived = message_arrived,
                                .peer_lost = peer_lost,
                                .transfer_ended = transfer_ended};
  inbox_ = &inbox;
  const auto has_moved = contain([&] { return Result<bool>(api_.progress(engine_, &told) != 0); });
  inbox_ = nullptr;
  if (has_moved.ok()) return *has_moved;
  tell_defect("threw in progress()");
  return false;
}

void LibraryEngine::wait(Clock::time_point until) {
  const auto time = std::chrono::duration_cast<std::chrono::nanoseconds>(until.time_since_epoch());
  if (!forked()) api_.wait(engine_, time.count());
}

void LibraryEngine::wake() noexcept {
  [[maybe_unused]] const Status woken = contain([&] {
    if (!forked()) api_.wake(engine_);
  });
}

}  // namespace

Result<std::unique_ptr<Engine>> make_library_engine(const LibraryEngineArgs& args) {
  BP_TRY(check_not_forked());
  watch_forks();
  auto api = load_engine_library(args);
  Status status = api.status();
  if (status.ok()) {
    auto engine = std::make_unique<LibraryEngine>(**api);
    status = contain([&] { return engine->open(args); });
    if (status.ok()) return std::unique_ptr<Engine>(std::move(engine));
  }
  return status.with_prefix("engine " + args.name);
}

}  // namespace bp::ccl
