// SPDX-License-Identifier: Apache-2.0
//
// Makes one segment: walks the nodes from `first`, resolves each on its device, inserts copies
// where a value is needed on another device, and lays out the arenas.
#ifndef BACKPLANE_CORE_PLAN_PLANNER_HPP
#define BACKPLANE_CORE_PLAN_PLANNER_HPP

#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/passes/passes.hpp"
#include "core/plan/plan.hpp"

namespace bp {

/// A constant to be packed for one input of a planned kernel.
struct PackRequest {
  const PlannedKernel& kernel;
  const PackedInput& input;
  // One of two: the values on the host, for a device that the host reaches into, or on the device.
  // The input is a view of it.
  std::shared_ptr<const HostTensor> source;
  Ref<Tensor> constant;
  uint32_t dtype = BP_DTYPE_NONE;
  const Dims& sizes;         // the input's
  const Dims& strides;       // in elements
  int64_t offset_bytes = 0;  // from the constant's element [0, ...]
};

/// Whether a device that the host reaches into uses a constant where it lies, and not a copy of it:
/// whether it lies as vector code likes it.
bool is_used_in_place(const HostTensor& constant);

struct PlanRequest {
  const Graph& graph;
  NodeId first = 0;
  std::vector<Device*> devices;  // each once
  /// The host device, through which values also go between two devices that the host cannot reach
  /// into; kNoPlanDevice: none is loaded.
  PlanDevice host = kNoPlanDevice;
  /// Where a node goes that the chosen device has no kernel for: the first of these that has one.
  std::vector<PlanDevice> fallbacks;
  /// The user listed the fallbacks, so BACKPLANE_FALLBACK is not asked.
  bool fallback_chosen = false;
  bool deterministic = false;
  /// Types of all values that exist before `first` and are used from it on; all on the
  /// chosen device.
  std::unordered_map<ValueId, ArgType> live_ins;
  /// Contents of values that were read to the host.
  std::unordered_map<ValueId, HostTensor> host_values;
  /// The device's copy of a constant, whose upload may still be in a queue. Decompositions'
  /// constants are uploaded like weights, but belong to the plan alone.
  std::function<Result<Ref<Tensor>>(const std::shared_ptr<const HostTensor>&, Device&)> constant;
  /// A constant as a kernel wants it packed; its memory.
  std::function<Result<Ref<Tensor>>(const PackRequest&)> packed;
  /// Works out parts of decompositions whose inputs are constants; empty: they are computed at
  /// each run.
  FoldFn fold = {};
};

/// Errors name the node: inference, UNSUPPORTED with every reason, OUT_OF_MEMORY for constants.
Result<std::shared_ptr<const Segment>> plan_segment(const PlanRequest& request);

/// Assigns arena offsets by lifetime: largest first, each at the lowest place that is free while it
/// lives, and beside some thousands of others at the end.
struct ArenaItem {
  uint64_t bytes = 0;
  uint32_t first_step = 0;
  uint32_t last_step = 0;
  uint64_t offset = 0;  // the answer
};
/// Returns the arena's size, which is 0 only without items: an empty one takes a place too. Offsets
/// are multiples of 256, and items that live at once never share one. Errors: OUT_OF_MEMORY for
/// more than any device has.
Result<uint64_t> assign_arena(std::vector<ArenaItem>* items);
/// What lives at once at most: no layout takes less. For items that assign_arena() has placed.
uint64_t live_bytes_peak(std::span<const ArenaItem> items);
/// Gives the arena values and workspaces of a planned segment their places.
Status lay_out_arenas(Segment* segment);
/// The parts of a decomposed node, with what depends alone on inputs whose value is known worked
/// out by `fold`; `parts` itself where nothing is. `inputs`: the values, nullptr where one is not
/// known. Used by the planner. Errors: as run_passes().
Result<std::shared_ptr<const Graph>> fold_parts(
    std::span<const std::shared_ptr<const HostTensor>> inputs, const Node& node,
    const std::shared_ptr<const Graph>& parts, const FoldFn& fold);
/// A constant on a device. Where the host reaches into the device it is not brought yet.
/// Errors: those of PlanRequest::constant.
Result<PlanValue> constant_value(const PlanRequest& request,
                                 const std::shared_ptr<const HostTensor>& known, PlanDevice where);
/// Brings the constants that a step or a later segment reads as they are; of the others only packed
/// forms are read. Errors: those of PlanRequest::constant.
Status bring_constants(const PlanRequest& request, Segment* segment);
/// Fills in all fault sources of a planned segment.
void trace_faults(const PlanRequest& request, Segment* segment);

}  // namespace bp

#endif
