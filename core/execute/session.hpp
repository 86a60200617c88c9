// SPDX-License-Identifier: Apache-2.0
//
// A graph made ready to run on one device, by any number of threads at once. Plans are made per
// input shapes and kept in a bounded cache; each run borrows a run context (stream, arenas, kernel
// states) from a bounded pool.
#ifndef BACKPLANE_CORE_EXECUTE_SESSION_HPP
#define BACKPLANE_CORE_EXECUTE_SESSION_HPP

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/ref.hpp"
#include "core/base/status.hpp"
#include "core/base/timed_lock.hpp"
#include "core/execute/plan_cache.hpp"
#include "core/execute/run_control.hpp"
#include "core/graph/graph.hpp"
#include "core/plan/plan.hpp"
#include "core/plan/planner.hpp"
#include "core/runtime/runtime.hpp"
#include "core/runtime/tensor.hpp"

namespace bp {

class DefaultInputs;
class RunContext;

struct SessionArgs {
  Device* device = nullptr;  // required
  /// Where operators go that `device` has no kernel for, in order of preference, whatever
  /// BACKPLANE_FALLBACK says; each once. Empty: the Runtime's host device, if
  /// BACKPLANE_FALLBACK allows it.
  std::vector<Device*> fallbacks{};
  /// Only kernels that promise bitwise equal reruns.
  bool deterministic = false;
  /// Of device memory: weights, activations, workspaces, and outputs and copied inputs of runs in
  /// progress. 0: no limit.
  uint64_t memory_limit_bytes = 0;
  /// What its memory is charged to, with a limit of its own in place of memory_limit_bytes: by it
  /// the graph's files may have been read. nullptr: one of the session's own.
  std::shared_ptr<MemoryBudget> budget{};
  /// Sizes for symbolic dimensions, by name ("N"): fixed for the session's life. An unknown name
  /// is refused, and the empty one.
  std::map<std::string, int64_t> dims;
  /// Likewise, what symbolic dimensions may be, for those that `dims` doesn't fix: a run with
  /// another size is refused. Where inference finds that an end cannot be, so is the session.
  std::map<std::string, DimRange> dim_ranges{};
  /// Runs at once; further ones wait for a context.
  uint32_t max_contexts = 8;
};

struct RunOptions {
  /// Empty, or a tensor for each output, nullptr for those that the run is to allocate. One is
  /// written in place where a step can, else copied into (counted). Contiguous.
  std::span<const Ref<Tensor>> outputs{};
  /// Set: the run waits for its work and stops when this says so.
  const RunControl* control = nullptr;
  /// Of the session's device: the run comes after this stream's work so far, and later work there
  /// after the run. nullptr: only the order that tensors impose.
  Stream* stream = nullptr;
};

struct SessionIo {
  std::string name;
  uint32_t dtype = BP_DTYPE_NONE;
  bool has_rank = true;
  Dims sizes;                          // unknown ones below 0
  std::vector<std::string> dim_names;  // of symbols, "" for others; as many as sizes
  Dims min_sizes;                      // what sizes may be
  Dims max_sizes;                      // ... ends included; INT64_MAX: anything
  bool has_default = false;            // an input that a run may leave out
};

/// Operators by how they run, in one plan.
struct PlacementCounts {
  uint64_t native = 0;
  uint64_t decomposed = 0;
  uint64_t fallback = 0;
  uint64_t view = 0;
  uint64_t known = 0;
};

struct PlacementRow {
  std::string node;
  std::string op;
  RouteKind kind = RouteKind::kNative;
  std::vector<std::string> kernels;
  std::string reason;
  Device* device = nullptr;  // of the last of its kernels; nullptr: there are none
};

/// Memory for the values between operators, over all devices of a plan.
struct MemoryPlan {
  uint64_t arena_bytes = 0;
  uint64_t live_bytes_peak = 0;  // no order of memory would take less
};

using NamedTensor = std::pair<std::string, Ref<Tensor>>;

class Session : public Counted<Session> {
 public:
  /// Runs the neutral passes (folding on the host device, if one is loaded). Where the sizes of all
  /// inputs are fixed, plans up to the first node whose sizes or host values only a run knows, for
  /// inputs that are contiguous, and brings the weights to the devices. Errors: those of the passes
  /// and of planning.
  static Result<Ref<Session>> create(Runtime& runtime, Graph graph, const SessionArgs& args);

  /// Those that a run may leave out stand behind the others.
  std::span<const SessionIo> inputs() const { return inputs_; }
  std::span<const SessionIo> outputs() const { return outputs_; }
  Device& device() const { return *device_; }
  Runtime& runtime() const { return *runtime_; }

  /// Runs once. Every input without a default must be given, by name, in any order, with the dtype
  /// and sizes of inputs(); from the host or any device of the Runtime. The first run that gives
  /// others in place of their defaults prepares the model anew, where they are no constants.
  /// Outputs in the order of outputs(); on queued devices they may still be in the making: reading
  /// them waits. Any thread. Errors: INVALID_ARGUMENT naming the input, what was expected and what
  /// was found; OUT_OF_MEMORY; the plugin's, naming the node; CANCELLED, TIMEOUT by
  /// options.control; TIMEOUT of a wait at the Runtime's deadline, and BUSY where it is one for a
  /// context. The session stays usable.
  Result<std::vector<Ref<Tensor>>> run(std::span<const NamedTensor> inputs,
                                       const RunOptions& options = {});

  /// How the newest run, or else what was planned ahead, places the nodes.
  PlacementCounts placement_counts() const;
  std::vector<PlacementRow> placements() const;
  /// Row by row: how many there are, and one of them; none: there are not so many now.
  uint64_t placement_count() const;
  std::optional<PlacementRow> placement(uint64_t index) const;
  /// The same text, for as long as the session lives. Any thread. Throws std::bad_alloc.
  const char* keep_text(std::string_view text);
  /// The same of its memory: a sum over segments, each of which keeps its arena.
  MemoryPlan memory_plan() const;
  /// What the memory limit is held against, now.
  uint64_t memory_used_bytes() const { return budget_->used_bytes(); }
  /// Plans made and kept.
  size_t plan_count() const { return plans_.size(); }

 private:
  static constexpr size_t kMaxPlans = 64;
  friend class Counted<Session>;
  friend class DefaultInputs;
  friend class Ref<Session>;
  class ContextPlace;
  struct NewestRun {
    Ref<Session> session;  // set: it was a run of another one, whose newest it is
    std::vector<std::shared_ptr<const Segment>> segments;
  };

  Session(Runtime& runtime, Graph graph, const SessionArgs& args,
          std::shared_ptr<MemoryBudget> budget);
  ~Session();
  static Result<Ref<Session>> create_within(Runtime& runtime, Graph graph, const SessionArgs& args,
                                            std::shared_ptr<MemoryBudget> budget);
  Status choose_devices(const SessionArgs& args);
  Status prepare(const SessionArgs& args);
  Status set_dims(const SessionArgs& args);
  Status check_dim_ranges() const;
  DimRange range_of(const Graph& graph, int64_t size) const;
  SessionIo describe(const Graph& graph, std::string_view name, const TensorType& type) const;
  void describe_io();
  Status fold_and_clean();
  Status plan_ahead();
  Result<std::vector<HostTensor>> fold(const Node& node, std::span<const HostTensor* const> values);
  Result<std::vector<Ref<Tensor>>> run_with_defaults(std::span<const NamedTensor> inputs,
                                                     const RunOptions& options);
  Result<std::vector<Ref<Tensor>>> order_inputs(std::span<const NamedTensor> inputs) const;
  Status check_io(std::string_view role, const SessionIo& io, const Tensor& tensor,
                  std::map<std::string, int64_t>* symbols) const;
  Status check_bound(std::span<const Ref<Tensor>> outputs,
                     std::span<const Ref<Tensor>> inputs) const;
  std::vector<Ref<Tensor>> bound_values(std::span<const Ref<Tensor>> outputs,
                                        std::span<const Ref<Tensor>> inputs) const;
  Result<std::vector<Ref<Tensor>>> run_to_end(ContextPlace& place,
                                              std::span<const Ref<Tensor>> inputs,
                                              const RunOptions& options);
  Result<std::vector<Ref<Tensor>>> compute_with_room(ContextPlace& place,
                                                     std::span<const Ref<Tensor>> inputs,
                                                     const RunOptions& options);
  Result<std::vector<Ref<Tensor>>> compute(RunContext& context, std::span<const Ref<Tensor>> inputs,
                                           const RunOptions& options);
  Status upload(std::span<const Ref<Tensor>> inputs, RunContext& context, RunState* state,
                std::vector<Ref<Tensor>>* values);
  Status run_segments(RunContext& context, RunState* state, std::vector<Ref<Tensor>>* values);
  Status part_from_bound(const RunContext& context, std::span<const Ref<Tensor>> bound,
                         std::vector<Ref<Tensor>>* outputs) const;
  Status fill_bound(const RunContext& context, std::span<const Ref<Tensor>> bound,
                    std::vector<Ref<Tensor>>* outputs) const;
  /// Planned where it is not cached; constants go up on the context's streams.
  Result<std::shared_ptr<const Segment>> segment_for(const PlanPoint& point,
                                                     const RunContext& context);
  Status wait_for_constants(const Segment& segment);
  Result<Ref<Tensor>> constant_on(const std::shared_ptr<const HostTensor>& constant,
                                  Stream& stream);
  Result<Ref<Tensor>> packed_on(const PackRequest& request, Stream& stream);
  /// The values that are to be packed, if they are the graph's; nullptr: a plan's own.
  std::shared_ptr<const HostTensor> values_of(const PackRequest& request) const;
  NewestRun newest_run() const;
  PlacementRow row_of(const Segment& segment, const NodeRoute& route) const;
  Status wait_for_place(std::unique_lock<std::mutex>& lock, const RunControl* control);
  Result<std::unique_ptr<RunContext>> make_context();

  const Ref<Runtime> runtime_;
  Graph graph_;
  Device* const device_;
  std::vector<Device*> devices_;  // of its plans: the chosen one first
  PlanDevice host_ = kNoPlanDevice;
  std::vector<PlanDevice> fallbacks_;
  const bool fallback_chosen_;
  const bool deterministic_;
  const std::shared_ptr<MemoryBudget> budget_;
  const uint32_t max_contexts_;
  std::map<std::string, DimRange, std::less<>> dim_ranges_;  // fixed ones too
  std::vector<SessionIo> inputs_;                            // the graph's, then default inputs
  std::vector<SessionIo> outputs_;
  std::unique_ptr<DefaultInputs> default_inputs_;  // nullptr: the model has none
  std::vector<NodeId> last_use_;                   // per value: the last node that reads it

  /// The graph's; others belong to a plan.
  std::unordered_map<const HostTensor*, std::shared_ptr<const HostTensor>> own_constants_;
  std::timed_mutex constants_mutex_;  // held while one is brought to a device
  std::map<std::pair<const HostTensor*, Device*>, Ref<Tensor>> constants_;
  using PackedKey = std::tuple<const HostTensor*, Device*, std::string>;  // the last: its form
  std::map<PackedKey, Ref<Tensor>> packed_;

  PlanCache plans_{kMaxPlans};
  mutable std::mutex newest_run_mutex_;
  std::vector<std::shared_ptr<const Segment>> newest_run_;
  Ref<Session> newest_session_;  // if it was a run of another one

  std::mutex texts_mutex_;
  std::set<std::string, std::less<>> texts_;  // that readers of placements were given

  std::mutex contexts_mutex_;
  std::condition_variable context_returned_;
  std::vector<std::unique_ptr<RunContext>> idle_contexts_;
  uint32_t contexts_made_ = 0;  // idle ones, and the places that runs have
};

}  // namespace bp

#endif
