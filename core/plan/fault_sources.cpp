// SPDX-License-Identifier: Apache-2.0
//
// Which launches' data faults concern which values of a segment: worked out once, so that a run
// notes numbers and asks nothing. A value on a queue is concerned by what made it and by what that
// was made from. A copy to the host is a wait, which reports; so what is made there is concerned by
// nothing.
#include <algorithm>
#include <bit>

#include "core/plan/planner.hpp"

namespace bp {
namespace {

/// A set of sources, by their index.
using SourceSet = std::vector<uint64_t>;

void add(size_t source, SourceSet* set) {
  if (set->size() <= source / 64) set->resize(source / 64 + 1);
  (*set)[source / 64] |= uint64_t{1} << (source % 64);
}

void add(const SourceSet& other, SourceSet* set) {
  if (set->size() < other.size()) set->resize(other.size());
  for (size_t i = 0; i < other.size(); ++i) (*set)[i] |= other[i];
}

std::vector<uint32_t> members(const SourceSet& set) {
  std::vector<uint32_t> indices;
  for (size_t word = 0; word < set.size(); ++word) {
    for (uint64_t bits = set[word]; bits != 0; bits &= bits - 1) {
      indices.push_back(static_cast<uint32_t>(word * 64) +
                        static_cast<uint32_t>(std::countr_zero(bits)));
    }
  }
  return indices;
}

class Tracer {
 public:
  Tracer(const PlanRequest& request, Segment* segment)
      : request_(request), segment_(*segment), sets_(segment->values.size()) {}

  void run() {
    for (PlanValueId id = 0; id < segment_.values.size(); ++id) {
      const PlanValue& value = segment_.values[id];
      if (value.kind != PlanValueKind::kLiveIn || !is_queued(value.device)) continue;
      add(segment_.fault_sources.size(), &sets_[id]);
      segment_.fault_sources.push_back({.device = value.device, .live_in = id});
    }
    for (Step& step : segment_.steps) trace(&step);
    for (PlanValueId id = 0; id < segment_.values.size(); ++id) {
      PlanValue& value = segment_.values[id];
      if (value.kind == PlanValueKind::kOwned) value.fault_sources = members(sets_[id]);
    }
  }

 private:
  bool is_queued(PlanDevice where) const { return !request_.devices[where]->is_inline(); }
  PlanValueId base_of(PlanValueId id) const {
    return segment_.values[id].kind == PlanValueKind::kView ? segment_.values[id].base : id;
  }

  void trace(Step* step) {
    if (step->kind == StepKind::kCopy) {
      step->fault_sources = members(sets_[base_of(step->args[0])]);
      return;
    }
    if (!is_queued(step->device)) return;  // the launch itself answers its fault
    SourceSet sources;
    for (uint32_t i = 0; i < step->input_count; ++i) {
      if (step->args[i] != kNoPlanValue) add(sets_[base_of(step->args[i])], &sources);
    }
    if (step->kernel->can_fault()) {
      step->fault_source = static_cast<uint32_t>(segment_.fault_sources.size());
      add(step->fault_source, &sources);
      segment_.fault_sources.push_back({.device = step->device, .live_in = kNoPlanValue});
    }
    for (size_t i = step->input_count; i < step->args.size(); ++i) {
      sets_[base_of(step->args[i])] = sources;
    }
    if (step->extents != kNoPlanValue) sets_[step->extents] = sources;
  }

  const PlanRequest& request_;
  Segment& segment_;
  std::vector<SourceSet> sets_;  // by value that is no view
};

}  // namespace

void trace_faults(const PlanRequest& request, Segment* segment) { Tracer(request, segment).run(); }

}  // namespace bp
