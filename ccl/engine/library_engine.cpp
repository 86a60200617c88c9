// SPDX-License-Identifier: Apache-2.0
//
// The interface of engines over a library's table.
#include "ccl/engine/library_engine.hpp"

#include <vector>

#include "ccl/engine/load_library.hpp"
#include "core/base/foreign_text.hpp"
#include "core/base/fork.hpp"

namespace bp::ccl {
namespace {

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
  bool has_unsent() const override { return !forked() && api_.has_unsent(engine_) != 0; }
  bool progress(Inbox& inbox) override;
  void wait(Clock::time_point until) override;
  void wake() noexcept override;

 private:
  struct InboxContext {
    LibraryEngine& engine;
    Inbox& inbox;
  };
  static void message_arrived(void* context, uint32_t peer, const void* header,
                              uint64_t header_bytes, uint64_t bytes, uint64_t token);
  static void peer_lost(void* context, uint32_t peer, int32_t status, const char* words);
  static void transfer_ended(void* context, void* transfer, int32_t status);
  template <class Begin>
  void begin(Transfer* transfer, Begin call);
  bool forget(const Transfer* transfer);
  std::string prefix() const { return "engine " + std::string(name()); }

  const bp_engine_api& api_;
  bp_engine* engine_ = nullptr;
  std::vector<Transfer*> pending_;
};

// A forked child has none of the threads and connections of the library: it makes no call of it,
// and leaves everything where it is.

LibraryEngine::~LibraryEngine() {
  if (engine_ != nullptr && !forked()) api_.destroy(engine_);
  for (Transfer* const transfer : pending_) {
    transfer->status.store(BP_CANCELLED, std::memory_order_release);
  }
}

Status LibraryEngine::open(const LibraryEngineArgs& args) {
  const bp_engine_args given = {.interface_name = args.interface_name.c_str(),
                                .uses_shared_memory = args.uses_shared_memory ? 1u : 0u};
  bp_engine_words words{};
  const int32_t status = api_.create(&given, &engine_, &words);
  if (status != BP_OK) return Status(status, foreign_text(words.text));
  return engine_ != nullptr ? Status() : Status(BP_INTERNAL, "it made no end");
}

std::string LibraryEngine::address() const {
  if (forked()) return {};
  const void* bytes = nullptr;
  uint64_t count = 0;
  api_.address(engine_, &bytes, &count);
  return std::string(static_cast<const char*>(bytes), count);
}

Status LibraryEngine::connect(uint32_t peer, std::string_view address) {
  BP_TRY(check_not_forked());
  bp_engine_words words{};
  const int32_t status = api_.connect(engine_, peer, address.data(), address.size(), &words);
  if (status == BP_OK) return {};
  return Status(status, prefix() + ": " + foreign_text(words.text));
}

/// There is room for its note before the call, which must not be undone for want of memory.
template <class Begin>
void LibraryEngine::begin(Transfer* transfer, Begin call) {
  transfer->status.store(BP_PENDING, std::memory_order_relaxed);
  bp_status status = BP_FORKED;
  if (!forked()) {
    pending_.reserve(pending_.size() + 1);
    status = call();
  }
  if (status != BP_PENDING) return transfer->status.store(status, std::memory_order_release);
  transfer->engine_place = pending_.size();
  pending_.push_back(transfer);
}

void LibraryEngine::send(uint32_t peer, std::span<const std::byte> header, const void* data,
                         uint64_t bytes, Transfer* transfer) {
  begin(transfer, [&] {
    return api_.send(engine_, peer, header.data(), header.size(), data, bytes, transfer);
  });
}

void LibraryEngine::receive(uint64_t token, void* into, Transfer* transfer) {
  begin(transfer, [&] { return api_.receive(engine_, token, into, transfer); });
}

void LibraryEngine::drop(uint64_t token) {
  if (!forked()) api_.drop(engine_, token);
}

/// False: it was not pending.
bool LibraryEngine::forget(const Transfer* transfer) {
  const size_t place = transfer->engine_place;
  if (place >= pending_.size() || pending_[place] != transfer) return false;
  pending_[place] = pending_.back();
  pending_[place]->engine_place = place;
  pending_.pop_back();
  return true;
}

void LibraryEngine::cancel(Transfer* transfer) {
  if (!forget(transfer)) return;
  const bp_status status = forked() ? BP_FORKED : api_.cancel(engine_, transfer);
  transfer->status.store(status, std::memory_order_release);
}

void LibraryEngine::message_arrived(void* context, uint32_t peer, const void* header,
                                    uint64_t header_bytes, uint64_t bytes, uint64_t token) {
  const std::span text(static_cast<const std::byte*>(header), header_bytes);
  static_cast<InboxContext*>(context)->inbox.message_arrived(peer, text, bytes, token);
}

void LibraryEngine::peer_lost(void* context, uint32_t peer, int32_t status, const char* words) {
  auto& inbox = static_cast<InboxContext*>(context)->inbox;
  const Status why = contain([&] { return Status(status, foreign_text(words)); });
  inbox.peer_lost(peer, why);
}

void LibraryEngine::transfer_ended(void* context, void* given, int32_t status) {
  auto* const transfer = static_cast<Transfer*>(given);
  static_cast<InboxContext*>(context)->engine.forget(transfer);
  transfer->status.store(status, std::memory_order_release);
}

bool LibraryEngine::progress(Inbox& inbox) {
  if (forked()) return false;
  InboxContext context{*this, inbox};
  const bp_engine_inbox told = {.context = &context,
                                .message_arrived = message_arrived,
                                .peer_lost = peer_lost,
                                .transfer_ended = transfer_ended};
  return api_.progress(engine_, &told) != 0;
}

void LibraryEngine::wait(Clock::time_point until) {
  const auto time = std::chrono::duration_cast<std::chrono::nanoseconds>(until.time_since_epoch());
  if (!forked()) api_.wait(engine_, time.count());
}

void LibraryEngine::wake() noexcept {
  if (!forked()) api_.wake(engine_);
}

}  // namespace

Result<std::unique_ptr<Engine>> make_library_engine(const LibraryEngineArgs& args) {
  BP_TRY(check_not_forked());
  watch_forks();
  auto api = load_engine_library(args);
  Status status = api.status();
  if (status.ok()) {
    auto engine = std::make_unique<LibraryEngine>(**api);
    status = engine->open(args);
    if (status.ok()) return std::unique_ptr<Engine>(std::move(engine));
  }
  return status.with_prefix("engine " + args.name);
}

}  // namespace bp::ccl
