// SPDX-License-Identifier: Apache-2.0
//
// A wait for others that is not silent: who is missing may be so for minutes, and somebody who
// looks at the output is to see for whom a process waits.
#ifndef BACKPLANE_CCL_STORE_TOLD_WAIT_HPP
#define BACKPLANE_CCL_STORE_TOLD_WAIT_HPP

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ccl/store/store.hpp"

namespace bp::ccl {

/// By what the time of a wait was set, for people.
inline constexpr std::string_view kSetByOption = "BACKPLANE_CCL_TIMEOUT";
inline constexpr std::string_view kSetByProgram = "the timeout that the program gave";

/// When a wait is told, and where.
struct Telling {
  std::chrono::nanoseconds first = std::chrono::seconds(10);  // from when it began
  std::chrono::nanoseconds next = std::chrono::seconds(30);   // from one line to the next
  std::function<void(const std::string& line)> tell = {};     // none: as a warning in the log
  std::string_view set_by = kSetByOption;                     // empty: not known
};

/// How many values somebody who waits looks for, to tell which are missing: all that wait ask as
/// much of one store.
inline constexpr uint32_t kMostLooks = 256;
/// For how long who looks waits for an answer: a store that does not answer, as one whose process
/// was stopped, must not make a wait much longer than its deadline.
inline constexpr std::chrono::milliseconds kLookPatience{2'000};
/// Of the numbers from `begin` to below `end` those without a value under their key. Errors: the
/// store's; TIMEOUT where it has not answered within kLookPatience, and says of nobody that he is
/// missing.
Result<std::vector<uint32_t>> missing_numbers(
    Store& store, uint32_t begin, uint32_t end,
    const std::function<std::string(uint32_t number)>& key_of);
/// In place of who is missing, where that could not be found: "rank 1 waits, and for whom is not
/// known: tcp 10.0.0.1:4711: the store does not answer". Empty: it is an error that ends the wait,
/// too. `who`: "rank 1".
std::string unknown_words(const std::string& who, const Status& why);
/// Behind the names of those below `end`: ", and maybe for some above 255". Empty: that is all.
std::string beyond_words(uint32_t end, uint32_t count);
/// Behind the names of so many: ", which has not come", or ", which have not come".
std::string not_come_words(size_t count);

/// A wait, which may be for several things one after the other. One thread.
class ToldWait {
 public:
  using TimePoint = Store::Clock::time_point;

  /// `words`: who waits, and for whom: "rank 1 waits for rank 2, which has not come". Empty: for
  /// nobody that is known, and nothing is told.
  ToldWait(TimePoint deadline, const Telling& telling, std::function<std::string()> words);

  /// Until when to wait before look() is called again; the deadline at most.
  TimePoint next_look() const { return std::min(next_, deadline_); }
  /// Tells, if it is time to.
  void look();
  /// As store.get() with the deadline.
  Result<std::string> get(Store& store, std::string_view key);

 private:
  const TimePoint deadline_;
  const Telling telling_;
  const std::function<std::string()> words_;
  TimePoint next_;
};

}  // namespace bp::ccl

#endif
