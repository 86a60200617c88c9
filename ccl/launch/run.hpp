// SPDX-License-Identifier: Apache-2.0
//
// The ranks of one run on this node: their processes, their output, their ends.
#ifndef BACKPLANE_CCL_LAUNCH_RUN_HPP
#define BACKPLANE_CCL_LAUNCH_RUN_HPP

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ccl/launch/labelled_lines.hpp"
#include "ccl/launch/processes.hpp"
#include "ccl/launch/well_ends.hpp"
#include "core/base/status.hpp"

namespace bp::ccl {

struct RankArgs {
  uint32_t rank = 0;
  std::string device = {};
  ProcessArgs process = {};
};

/// A rank that ended otherwise than well.
struct RankFailure {
  ProcessEnd end;
  std::string words;  // "rank 2 (npu:0, process 4711) was ended by signal 11 (...)"
};

class Run {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  Run(const Guard& guard, OutputQueue* output, std::chrono::seconds grace)
      : guard_(guard), output_(output), grace_(grace) {}
  /// Kills what is left, where the launcher fails itself.
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  /// Errors: UNAVAILABLE naming the rank.
  Status start(const RankArgs& args);
  /// The signal to all ranks that are left, and SIGKILL after the grace; at once, the second time.
  void stop(int signal);
  /// When there is something to do without an event; max(): never.
  TimePoint next_deadline() const;
  /// What is to be waited for.
  void add_awaited(std::vector<pollfd>* awaited) const;
  /// Takes ends and output, and does what is due.
  void turn();
  /// Every process has ended, and its output was taken.
  bool is_over() const { return ranks_.empty(); }
  /// Those that were not stopped, as they ended.
  const std::vector<RankFailure>& failures() const { return failures_; }
  /// Of ranks that ended well while others go on, here or, where there are any, on other nodes;
  /// nullopt: none is to be told of now.
  std::optional<std::string> take_well_ends(bool has_other_nodes);

 private:
  struct Stream {
    Descriptor source;
    LabelledLines lines;
    int target;
  };
  struct Rank {
    uint32_t number;
    std::string title;
    pid_t process;
    Stream streams[2];
    std::optional<TimePoint> ended;  // when
  };

  void read(Stream* stream, bool is_last);
  void take_ends(TimePoint now);
  bool close_output(Rank* rank, TimePoint now);

  const Guard& guard_;
  OutputQueue* const output_;
  const std::chrono::seconds grace_;
  std::vector<Rank> ranks_;  // that are not over
  std::vector<RankFailure> failures_;
  WellEnds well_ends_;
  bool is_stopping_ = false;
  std::optional<TimePoint> kill_at_;
};

}  // namespace bp::ccl

#endif
