// SPDX-License-Identifier: Apache-2.0
//
// Where ranks find each other: a small shared map of keys to bytes. Groups are made through it, and
// failures are told through it. Every call that may wait has a deadline.
#ifndef BACKPLANE_CCL_STORE_STORE_HPP
#define BACKPLANE_CCL_STORE_STORE_HPP

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "ccl/store/token.hpp"
#include "core/base/status.hpp"

namespace bp::ccl {

/// Any thread, as many at once as like. Keys: 1 to kMostKeyBytes bytes. Values: up to
/// kMostValueBytes. Errors of all calls, beside their own: INVALID_ARGUMENT for a key or value that
/// cannot be; UNAVAILABLE once the store is gone, naming it; TIMEOUT where the store itself does
/// not answer in the time that it was made with, and what was asked may still happen; OUT_OF_MEMORY
/// where the store takes no more; CANCELLED after abort(); FORKED in a forked child.
class Store {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr uint64_t kMostKeyBytes = 1024;
  static constexpr uint64_t kMostValueBytes = uint64_t{1} << 20;

  virtual ~Store() = default;

  /// What the store is, for people: "memory", "file /tmp/x", "tcp 127.0.0.1:4711".
  virtual std::string name() const = 0;
  /// By which its users prove themselves; nullptr: none, since whoever reaches it is this user.
  virtual std::shared_ptr<const Token> token() const { return nullptr; }
  virtual Status set(std::string_view key, std::string_view value) = 0;
  /// The value as soon as there is one; after the deadline still the one that is there. Errors:
  /// TIMEOUT naming the key.
  virtual Result<std::string> get(std::string_view key, Clock::time_point deadline) = 0;
  /// The value if there is one now.
  virtual Result<std::optional<std::string>> try_get(std::string_view key) = 0;
  /// Adds to a number, which begins as 0; answers the sum. Errors: INVALID_ARGUMENT where the value
  /// is no number, or the sum is none that fits.
  virtual Result<int64_t> add(std::string_view key, int64_t amount) = 0;
  /// Sets the key where it has the value `expected` (nullopt: none); answers the value that the key
  /// has then, an empty one where it has none.
  virtual Result<std::string> compare_set(std::string_view key,
                                          std::optional<std::string_view> expected,
                                          std::string_view value) = 0;
  /// True: there was one.
  virtual Result<bool> remove(std::string_view key) = 0;
  /// Ends the waits of this object's callers, now and from now on, with CANCELLED. Never waits.
  virtual void abort() noexcept = 0;
  /// The same store as another object, over the same connection. Its abort() is its own; that of
  /// this object ends the waits of both. `patience`: for how long its calls but get() wait for a
  /// store that does not answer, where this object's wait longer.
  virtual std::shared_ptr<Store> share(std::chrono::milliseconds patience) = 0;
  std::shared_ptr<Store> share() { return share(std::chrono::milliseconds::max()); }
};

/// For ranks that are threads of one process. Throws std::bad_alloc.
std::shared_ptr<Store> make_memory_store();

/// A part of a store: its keys begin with the prefix there, and count with it. It is made of
/// store->share(), so that abort() is its own, and that of `store` ends its waits as well. Throws
/// std::bad_alloc.
std::shared_ptr<Store> make_prefix_store(std::string prefix, std::shared_ptr<Store> store);

}  // namespace bp::ccl

#endif
