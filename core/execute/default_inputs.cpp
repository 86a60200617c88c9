// SPDX-License-Identifier: Apache-2.0
#include "core/execute/default_inputs.hpp"

#include <algorithm>

namespace bp {

DefaultInputs::DefaultInputs(Graph graph, const SessionArgs& args)
    : graph_(std::move(graph)), args_(args) {
  for (const DefaultInput& input : graph_.default_inputs()) {
    by_name_.emplace(graph_.value(input.value).name, input.value);
  }
}

bool DefaultInputs::any_of(std::span<const NamedTensor> inputs) const {
  return std::ranges::any_of(
      inputs, [this](const NamedTensor& input) { return by_name_.contains(input.first); });
}

DefaultInputs::Given DefaultInputs::given_by(std::span<const NamedTensor> inputs) const {
  Given given;
  for (const auto& [name, tensor] : inputs) {
    const auto found = by_name_.find(name);
    if (found != by_name_.end()) given.push_back(found->second);
  }
  std::sort(given.begin(), given.end());
  // A name that is given twice is refused by the run, in its words.
  given.erase(std::unique(given.begin(), given.end()), given.end());
  return given;
}

Result<Ref<Session>> DefaultInputs::session_for(Runtime& runtime,
                                                std::span<const NamedTensor> inputs,
                                                std::shared_ptr<MemoryBudget> budget) {
  const Given given = given_by(inputs);
  TimedLock lock(mutex_, std::defer_lock);
  if (!lock_within(lock, runtime.wait_timeout())) {
    return Status(BP_TIMEOUT,
                  "another thread that prepares the model for other inputs was not done "
                  "(BACKPLANE_TIMEOUT)");
  }
  const auto known = std::find_if(sessions_.begin(), sessions_.end(),
                                  [&](const auto& session) { return session.first == given; });
  if (known != sessions_.end()) {
    std::rotate(sessions_.begin(), known, known + 1);
    return sessions_.front().second;
  }
  BP_TRY_ASSIGN(Graph graph, graph_.with_default_inputs(given));
  BP_TRY_ASSIGN(Ref<Session> session,
                Session::create_within(runtime, std::move(graph), args_, std::move(budget)));
  sessions_.emplace(sessions_.begin(), given, session);
  if (sessions_.size() > kMaxSessions) sessions_.pop_back();
  return session;
}

}  // namespace bp
