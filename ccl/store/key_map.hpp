// SPDX-License-Identifier: Apache-2.0
//
// The contents of a store: keys and values, without waits and locks.
#ifndef BACKPLANE_CCL_STORE_KEY_MAP_HPP
#define BACKPLANE_CCL_STORE_KEY_MAP_HPP

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/status.hpp"

namespace bp::ccl {

/// Values are shared and never change, so that an answer needs no copy. Not for several threads at
/// once. Keys and values were checked before.
class KeyMap {
 public:
  using Value = std::shared_ptr<const std::string>;

  explicit KeyMap(uint64_t most_bytes = UINT64_MAX) : most_bytes_(most_bytes) {}

  /// nullptr: there is none.
  Value find(std::string_view key) const;
  /// Errors: OUT_OF_MEMORY beyond the bytes that it may hold.
  Status set(std::string_view key, std::string_view value);
  /// Whether the key has this value, or none.
  bool has(std::string_view key, std::optional<std::string_view> value) const;
  /// What the key's number and `amount` make. Errors: INVALID_ARGUMENT as Store::add().
  Result<int64_t> sum(std::string_view key, int64_t amount) const;
  /// False: there was none.
  bool remove(std::string_view key);
  void clear();

  /// What keys and values take, with what is needed to keep them.
  uint64_t bytes() const { return bytes_; }
  const std::map<std::string, Value, std::less<>>& values() const { return values_; }

 private:
  std::map<std::string, Value, std::less<>> values_;
  uint64_t bytes_ = 0;
  uint64_t most_bytes_;
};

}  // namespace bp::ccl

#endif
