// SPDX-License-Identifier: Apache-2.0
//
// The plans of one session, by what they were made for: shapes, strides and alignment of the values
// that exist before them, and the host values that they used. Bounded; the one used least recently
// goes first.
#ifndef BACKPLANE_CORE_EXECUTE_PLAN_CACHE_HPP
#define BACKPLANE_CORE_EXECUTE_PLAN_CACHE_HPP

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/dispatch/dispatcher.hpp"
#include "core/op/host_tensor.hpp"
#include "core/plan/plan.hpp"
#include "core/runtime/tensor.hpp"

namespace bp {

using HostValues = std::unordered_map<ValueId, HostTensor>;

/// Where a run stands when it needs its next segment.
struct PlanPoint {
  NodeId first = 0;
  std::span<const Ref<Tensor>> values;  // by ValueId; nullptr: not made yet, or over
  const HostValues& host_values;
};

/// Any thread.
class PlanCache {
 public:
  explicit PlanCache(size_t capacity) : capacity_(capacity) {}

  /// nullptr: none is kept. The plan of the last call costs one comparison.
  std::shared_ptr<const Segment> find(const PlanPoint& point);
  /// Keeps a plan, instead of another one for the same point.
  void insert(const PlanPoint& point, std::shared_ptr<const Segment> segment);
  /// Lets all plans go.
  void clear();
  size_t size() const;

 private:
  struct Entry {
    uint64_t hash = 0;
    NodeId first = 0;
    std::vector<std::pair<ValueId, ArgType>> types;  // in the order of ids
    HostValues host_values;
    std::shared_ptr<const Segment> segment;
  };
  using Entries = std::list<Entry>;

  static bool answers(const Entry& entry, const PlanPoint& point);
  Entries::iterator find_entry(uint64_t hash, const PlanPoint& point);
  void drop(Entries::iterator entry, Entries* out_dropped);

  const size_t capacity_;
  mutable std::mutex mutex_;
  Entries entries_;  // newest use first
  std::unordered_multimap<uint64_t, Entries::iterator> by_hash_;
};

}  // namespace bp

#endif
