// SPDX-License-Identifier: Apache-2.0
#include "ccl/store/tcp_store.hpp"

#include <algorithm>
#include <utility>

#include "ccl/store/store_rules.hpp"
#include "ccl/store/tcp_link.hpp"
#include "core/base/fork.hpp"

namespace bp::ccl {
namespace {

constexpr std::chrono::milliseconds kLeastPatience{1'000};

class TcpStore final : public Store {
 public:
  /// How long calls wait.
  struct Times {
    std::chrono::milliseconds answer_timeout;
    std::chrono::milliseconds answer_grace;
  };
  TcpStore(std::shared_ptr<TcpLink> link, std::shared_ptr<const Token> token, const Times& times,
           std::shared_ptr<const AbortFlag> outer)
      : link_(std::move(link)),
        token_(std::move(token)),
        times_(times),
        aborted_(std::make_shared<AbortFlag>(std::move(outer))) {}

  std::string name() const override { return link_->name(); }
  std::shared_ptr<const Token> token() const override { return token_; }

  Status set(std::string_view key, std::string_view value) override {
    BP_TRY(check_call(link_->name(), *aborted_, key));
    BP_TRY(check_value(link_->name(), key, value));
    return as_status(call({.opcode = Opcode::kSet, .key = key, .value = value}));
  }

  Result<std::string> get(std::string_view key, Clock::time_point deadline) override {
    const auto begin = Clock::now();
    BP_TRY(check_call(link_->name(), *aborted_, key));
    const Request request = {
        .opcode = Opcode::kGet,
        .key = key,
        .wait = std::chrono::duration_cast<std::chrono::microseconds>(time_left(deadline))};
    const auto until = time_after(std::max(deadline, begin), times_.answer_grace);
    BP_TRY_ASSIGN(TcpLink::Reply reply, link_->call(request, until, *aborted_));
    if (reply.status == BP_TIMEOUT) return key_timeout(link_->name(), key, begin);
    BP_TRY(error_of(reply));
    return std::move(reply.text);
  }

  Result<std::optional<std::string>> try_get(std::string_view key) override {
    BP_TRY(check_call(link_->name(), *aborted_, key));
    BP_TRY_ASSIGN(TcpLink::Reply reply, call({.opcode = Opcode::kTryGet, .key = key}));
    if (reply.kind != Answer::Kind::kValue) return std::optional<std::string>();
    return std::optional(std::move(reply.text));
  }

  Result<int64_t> add(std::string_view key, int64_t amount) override {
    BP_TRY(check_call(link_->name(), *aborted_, key));
    BP_TRY_ASSIGN(const TcpLink::Reply reply,
                  call({.opcode = Opcode::kAdd, .key = key, .amount = amount}));
    return reply.amount;
  }

  Result<std::string> compare_set(std::string_view key, std::optional<std::string_view> expected,
                                  std::string_view value) override {
    BP_TRY(check_call(link_->name(), *aborted_, key));
    BP_TRY(check_value(link_->name(), key, value));
    BP_TRY(check_value(link_->name(), key, expected.value_or(std::string_view())));
    BP_TRY_ASSIGN(
        TcpLink::Reply reply,
        call({.opcode = Opcode::kCompareSet, .key = key, .value = value, .expected = expected}));
    return std::move(reply.text);
  }

  Result<bool> remove(std::string_view key) override {
    BP_TRY(check_call(link_->name(), *aborted_, key));
    BP_TRY_ASSIGN(const TcpLink::Reply reply, call({.opcode = Opcode::kRemove, .key = key}));
    return reply.amount != 0;
  }

  void abort() noexcept override {
    aborted_->set();
    link_->wake();
  }

  std::shared_ptr<Store> share(std::chrono::milliseconds patience) override {
    const Times times = {std::min(times_.answer_timeout, patience), times_.answer_grace};
    return std::make_shared<TcpStore>(link_, token_, times, aborted_);
  }

 private:
  Result<TcpLink::Reply> call(const Request& request) {
    const auto until = time_after(Clock::now(), times_.answer_timeout);
    BP_TRY_ASSIGN(TcpLink::Reply reply, link_->call(request, until, *aborted_));
    BP_TRY(error_of(reply));
    return reply;
  }

  /// What the server refused, in its words.
  Status error_of(const TcpLink::Reply& reply) const {
    if (reply.status == BP_OK) return {};
    return store_error(reply.status, link_->name(), reply.text);
  }

  const std::shared_ptr<TcpLink> link_;
  const std::shared_ptr<const Token> token_;
  const Times times_;
  const std::shared_ptr<AbortFlag> aborted_;
};

}  // namespace

Result<std::shared_ptr<Store>> connect_tcp_store(TcpStoreOptions options) {
  BP_TRY(check_not_forked());
  watch_forks();
  // Who waits less long to connect waits for no answer longer.
  const auto patience = std::chrono::ceil<std::chrono::milliseconds>(time_left(options.deadline));
  BP_TRY_ASSIGN(std::shared_ptr<TcpLink> link, TcpLink::connect(options));
  const TcpStore::Times times = {
      std::min(options.answer_timeout, std::max(patience, kLeastPatience)), options.answer_grace};
  return std::shared_ptr<Store>(
      std::make_shared<TcpStore>(std::move(link), options.token, times, nullptr));
}

}  // namespace bp::ccl
