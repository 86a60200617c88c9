// SPDX-License-Identifier: Apache-2.0
#include "ccl/store/file_store.hpp"

#include <algorithm>
#include <utility>

#include "ccl/store/store_file.hpp"
#include "ccl/store/store_rules.hpp"
#include "core/base/fork.hpp"

namespace bp::ccl {
namespace {

// By which a wait may go beyond its deadline where another process holds the file.
constexpr std::chrono::seconds kLockGrace{1};
constexpr std::chrono::milliseconds kLongestPause{10};

class FileStore final : public Store {
 public:
  FileStore(std::shared_ptr<StoreFile> file, std::chrono::milliseconds answer_timeout,
            std::shared_ptr<const AbortFlag> outer)
      : file_(std::move(file)),
        answer_timeout_(answer_timeout),
        aborted_(std::make_shared<AbortFlag>(std::move(outer))) {}

  std::string name() const override { return file_->name(); }

  Status set(std::string_view key, std::string_view value) override {
    BP_TRY(check_call(file_->name(), *aborted_, key));
    BP_TRY(check_value(file_->name(), key, value));
    BP_TRY_ASSIGN(StoreFile::Turn turn, take_turn());
    return turn.change(key, value);
  }

  Result<std::string> get(std::string_view key, Clock::time_point deadline) override {
    const auto begin = Clock::now();
    BP_TRY(check_call(file_->name(), *aborted_, key));
    const auto until = time_after(std::max(deadline, begin), kLockGrace);
    std::chrono::nanoseconds length = std::chrono::microseconds(50);
    for (;;) {
      BP_TRY_ASSIGN(const KeyMap::Value value, file_->find(key, until, *aborted_));
      if (aborted_->is_set()) return aborted_error(file_->name());
      if (value != nullptr) return *value;
      const auto left = time_left(deadline);
      if (left == left.zero()) return key_timeout(file_->name(), key, begin);
      file_->pause(std::min(length, left), *aborted_);
      length = std::min<std::chrono::nanoseconds>(2 * length, kLongestPause);
    }
  }

  Result<std::optional<std::string>> try_get(std::string_view key) override {
    BP_TRY(check_call(file_->name(), *aborted_, key));
    BP_TRY_ASSIGN(const KeyMap::Value value, file_->find(key, call_end(), *aborted_));
    return value != nullptr ? std::optional(*value) : std::nullopt;
  }

  Result<int64_t> add(std::string_view key, int64_t amount) override {
    BP_TRY(check_call(file_->name(), *aborted_, key));
    BP_TRY_ASSIGN(StoreFile::Turn turn, take_turn());
    const auto sum = turn.keys().sum(key, amount);
    if (!sum.ok()) return sum.status().with_prefix(file_->name());
    BP_TRY(turn.change(key, std::to_string(*sum)));
    return *sum;
  }

  Result<std::string> compare_set(std::string_view key, std::optional<std::string_view> expected,
                                  std::string_view value) override {
    BP_TRY(check_call(file_->name(), *aborted_, key));
    BP_TRY(check_value(file_->name(), key, value));
    BP_TRY_ASSIGN(StoreFile::Turn turn, take_turn());
    if (turn.keys().has(key, expected)) BP_TRY(turn.change(key, value));
    const KeyMap::Value found = turn.keys().find(key);
    return found != nullptr ? *found : std::string();
  }

  Result<bool> remove(std::string_view key) override {
    BP_TRY(check_call(file_->name(), *aborted_, key));
    BP_TRY_ASSIGN(StoreFile::Turn turn, take_turn());
    if (turn.keys().find(key) == nullptr) return false;
    BP_TRY(turn.change(key, std::nullopt));
    return true;
  }

  void abort() noexcept override {
    aborted_->set();
    file_->wake();
  }

  std::shared_ptr<Store> share(std::chrono::milliseconds patience) override {
    return std::make_shared<FileStore>(file_, std::min(answer_timeout_, patience), aborted_);
  }

 private:
  Clock::time_point call_end() const { return time_after(Clock::now(), answer_timeout_); }
  Result<StoreFile::Turn> take_turn() { return file_->take_turn(call_end(), *aborted_); }

  const std::shared_ptr<StoreFile> file_;
  const std::chrono::milliseconds answer_timeout_;
  const std::shared_ptr<AbortFlag> aborted_;
};

}  // namespace

Result<std::shared_ptr<Store>> open_file_store(FileStoreOptions options) {
  BP_TRY(check_not_forked());
  watch_forks();
  BP_TRY_ASSIGN(std::shared_ptr<StoreFile> file, StoreFile::open(options));
  return std::shared_ptr<Store>(
      std::make_shared<FileStore>(std::move(file), options.answer_timeout, nullptr));
}

}  // namespace bp::ccl
