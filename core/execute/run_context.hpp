// SPDX-License-Identifier: Apache-2.0
//
// What one run needs for itself: a stream, arenas, kernel states, and the arguments of every
// launch, prepared once per segment so that a run only patches in its inputs and outputs.
#ifndef BACKPLANE_CORE_EXECUTE_RUN_CONTEXT_HPP
#define BACKPLANE_CORE_EXECUTE_RUN_CONTEXT_HPP

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "core/base/status.hpp"
#include "core/plan/plan.hpp"
#include "core/runtime/tensor.hpp"

namespace bp {

/// A segment's prepared arguments in one run context.
class SegmentInstance : public PluginObjectHolder {
 public:
  /// `devices` as in PlanRequest; `streams` one per device.
  SegmentInstance(std::shared_ptr<const Segment> segment,
                  std::array<Device*, kPlanDeviceCount> devices,
                  std::array<Stream*, kPlanDeviceCount> streams);
  ~SegmentInstance();
  SegmentInstance(const SegmentInstance&) = delete;
  SegmentInstance& operator=(const SegmentInstance&) = delete;

  /// Takes arenas and states. Errors: OUT_OF_MEMORY; the plugins'.
  Status prepare();
  const Segment& segment() const { return *segment_; }

  /// Runs the steps. `values` holds the live-ins by value, and gets the live-outs. Errors name the
  /// node.
  Status run(const Graph& graph, std::vector<Ref<Tensor>>* values);

  void release_plugin_objects() override;

 private:
  /// A place in arguments_ that takes a slot's memory anew on each run.
  struct Patch {
    size_t argument;
    SlotId slot;
  };

  Status run_steps(const Graph& graph, std::vector<Ref<Tensor>>* values);
  bool is_fixed(SlotId slot) const;
  bp_mem place_of(SlotId slot) const;
  /// Puts a slot's place into a launch argument.
  void point(SlotId slot, bp_tensor* argument) const;
  void prepare_arguments();
  Status make_owned();
  Status order_live_ins(std::span<const Ref<Tensor>> values);
  Status run_step(size_t index);
  Status launch_step(size_t index);
  Status copy_step(const Step& step);
  void note_uses();
  Status collect(std::vector<Ref<Tensor>>* values);
  Result<Ref<Tensor>> live_out_tensor(const LiveOut& out);

  const std::shared_ptr<const Segment> segment_;
  const std::array<Device*, kPlanDeviceCount> devices_;
  const std::array<Stream*, kPlanDeviceCount> streams_;
  std::array<Ref<Storage>, kPlanDeviceCount> arenas_;
  std::vector<bp_tensor> arguments_;    // of all steps, one after the other
  std::vector<size_t> first_argument_;  // per step
  std::vector<Patch> patches_;
  std::vector<bp_kernel_state*> states_;  // per step; nullptr: none
  std::vector<Ref<Tensor>> owned_;        // per slot: live-ins, constants, owned; else nullptr
  uint64_t last_seq_ = 0;
  uint64_t first_fault_seq_ = 0;  // of the run; 0: no launch could fault
};

/// Used by one run at a time.
class RunContext {
 public:
  RunContext(std::array<Device*, kPlanDeviceCount> devices,
             std::array<Stream*, kPlanDeviceCount> streams)
      : devices_(devices), streams_(streams) {}
  ~RunContext();
  RunContext(const RunContext&) = delete;
  RunContext& operator=(const RunContext&) = delete;

  Stream& stream() const { return *streams_[0]; }
  /// The instance of a segment; made at its first run here. Only the most recent few are kept.
  Result<SegmentInstance*> instance_of(const std::shared_ptr<const Segment>& segment);

 private:
  static constexpr size_t kMaxInstances = 8;
  const std::array<Device*, kPlanDeviceCount> devices_;
  const std::array<Stream*, kPlanDeviceCount> streams_;
  std::vector<std::unique_ptr<SegmentInstance>> instances_;  // newest use last
};

}  // namespace bp

#endif
