// SPDX-License-Identifier: Apache-2.0
//
// Inputs that a run may leave out. While it does they are constants: folded, packed, on the device
// already. For a run that gives some there is a session of its own, where these are inputs.
#ifndef BACKPLANE_CORE_EXECUTE_DEFAULT_INPUTS_HPP
#define BACKPLANE_CORE_EXECUTE_DEFAULT_INPUTS_HPP

#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/execute/session.hpp"

namespace bp {

/// Of one session. Any thread.
class DefaultInputs {
 public:
  /// `graph`: as it was read, with its default inputs.
  DefaultInputs(Graph graph, const SessionArgs& args);

  const Graph& graph() const { return graph_; }
  /// Whether the run gives one of them.
  bool any_of(std::span<const NamedTensor> inputs) const;
  /// The session for runs that give these, made where no earlier run did so. Its memory is within
  /// `budget`. Errors: those of making a session; TIMEOUT of a wait for another thread that makes
  /// one.
  Result<Ref<Session>> session_for(Runtime& runtime, std::span<const NamedTensor> inputs,
                                   std::shared_ptr<MemoryBudget> budget);

 private:
  /// In any order, the newest first; more would each keep their plans and weights.
  static constexpr size_t kMaxSessions = 4;
  using Given = std::vector<ValueId>;  // sorted

  Given given_by(std::span<const NamedTensor> inputs) const;

  const Graph graph_;
  const SessionArgs args_;
  std::unordered_map<std::string_view, ValueId> by_name_;
  std::timed_mutex mutex_;  // held while one is made
  std::vector<std::pair<Given, Ref<Session>>> sessions_;
};

}  // namespace bp

#endif
