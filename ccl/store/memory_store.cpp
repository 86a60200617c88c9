// SPDX-License-Identifier: Apache-2.0
#include <condition_variable>
#include <mutex>
#include <utility>

#include "ccl/store/key_map.hpp"
#include "ccl/store/store.hpp"
#include "ccl/store/store_rules.hpp"
#include "core/base/fork.hpp"

namespace bp::ccl {
namespace {

constexpr std::string_view kMemoryName = "memory";

struct SharedMap {
  std::mutex mutex;
  std::condition_variable changed;
  KeyMap keys;
};

class MemoryStore final : public Store {
 public:
  MemoryStore(std::shared_ptr<SharedMap> shared, std::shared_ptr<const AbortFlag> outer)
      : shared_(std::move(shared)), aborted_(std::make_shared<AbortFlag>(std::move(outer))) {}

  std::string name() const override { return std::string(kMemoryName); }

  Status set(std::string_view key, std::string_view value) override {
    BP_TRY(check_call(kMemoryName, *aborted_, key));
    BP_TRY(check_value(kMemoryName, key, value));
    const std::lock_guard lock(shared_->mutex);
    return put_locked(key, value);
  }

  Result<std::string> get(std::string_view key, Clock::time_point deadline) override {
    const auto begin = Clock::now();
    BP_TRY(check_call(kMemoryName, *aborted_, key));
    KeyMap::Value value;
    {
      std::unique_lock lock(shared_->mutex);
      const auto has_ended = [&] {
        value = shared_->keys.find(key);
        return value != nullptr || aborted_->is_set();
      };
      shared_->changed.wait_until(lock, deadline, has_ended);
    }
    if (aborted_->is_set()) return aborted_error(kMemoryName);
    if (value == nullptr) return key_timeout(kMemoryName, key, begin);
    return *value;
  }

  Result<std::optional<std::string>> try_get(std::string_view key) override {
    BP_TRY(check_call(kMemoryName, *aborted_, key));
    const std::lock_guard lock(shared_->mutex);
    const KeyMap::Value value = shared_->keys.find(key);
    return value != nullptr ? std::optional(*value) : std::nullopt;
  }

  Result<int64_t> add(std::string_view key, int64_t amount) override {
    BP_TRY(check_call(kMemoryName, *aborted_, key));
    const std::lock_guard lock(shared_->mutex);
    const auto sum = shared_->keys.sum(key, amount);
    if (!sum.ok()) return sum.status().with_prefix(kMemoryName);
    BP_TRY(put_locked(key, std::to_string(*sum)));
    return *sum;
  }

  Result<std::string> compare_set(std::string_view key, std::optional<std::string_view> expected,
                                  std::string_view value) override {
    BP_TRY(check_call(kMemoryName, *aborted_, key));
    BP_TRY(check_value(kMemoryName, key, value));
    const std::lock_guard lock(shared_->mutex);
    if (shared_->keys.has(key, expected)) BP_TRY(put_locked(key, value));
    const KeyMap::Value found = shared_->keys.find(key);
    return found != nullptr ? *found : std::string();
  }

  Result<bool> remove(std::string_view key) override {
    BP_TRY(check_call(kMemoryName, *aborted_, key));
    const std::lock_guard lock(shared_->mutex);
    return shared_->keys.remove(key);
  }

  void abort() noexcept override {
    if (forked()) return;
    aborted_->set();
    // With the lock, so that no wait is between its look at the flag and its sleep.
    const std::lock_guard lock(shared_->mutex);
    shared_->changed.notify_all();
  }

  std::shared_ptr<Store> share(std::chrono::milliseconds /*patience*/) override {
    return std::make_shared<MemoryStore>(shared_, aborted_);
  }

 private:
  Status put_locked(std::string_view key, std::string_view value) {
    BP_TRY(shared_->keys.set(key, value));
    shared_->changed.notify_all();
    return {};
  }

  const std::shared_ptr<SharedMap> shared_;
  const std::shared_ptr<AbortFlag> aborted_;
};

}  // namespace

std::shared_ptr<Store> make_memory_store() {
  watch_forks();
  return std::make_shared<MemoryStore>(std::make_shared<SharedMap>(), nullptr);
}

}  // namespace bp::ccl
