// SPDX-License-Identifier: Apache-2.0
//
// A plan is a list of segments. A segment is everything that can be decided before it runs: which
// kernel each node gets, where each value lives, what is copied between devices. A node whose
// inputs' sizes or host values are known only after earlier nodes ran begins the next segment.
#ifndef BACKPLANE_CORE_PLAN_PLAN_HPP
#define BACKPLANE_CORE_PLAN_PLAN_HPP

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/dispatch/dispatcher.hpp"
#include "core/graph/graph.hpp"
#include "core/runtime/tensor.hpp"

namespace bp {

using PlanValueId = uint32_t;
inline constexpr PlanValueId kNoPlanValue = UINT32_MAX;

/// A device of a plan: its place in the plan's list. The one that the user chose stands first.
using PlanDevice = uint32_t;
inline constexpr PlanDevice kChosenDevice = 0;
inline constexpr PlanDevice kNoPlanDevice = UINT32_MAX;

/// Where the memory of a plan value comes from.
enum class PlanValueKind {
  kLiveIn,    // a tensor from outside: graph input, or a value of an earlier segment
  kConstant,  // uploaded once
  kHost,      // in host memory, for a kernel of the device that takes it there
  kArena,     // the run context's arena, shared by values that do not live at the same time
  kOwned,     // a tensor of its own: graph output, or a value for later segments
  kView,      // another plan value's memory
};

/// What a data fault of a value may come from: a launch on a queue that may fault, or the contents
/// of a live-in.
struct FaultSource {
  PlanDevice device = kChosenDevice;
  PlanValueId live_in = kNoPlanValue;  // unset: a launch
};
inline constexpr uint32_t kNoFaultSource = UINT32_MAX;

/// A value on one device.
struct PlanValue {
  PlanValueKind kind = PlanValueKind::kArena;
  PlanDevice device = kChosenDevice;
  uint32_t dtype = BP_DTYPE_NONE;
  Dims sizes;
  Dims strides;                     // kArena, kOwned: without gaps, in any order
  uint64_t bytes = 0;               // kArena, kOwned
  uint64_t arena_offset = 0;        // kArena
  PlanValueId base = kNoPlanValue;  // kView; never a view itself
  int64_t offset_bytes = 0;         // kView: from the base's element [0, ...]; else modulo 256
  ValueId live_in = kNoValue;       // kLiveIn
  Ref<Tensor> constant;             // kConstant, kHost; nullptr: only its packed form is read
  // kConstant on a device that the host reaches into: what it holds. It is brought only if a step
  // reads it as it is.
  std::shared_ptr<const HostTensor> source;
  std::vector<uint32_t> fault_sources;  // kOwned: into Segment::fault_sources
};

enum class StepKind { kLaunch, kCopy };

struct Step {
  StepKind kind = StepKind::kLaunch;
  NodeId node = kNoNode;  // of the session's graph: for messages and placement
  PlanDevice device = kChosenDevice;
  std::shared_ptr<PlannedKernel> kernel;  // kLaunch
  std::vector<PlanValueId>
      args;  // kLaunch: inputs (kNoPlanValue: absent), outputs; kCopy: from, to
  uint32_t input_count = 0;
  uint64_t workspace_offset = 0;           // in the arena of `device`
  PlanValueId extents = kNoPlanValue;      // set: the outputs' real sizes are written there
  uint32_t fault_source = kNoFaultSource;  // kLaunch: its own place in Segment::fault_sources
  std::vector<uint32_t> fault_sources;     // kCopy: of what is copied
};

/// How a node of the graph runs, for people.
struct NodeRoute {
  NodeId node = kNoNode;
  RouteKind kind = RouteKind::kNative;
  std::vector<std::string> kernels;  // their names
  std::string reason;                // why it is not native
};

/// A value that outlives the segment.
struct LiveOut {
  ValueId value = kNoValue;
  PlanValueId plan_value = kNoPlanValue;
  PlanValueId extents = kNoPlanValue;  // set: sizes are an upper bound, the real ones are here
  uint32_t extents_index = 0;
};

/// Immutable once planned; run by any number of threads at once.
struct Segment {
  NodeId first = 0;
  NodeId end = 0;  // the first node that is not part of it
  std::vector<PlanValue> values;
  std::vector<Step> steps;
  std::vector<LiveOut> live_outs;
  std::vector<uint64_t> arena_bytes;      // by device
  std::vector<uint64_t> live_bytes_peak;  // by device: what an arena takes at least
  std::vector<FaultSource> fault_sources;
  std::vector<NodeRoute> routes;
  /// Values whose contents the next segment needs on the host before it can be planned.
  std::vector<ValueId> host_values;
  /// Values that were worked out while planning, and that later segments use.
  std::unordered_map<ValueId, HostTensor> known_values;
};

}  // namespace bp

#endif
