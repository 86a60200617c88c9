// SPDX-License-Identifier: Apache-2.0
//
// The store behind a server: what requests do, and who waits for which key. No connections.
#ifndef BACKPLANE_CCL_STORE_STORE_SERVICE_HPP
#define BACKPLANE_CCL_STORE_STORE_SERVICE_HPP

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ccl/store/key_map.hpp"
#include "ccl/store/store.hpp"
#include "ccl/store/wire.hpp"
#include "core/base/status.hpp"

namespace bp::ccl {

/// Not for several threads at once.
class StoreService {
 public:
  using SessionId = uint64_t;
  using TimePoint = Store::Clock::time_point;
  /// Of one session at once; a client has one for each thread.
  static constexpr size_t kMostWaits = 1024;

  struct Reply {
    SessionId session = 0;
    std::string head;
    KeyMap::Value body;  // behind the head; nullptr: nothing
  };

  /// Keys and values may take that many bytes.
  explicit StoreService(uint64_t most_bytes) : keys_(most_bytes) {}

  /// Leads to one reply, now or later. Errors: INVALID_ARGUMENT for a session that waits for more
  /// than can be.
  Status handle(SessionId session, const Request& request, TimePoint now);
  /// Ends the waits of a session that has gone.
  void forget(SessionId session);
  /// Answers the waits whose deadline has come.
  void expire(TimePoint now);
  /// When the next wait ends; time_point::max(): there is none.
  TimePoint next_deadline() const;
  std::vector<Reply> take_replies() { return std::exchange(replies_, {}); }

 private:
  using WaitId = uint64_t;
  struct Wait {
    SessionId session = 0;
    uint64_t number = 0;
    std::string key;
    TimePoint deadline;
  };

  Status wait(SessionId session, const Request& request, TimePoint now);
  void end_wait(WaitId id);
  Status put(std::string_view key, std::string_view value);
  void add(SessionId session, const Request& request);
  void compare_set(SessionId session, const Request& request);
  void reply(SessionId session, const Answer& answer, KeyMap::Value body = nullptr);
  void reply_value(SessionId session, uint64_t number, const KeyMap::Value& value);
  void reply_status(SessionId session, uint64_t number, const Status& status);

  KeyMap keys_;
  WaitId next_wait_ = 1;
  std::map<WaitId, Wait> waits_;
  std::map<std::string, std::set<WaitId>, std::less<>> waits_of_keys_;
  std::set<std::pair<TimePoint, WaitId>> deadlines_;
  std::unordered_map<SessionId, std::set<WaitId>> waits_of_sessions_;
  std::vector<Reply> replies_;
};

}  // namespace bp::ccl

#endif
