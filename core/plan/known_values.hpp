// SPDX-License-Identifier: Apache-2.0
//
// What planning knows of values: constants, what was read to the host, and what follows from those
// and from sizes. A model's arithmetic on shapes ends here, so that no device waits for it.
#ifndef BACKPLANE_CORE_PLAN_KNOWN_VALUES_HPP
#define BACKPLANE_CORE_PLAN_KNOWN_VALUES_HPP

#include <memory>
#include <span>
#include <unordered_map>

#include "core/plan/planner.hpp"

namespace bp {

/// The known values of the session's graph while one segment is planned.
class KnownValues {
 public:
  explicit KnownValues(const PlanRequest& request);

  /// nullptr: known only when the node that makes it has run.
  std::shared_ptr<const HostTensor> find(ValueId value) const;

  /// Whether work_out() may know the node's outputs, for which it needs its inputs' types.
  bool may_know(const Node& node) const;
  /// Works out a node's outputs if they follow from known values and types. Small values only:
  /// each plan keeps its own. False: the node has to run. No error: what failed here fails again
  /// there, with the words for it.
  bool work_out(const Node& node, std::span<const TensorType> input_types);

 private:
  Result<std::vector<HostTensor>> outputs_of(const Node& node,
                                             std::span<const TensorType> input_types) const;

  const PlanRequest& request_;
  std::unordered_map<ValueId, std::shared_ptr<const HostTensor>> found_;
};

}  // namespace bp

#endif
