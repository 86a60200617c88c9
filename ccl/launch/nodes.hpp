// SPDX-License-Identifier: Apache-2.0
//
// How the launchers of a job's nodes agree, through the store that the one of node 0 serves: which
// ranks each has, that one of them failed, whether all start again. The first failure decides, on
// every node alike. A launcher that has gone is found by its connection (node 0's) or by its
// silence.
#ifndef BACKPLANE_CCL_LAUNCH_NODES_HPP
#define BACKPLANE_CCL_LAUNCH_NODES_HPP

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ccl/store/events.hpp"
#include "ccl/store/store.hpp"
#include "ccl/store/told_wait.hpp"
#include "core/base/status.hpp"

namespace bp::ccl {

/// How a run ended, for all nodes.
struct Verdict {
  enum class Kind : uint8_t { kDone, kFailed, kStopped };  // kStopped: it does not start again
  Kind kind = Kind::kDone;
  int status = 0;          // of the launchers
  uint32_t node_rank = 0;  // where it happened
  std::string words = {};  // "rank 2 was ended by signal 11 (...)"

  std::string encode() const;
  static Result<Verdict> decode(const std::string& text);
};

struct NodesArgs {
  std::shared_ptr<Store> store = {};
  uint32_t node_rank = 0;
  uint32_t node_count = 1;
  uint32_t local_count = 1;
  uint32_t restarts = 0;
  std::chrono::milliseconds silence{30'000};  // for which a node's launcher may be silent
};

/// Ranks are numbered through the nodes.
struct RankRange {
  uint32_t first = 0;  // of this node
  uint32_t count = 0;  // of all nodes
};

/// One run at a time: begin(), watch(), propose() and verdict(), until there is one.
class Nodes {
 public:
  using TimePoint = Store::Clock::time_point;
  static constexpr uint32_t kMostNodes = 4096;

  static Result<std::unique_ptr<Nodes>> make(NodesArgs args);
  ~Nodes();
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;

  /// Waits for all nodes to begin the run. Errors: TIMEOUT naming the nodes that did not come;
  /// INVALID_ARGUMENT for a node that is there already, and on all nodes that wait for two that
  /// were started with other numbers, naming both.
  Result<RankRange> begin(uint32_t run, TimePoint deadline, const Telling& telling = {});
  /// From now on the verdict is looked for, and other nodes are watched.
  void watch();
  /// A rank here ended badly, and the others go on: where nothing else decides, this is the verdict
  /// once all nodes are done. The first one of all nodes counts.
  void note_failure(const Verdict& verdict);
  /// This node's ranks have all ended, well or as note_failure() was told.
  void propose_done();
  void propose(const Verdict& verdict);
  /// Can be read when there may be a verdict.
  int descriptor() const { return news_.descriptor(); }
  /// Once there is one. A store that is lost is a failure too.
  std::optional<Verdict> verdict();
  /// Ends the watch of this run.
  void end_watch();
  /// Before the store's server ends: waits until the other nodes know the verdict too.
  void leave(TimePoint deadline);

 private:
  Nodes(NodesArgs args, Wakeup news) : args_(std::move(args)), news_(std::move(news)) {}
  std::string run_key(const std::string& name) const;
  Status agree_on_terms();
  Status announce();
  Result<std::vector<uint32_t>> missing_nodes(uint32_t end);
  std::string waiting_words();
  Result<RankRange> number_ranks(TimePoint deadline);
  void look(const std::shared_ptr<Store>& store);
  Status beat(const std::shared_ptr<Store>& store);
  void settle(Verdict verdict);

  struct Beat {
    std::string value;
    TimePoint since;
  };

  const NodesArgs args_;
  const Wakeup news_;
  uint32_t run_ = 0;
  std::vector<Beat> beats_;             // by node; the watching thread's
  std::shared_ptr<Store> watch_store_;  // whose abort() ends the watch
  std::thread watcher_;
  std::mutex mutex_;
  std::optional<Verdict> verdict_;
};

}  // namespace bp::ccl

#endif
