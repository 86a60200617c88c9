// SPDX-License-Identifier: Apache-2.0
#include "ccl/store/told_wait.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "ccl/store/store_rules.hpp"
#include "core/base/log.hpp"

namespace bp::ccl {

Result<std::vector<uint32_t>> missing_numbers(
    Store& store, uint32_t begin, uint32_t end,
    const std::function<std::string(uint32_t number)>& key_of) {
  const std::shared_ptr<Store> looked = store.share(kLookPatience);
  std::vector<uint32_t> missing;
  for (uint32_t number = begin; number < end; ++number) {
    BP_TRY_ASSIGN(const auto found, looked->try_get(key_of(number)));
    if (!found) missing.push_back(number);
  }
  return missing;
}

std::string unknown_words(const std::string& who, const Status& why) {
  if (why.code() != BP_TIMEOUT) return "";
  return who + " waits, and for whom is not known: " + why.message();
}

std::string beyond_words(uint32_t end, uint32_t count) {
  return end < count ? ", and maybe for some above " + std::to_string(end - 1) : "";
}

std::string not_come_words(size_t count) {
  return count == 1 ? ", which has not come" : ", which have not come";
}

ToldWait::ToldWait(TimePoint deadline, const Telling& telling, std::function<std::string()> words)
    : deadline_(deadline),
      telling_(telling),
      words_(std::move(words)),
      next_(time_after(Store::Clock::now(), telling.first)) {}

void ToldWait::look() {
  const auto now = Store::Clock::now();
  if (now < next_ || now >= deadline_) return;
  next_ = time_after(now, telling_.next);
  std::string line = words_();
  if (line.empty()) return;
  const auto left = std::chrono::ceil<std::chrono::seconds>(time_left(deadline_));
  line += "; for " + std::to_string(left.count()) + " s more at most";
  if (!telling_.set_by.empty()) line += " (" + std::string(telling_.set_by) + ")";
  if (telling_.tell) return telling_.tell(line);
  log(BP_LOG_WARNING, line);
}

Result<std::string> ToldWait::get(Store& store, std::string_view key) {
  for (;;) {
    auto value = store.get(key, next_look());
    if (value.ok() || value.status().code() != BP_TIMEOUT || Store::Clock::now() >= deadline_) {
      return value;
    }
    look();
  }
}

}  // namespace bp::ccl
