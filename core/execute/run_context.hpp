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
#include "core/dispatch/extents.hpp"
#include "core/execute/run_control.hpp"
#include "core/plan/plan.hpp"
#include "core/runtime/tensor.hpp"

namespace bp {

/// A segment's prepared arguments in one run context.
class SegmentInstance final : public PluginObjectHolder {
 public:
  /// `devices` as in PlanRequest; `streams` one per device.
  SegmentInstance(std::shared_ptr<const Segment> segment, std::vector<Device*> devices,
                  std::vector<Stream*> streams, std::shared_ptr<MemoryBudget> budget);
  ~SegmentInstance();
  SegmentInstance(const SegmentInstance&) = delete;
  SegmentInstance& operator=(const SegmentInstance&) = delete;

  /// Takes arenas and states. Errors: OUT_OF_MEMORY; the plugins'.
  Status prepare();
  const Segment& segment() const { return *segment_; }

  /// Runs the steps. `values` holds the live-ins by value, and gets the live-outs; one that is
  /// bound is the bound tensor, if a step can write straight into it. Errors name the node;
  /// CANCELLED and TIMEOUT of state->control, after which the queues may still hold work.
  Status run(const Graph& graph, RunState* state, std::vector<Ref<Tensor>>* values);

  void release_plugin_objects() override;
  bool holds_states() const override { return true; }

 private:
  /// A place in arguments_ that takes a plan value's memory anew on each run.
  struct Patch {
    size_t argument;
    PlanValueId plan_value;
  };

  Status run_steps(const Graph& graph, RunState* state, std::vector<Ref<Tensor>>* values);
  Status use_bound(std::span<const Ref<Tensor>> bound);
  bool is_shared(const LiveOut& out) const;
  bool is_fixed(PlanValueId id) const;
  bp_mem place_of(PlanValueId id) const;
  /// Puts a plan value's place into a launch argument.
  void point(PlanValueId id, bp_tensor* argument) const;
  void prepare_arguments();
  Status make_owned(MemoryCharge* charge);
  Status order_live_ins(std::span<const Ref<Tensor>> values);
  Status run_step(size_t index);
  /// With all its work, and control.on_step told of it.
  Status timed_step(size_t index, const RunControl& control);
  Status launch_step(size_t index);
  Status copy_step(const Step& step);
  void note_uses();
  std::span<const FaultOrigin> origins_of(std::span<const uint32_t> sources);
  Status collect(std::vector<Ref<Tensor>>* values);
  /// What copy(stream, &seq) puts into the queue of device `where` counts as use of the memory
  /// here, however it ends.
  template <class Copy>
  Status note_copy(size_t where, Copy copy);
  Status read_extents(PlanValueId written, Extents* out_extents);
  /// `extents`: those of the launch that made it, if its sizes are an upper bound.
  Result<Ref<Tensor>> live_out_tensor(const LiveOut& out, const Extents& extents);

  const std::shared_ptr<const Segment> segment_;
  const std::vector<Device*> devices_;
  const std::vector<Stream*> streams_;
  std::vector<Ref<Storage>> arenas_;
  std::vector<bp_tensor> arguments_;    // of all steps, one after the other
  std::vector<size_t> first_argument_;  // per step
  std::vector<Patch> patches_;
  std::vector<bp_kernel_state*> states_;  // per step; nullptr: none
  MemoryCharge arena_charge_;
  std::vector<Ref<Tensor>> owned_;    // per plan value: live-ins, constants, owned; else nullptr
  std::vector<uint64_t> last_seq_{};  // 0: no launch yet
  std::vector<FaultOrigin> fault_origins_;  // by fault source; empty: the run is not there yet
  std::vector<FaultOrigin> origins_of_value_;
};

/// Used by one run at a time.
class RunContext {
 public:
  RunContext(std::vector<Device*> devices, std::vector<Stream*> streams,
             std::shared_ptr<MemoryBudget> budget)
      : devices_(devices), streams_(streams), budget_(std::move(budget)) {}
  ~RunContext();
  RunContext(const RunContext&) = delete;
  RunContext& operator=(const RunContext&) = delete;

  /// Of the chosen device.
  Stream& stream() const { return *streams_[0]; }
  /// The context's stream of a device, or else the device's default one.
  Stream& stream_of(Device& device) const;
  /// Waits for all of the context's work, or until the run is to stop. Errors: control's; the
  /// streams'.
  Status wait(const RunControl& control) const;
  /// Waits for all of the context's work. Errors: the first stream's; all are waited for.
  Status sync() const;
  /// False: work of it has failed, and its streams have to be reset.
  bool is_healthy() const;
  /// The instance of a segment; made at its first run here. Only the most recent few are kept.
  Result<SegmentInstance*> instance_of(const std::shared_ptr<const Segment>& segment);

 private:
  void keep_instances() noexcept;

  static constexpr size_t kMaxInstances = 8;
  const std::vector<Device*> devices_;
  const std::vector<Stream*> streams_;  // nullptr where there is no device
  const std::shared_ptr<MemoryBudget> budget_;
  std::vector<std::unique_ptr<SegmentInstance>> instances_;  // newest use last
};

}  // namespace bp

#endif
