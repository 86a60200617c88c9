// SPDX-License-Identifier: Apache-2.0
#include "ccl/store/key_map.hpp"

#include <charconv>
#include <utility>

#include "core/base/checked.hpp"
#include "core/base/quoted.hpp"

namespace bp::ccl {
namespace {

// Of a node, its key's and its value's blocks: about what they take besides their bytes.
constexpr uint64_t kEntryBytes = 128;

uint64_t entry_bytes(std::string_view key, std::string_view value) {
  return kEntryBytes + key.size() + value.size();
}

std::optional<int64_t> number_of(std::string_view text) {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return number;
}

}  // namespace

KeyMap::Value KeyMap::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found != values_.end() ? found->second : nullptr;
}

Status KeyMap::set(std::string_view key, std::string_view value) {
  const auto found = values_.find(key);
  const uint64_t freed = found != values_.end() ? entry_bytes(key, *found->second) : 0;
  const uint64_t needed = bytes_ - freed + entry_bytes(key, value);
  if (needed > most_bytes_) {
    return Status(BP_OUT_OF_MEMORY, "no room for the key " + quoted(key) + ": the store has " +
                                        std::to_string(bytes_) + " bytes, expected at most " +
                                        std::to_string(most_bytes_));
  }
  auto made = std::make_shared<const std::string>(value);
  if (found != values_.end()) {
    found->second = std::move(made);
  } else {
    values_.emplace(std::string(key), std::move(made));
  }
  bytes_ = needed;
  return {};
}

bool KeyMap::has(std::string_view key, std::optional<std::string_view> value) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return !value;
  return value && *found->second == *value;
}

Result<int64_t> KeyMap::sum(std::string_view key, int64_t amount) const {
  const Value value = find(key);
  if (value == nullptr) return amount;
  const auto number = number_of(*value);
  if (!number) {
    return Status(BP_INVALID_ARGUMENT, "cannot add to the key " + quoted(key) +
                                           ": expected a whole number, found " + quoted(*value));
  }
  const auto result = checked_add(*number, amount);
  if (result) return *result;
  return Status(BP_INVALID_ARGUMENT, "cannot add " + std::to_string(amount) + " to the key " +
                                         quoted(key) + ": it has " + *value +
                                         ", and the sum does not fit 64 bits");
}

bool KeyMap::remove(std::string_view key) {
  const auto found = values_.find(key);
  if (found == values_.end()) return false;
  bytes_ -= entry_bytes(key, *found->second);
  values_.erase(found);
  return true;
}

void KeyMap::clear() {
  values_.clear();
  bytes_ = 0;
}

}  // namespace bp::ccl
