// SPDX-License-Identifier: Apache-2.0
//
// What a stream knows about its commands. OpenCL queues forget failures: a command that fails takes
// those already enqueued behind it along with status -1, and the next one runs as if nothing had
// happened. The ABI wants the opposite: the first failure in its own words, for ever. So each
// stream keeps the events of its unfinished commands and looks at them, oldest first, whenever the
// core asks. The tracker outlives its stream where events recorded there are still in use.
#ifndef BACKPLANE_PLUGINS_XPU_TRACKER_HPP
#define BACKPLANE_PLUGINS_XPU_TRACKER_HPP

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "driver.hpp"

namespace bp::xpu {

/// The first failure of a stream. Immutable.
struct StreamFailure {
  bp_status status = BP_INTERNAL;
  cl_int code = CL_SUCCESS;
  uint64_t op_seq = 0;  // of the launch that failed; 0: none
  std::string words;
};

class Tracker;

/// A point in a stream's order: its command number `seq`, which `event` ends.
struct Mark {
  Owned<cl_event> event;
  std::shared_ptr<Tracker> source;
  uint64_t seq = 0;
};

/// A command that a stream has enqueued.
struct Command {
  Owned<cl_event> event;
  const char* what = "";  // static text
  uint64_t op_seq = 0;    // 0: not a launch
  Mark waited;            // what a wait waits for; else empty
};

/// Any thread, but reserve and add, which are stream-ordered.
class Tracker {
 public:
  explicit Tracker(const Driver& driver) : driver_(driver) {}
  Tracker(const Tracker&) = delete;
  Tracker& operator=(const Tracker&) = delete;

  /// Makes room, so that add cannot fail once a command is on its way.
  void reserve(size_t command_count);
  /// Takes the next number.
  uint64_t add(Command command);
  /// Fails the stream, if it is healthy, behind all its commands for what happened to another one.
  void adopt(std::shared_ptr<const StreamFailure> origin);
  /// Forgets all commands, once the queue has ended and what its waits waited for as well.
  void close();

  /// The first failure that is known now, or null.
  std::shared_ptr<const StreamFailure> failure();
  /// The same, unless only commands later than `seq` failed.
  std::shared_ptr<const StreamFailure> failure_up_to(uint64_t seq);

  /// True once the commands up to `seq` are done or one of them has failed.
  bool is_settled(uint64_t seq);
  uint64_t last_seq() const;
  /// The event of the newest unfinished command; empty if there is none.
  Owned<cl_event> last_event() const;

 private:
  struct Pending {
    Command command;
    uint64_t seq = 0;
  };

  void observe();
  bool is_known(uint64_t seq) const;
  size_t kept_count() const;
  Owned<cl_event> waited_event(size_t index) const noexcept;
  void fail(uint64_t seq, std::shared_ptr<const StreamFailure> failure);
  void drop_front();

  const Driver& driver_;
  mutable std::mutex mutex_;
  // A queue in a vector: a deque would allocate every few commands for ever, this one does not.
  std::vector<Pending> pending_;
  size_t front_ = 0;
  uint64_t last_seq_ = 0;
  uint64_t finished_seq_ = 0;
  std::shared_ptr<const StreamFailure> failure_;  // the first that was seen
  uint64_t failed_seq_ = UINT64_MAX;              // of the earliest command that failed
};

}  // namespace bp::xpu

#endif
