// SPDX-License-Identifier: Apache-2.0
//
// A store that falls silent: one whose process was stopped, as far as a wait can tell.
#ifndef BACKPLANE_CCL_STORE_SILENT_STORE_TEST_HPP
#define BACKPLANE_CCL_STORE_SILENT_STORE_TEST_HPP

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ccl/store/store.hpp"
#include "ccl/store/told_wait.hpp"

namespace bp::ccl {

inline constexpr const char* kSilence = "tcp 10.0.0.1:4711: the store does not answer";

/// Takes what it is given, and answers nobody who looks. Looks must not be patient with it.
class SilentStore final : public Store {
 public:
  explicit SilentStore(std::shared_ptr<Store> store = make_memory_store(),
                       std::chrono::milliseconds patience = std::chrono::milliseconds::max())
      : store_(std::move(store)), patience_(patience) {}

  std::string name() const override { return "tcp 10.0.0.1:4711"; }
  Status set(std::string_view key, std::string_view value) override {
    return store_->set(key, value);
  }
  Result<std::string> get(std::string_view key, Clock::time_point deadline) override {
    return store_->get(key, deadline);
  }
  Result<std::optional<std::string>> try_get(std::string_view /*key*/) override {
    EXPECT_LE(patience_, kLookPatience) << "as long as the store was made to wait";
    return Status(BP_TIMEOUT, kSilence);
  }
  Result<int64_t> add(std::string_view key, int64_t amount) override {
    return store_->add(key, amount);
  }
  Result<std::string> compare_set(std::string_view key, std::optional<std::string_view> expected,
                                  std::string_view value) override {
    return store_->compare_set(key, expected, value);
  }
  Result<bool> remove(std::string_view key) override { return store_->remove(key); }
  void abort() noexcept override { store_->abort(); }
  std::shared_ptr<Store> share(std::chrono::milliseconds patience) override {
    return std::make_shared<SilentStore>(store_->share(), std::min(patience, patience_));
  }

 private:
  const std::shared_ptr<Store> store_;
  const std::chrono::milliseconds patience_;
};

}  // namespace bp::ccl

#endif
