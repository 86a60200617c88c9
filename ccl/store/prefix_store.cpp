// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "ccl/store/store.hpp"
#include "core/base/quoted.hpp"

namespace bp::ccl {
namespace {

class PrefixStore final : public Store {
 public:
  /// `store` has an abort() of its own.
  PrefixStore(std::string prefix, std::shared_ptr<Store> store)
      : prefix_(std::move(prefix)), store_(std::move(store)) {}

  std::string name() const override { return store_->name() + ", keys from " + quoted(prefix_); }
  std::shared_ptr<const Token> token() const override { return store_->token(); }

  Status set(std::string_view key, std::string_view value) override {
    BP_TRY_ASSIGN(const std::string whole, whole_key(key));
    return store_->set(whole, value);
  }
  Result<std::string> get(std::string_view key, Clock::time_point deadline) override {
    BP_TRY_ASSIGN(const std::string whole, whole_key(key));
    return store_->get(whole, deadline);
  }
  Result<std::optional<std::string>> try_get(std::string_view key) override {
    BP_TRY_ASSIGN(const std::string whole, whole_key(key));
    return store_->try_get(whole);
  }
  Result<int64_t> add(std::string_view key, int64_t amount) override {
    BP_TRY_ASSIGN(const std::string whole, whole_key(key));
    return store_->add(whole, amount);
  }
  Result<std::string> compare_set(std::string_view key, std::optional<std::string_view> expected,
                                  std::string_view value) override {
    BP_TRY_ASSIGN(const std::string whole, whole_key(key));
    return store_->compare_set(whole, expected, value);
  }
  Result<bool> remove(std::string_view key) override {
    BP_TRY_ASSIGN(const std::string whole, whole_key(key));
    return store_->remove(whole);
  }
  void abort() noexcept override { store_->abort(); }
  std::shared_ptr<Store> share(std::chrono::milliseconds patience) override {
    return std::make_shared<PrefixStore>(prefix_, store_->share(patience));
  }

 private:
  /// Errors: INVALID_ARGUMENT for an empty key, which with the prefix would be one.
  Result<std::string> whole_key(std::string_view key) const {
    if (!key.empty()) return prefix_ + std::string(key);
    return Status(BP_INVALID_ARGUMENT,
                  name() + ": a key has 1 to " + std::to_string(kMostKeyBytes) + " bytes, found 0");
  }

  const std::string prefix_;
  const std::shared_ptr<Store> store_;
};

}  // namespace

std::shared_ptr<Store> make_prefix_store(std::string prefix, std::shared_ptr<Store> store) {
  return std::make_shared<PrefixStore>(std::move(prefix), store->share());
}

}  // namespace bp::ccl
