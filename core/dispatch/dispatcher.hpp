// SPDX-License-Identifier: Apache-2.0
//
// Which kernel runs an operator on one device. Selection is keyed without shapes and keeps a reason
// for each kernel that it refuses; a plan is made once per shape; a route is the whole answer
// for one call: alias, kernel, simpler operators, or the host device.
#ifndef BACKPLANE_CORE_DISPATCH_DISPATCHER_HPP
#define BACKPLANE_CORE_DISPATCH_DISPATCHER_HPP

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/status.hpp"
#include "core/device/kernel_list.hpp"
#include "core/device/size_ranges.hpp"
#include "core/graph/graph.hpp"
#include "core/op/attributes.hpp"
#include "core/op/schema.hpp"
#include "core/plugin/loader.hpp"
#include "core/runtime/device.hpp"

namespace bp {

class Hazard;
class RouteCache;
class Tensor;

/// One input of a call as dispatch sees it. Sizes are known.
struct ArgType {
  uint32_t dtype = BP_DTYPE_NONE;  // NONE: absent optional argument
  Dims sizes;
  Dims strides;
  uint64_t offset_bytes = 0;        // modulo 256: what is known of the alignment
  const void* host_data = nullptr;  // contiguous values, where they are on the host
  bool is_constant = false;         // the same values whenever this is launched: of plans alone

  /// A tensor's, without host data.
  static ArgType of(const Tensor& tensor);
};

/// A value of a graph as a call's input: contiguous, with its values where they are constant;
/// kNoValue: absent.
ArgType arg_of(const Graph& graph, ValueId id);

/// What is asked of a call beside its result.
struct CallMode {
  bool deterministic = false;  // kernels that do not promise bitwise equal reruns are refused
  /// Bit i: output i, which has elements, may lie in any order of its dimensions. Of plans alone.
  uint32_t any_order_outputs = 0;
  /// Of output 0, where it is a view that kernels write into. Never of a call that is resolved.
  std::span<const int64_t> out_strides = {};
};

/// Some of a call's inputs, of which a variadic operator has any number.
class InputSet {
 public:
  bool empty() const { return first_ == 0 && others_.empty(); }
  bool contains(size_t input) const {
    if (input < kFirst) return ((first_ >> input) & 1) != 0;
    return input - kFirst < others_.size() && others_[input - kFirst];
  }
  void add(size_t input) {
    if (input < kFirst) {
      first_ |= uint64_t{1} << input;
      return;
    }
    if (others_.size() <= input - kFirst) others_.resize(input - kFirst + 1);
    others_[input - kFirst] = true;
  }

 private:
  static constexpr size_t kFirst = 64;
  uint64_t first_ = 0;
  std::vector<bool> others_;  // from input 64 on
};

/// An input that launches take packed, and what that takes.
struct PackedInput {
  uint32_t index = 0;
  uint64_t bytes = 0;
  std::string layout;            // the plugin's name for the form
  uint64_t alignment_bytes = 1;  // that the kernel wants of the constant
};

/// A kernel with the plan for one call's shapes. Immutable but for its eager states; shared.
class PlannedKernel final : public PluginObjectHolder {
 public:
  PlannedKernel(Device& device, OpId op, const KernelRecord& record, Attributes attributes);
  ~PlannedKernel();
  PlannedKernel(const PlannedKernel&) = delete;
  PlannedKernel& operator=(const PlannedKernel&) = delete;

  Device& device() const { return device_; }
  OpId op() const { return op_; }
  std::string_view op_name() const;
  const KernelRecord& record() const { return record_; }
  /// "conv_direct on npu:0".
  std::string title() const;
  /// As the ABI wants them; the plan's own copy.
  const void* attributes() const { return attribute_block_; }
  const bp_kernel_plan* plan() const { return plan_; }
  uint64_t workspace_bytes() const { return workspace_bytes_; }
  bool can_fault() const { return can_fault_; }
  bool extents() const { return extents_; }
  /// With extents(): of each output the sizes that no values change, -1 for the others.
  std::span<const Dims> sure_sizes() const { return sure_sizes_; }
  bool stateful() const { return record_.kernel.state_create != nullptr; }
  /// A launch takes its tensors and nothing else.
  bool is_plain() const { return workspace_bytes_ == 0 && !can_fault_ && !extents_ && !stateful(); }
  /// Inputs that must be made contiguous first.
  const InputSet& contiguous_inputs() const { return contiguous_inputs_; }
  /// Inputs that launches take at a host address; all others lie in memory of the device.
  const InputSet& host_inputs() const { return host_inputs_; }
  /// Bit i: output 0 may take the memory of input i, if both have one dtype, sizes and strides.
  uint64_t in_place_inputs() const { return record_.kernel.in_place_inputs; }
  /// Inputs that are given packed; none in a call whose inputs are not constants.
  std::span<const PackedInput> packed_inputs() const { return packed_inputs_; }
  /// In elements; each output by itself, in the call's order, where one is not contiguous.
  std::span<const Dims> out_strides() const { return out_strides_; }
  /// Packs a constant, whose values are there, into memory of packed_inputs()'s size. Any thread.
  /// Errors: the plugin's.
  Status pack(const PackedInput& input, const bp_tensor& constant, bp_mem packed) const;

  /// Makes a state for one user. Errors: the plugin's. The user gives it back by destroy_state
  /// unless the device was closed.
  Result<bp_kernel_state*> create_state() const;
  void destroy_state(bp_kernel_state* state) const;

  /// The state for eager launches on a stream: one per queued stream, one per launch in progress
  /// on an inline one. nullptr for a kernel without states.
  Result<bp_kernel_state*> borrow_state(Stream& stream);
  void return_state(Stream& stream, bp_kernel_state* state);

  /// A launch went to a queue of the plugin's: until that work is done it may use the plan.
  void note_queued() const {
    if (!was_queued_.load(std::memory_order_relaxed)) {
      was_queued_.store(true, std::memory_order_relaxed);
    }
  }

  void release_plugin_objects() override;
  bool holds_states() const override { return false; }

 private:
  friend class Dispatcher;
  Status query_packed(uint64_t inputs, std::span<const ArgType> types);
  /// Takes over the strides that the plan chose. Errors: UNSUPPORTED for what cannot be kept.
  Status take_out_strides(const int64_t* strides, const struct CallQuery& call);
  /// The end of the last owner: plan_free comes after the work that was queued.
  static void retire(PlannedKernel* kernel) noexcept;

  Device& device_;
  const OpId op_;
  const KernelRecord& record_;
  const Attributes attributes_;
  const void* const attribute_block_ = attributes_.data();
  bp_kernel_plan* plan_ = nullptr;
  uint64_t workspace_bytes_ = 0;
  bool can_fault_ = false;
  bool extents_ = false;
  std::vector<Dims> sure_sizes_;
  InputSet contiguous_inputs_;
  InputSet host_inputs_;
  std::vector<PackedInput> packed_inputs_;
  std::vector<Dims> out_strides_;
  mutable std::atomic<bool> was_queued_{false};

  std::mutex states_mutex_;
  std::vector<bp_kernel_state*> idle_states_;
  size_t state_count_ = 0;  // all ever made
  std::vector<std::pair<Stream*, bp_kernel_state*>> stream_states_;
};

enum class RouteKind {
  kView,
  kNative,
  kDecomposed,
  kFallback,
  kKnown,  // of a plan's nodes alone: worked out on the host while planning
};
std::string_view route_name(RouteKind kind);

/// An output, with what is worked out once instead of at each call.
struct OutputPlan {
  uint32_t dtype = BP_DTYPE_NONE;
  Dims sizes;
  Dims strides;  // contiguous
  uint64_t bytes = 0;
};

/// How one call runs on one device. Immutable, shared.
struct Route {
  RouteKind kind = RouteKind::kFallback;
  std::vector<TensorType> outputs;
  std::vector<OutputPlan> output_plans;  // kNative
  ViewResult view;                       // kView
  /// kView: the input's strides rule the alias out, so it is made contiguous first.
  bool view_of_contiguous = false;
  std::shared_ptr<PlannedKernel> kernel;  // kNative
  bool is_straight = false;               // kNative: the kernel takes the inputs as they are
  std::shared_ptr<const Graph> graph;     // kDecomposed
  std::string reason;                     // why it is not native
};

/// Calls body(input, value) for each of the operator's inputs that is there, with the value of its
/// decomposition that stands for it: an absent input has none (DecomposeFn), so places differ.
template <class Inputs, class IsThere, class Body>
void for_each_part_input(const Graph& parts, const Inputs& inputs, IsThere is_there, Body body) {
  size_t next = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (is_there(inputs[i])) body(inputs[i], parts.inputs()[next++]);
  }
}

class Dispatcher : public DeviceExtension {
 public:
  /// The dispatcher of a device; made at the first call.
  static Dispatcher& of(Device& device) {
    if (DeviceExtension* made = device.made_extension(DevicePart::kDispatch)) [[likely]]
      return static_cast<Dispatcher&>(*made);
    return make(device);
  }
  ~Dispatcher() override;

  /// The whole answer for a call. Cached unless it depends on host data. Errors: INVALID_ARGUMENT
  /// from inference; UNSUPPORTED with every reason if there is no way; the plugin's own. Any
  /// thread.
  Result<std::shared_ptr<const Route>> resolve(OpId op, std::span<const ArgType> inputs,
                                               const void* attributes, CallMode mode = {});

  /// The cached answer for a call whose inputs all lie on this device; nullptr: none is cached.
  /// Lives as long as `hazard` keeps it, and the device is open. Any thread; no lock, no heap.
  /// Defined in route_cache.hpp.
  const Route* find(OpId op, std::span<Tensor* const> inputs, const void* attributes,
                    bool deterministic, Hazard* hazard) const;

  /// A kernel of this device and its plan. Errors: UNSUPPORTED with the reason of each kernel that
  /// was refused. Any thread.
  Result<std::shared_ptr<PlannedKernel>> plan_kernel(OpId op, std::span<const ArgType> inputs,
                                                     std::span<const TensorType> outputs,
                                                     const void* attributes, CallMode mode = {});
  /// For whoever makes plans that no cache keeps: waits for the device where many of those that
  /// ended wait for work, so that they do not pile up. Any thread.
  void drain_deferred();

  /// Whether a kernel of this device takes such a call, as far as dtypes, ranks, attributes and
  /// what sizes may be tell. Any thread.
  bool has_kernel(OpId op, std::span<const TensorType> inputs, std::span<const TensorType> outputs,
                  const Attributes& attributes, CallMode mode, const DimRangeFn& range_of);

  /// Names of the kernels for an operator, in the order they are asked.
  std::vector<std::string> kernel_names(OpId op) const;
  size_t kernel_count() const { return kernels_.kernels.size(); }
  /// Calls whose route was not kept and was worked out. Any thread.
  uint64_t resolved_count() const { return resolved_count_.load(std::memory_order_relaxed); }
  /// All kernels of the device, and which of its descriptors were refused.
  const KernelList& kernels() const { return kernels_; }

 private:
  struct Candidate {
    const KernelRecord* record = nullptr;
    SizeRanges ranges;  // outside of them its plan is not asked
  };
  struct Selection {
    std::vector<Candidate> candidates;
    std::string reasons;  // of the refused ones
  };

  explicit Dispatcher(Device& device);
  static Dispatcher& make(Device& device);
  Result<Route> resolve_anew(OpId op, std::span<const ArgType> inputs, const Attributes& attributes,
                             CallMode mode, bool* out_cacheable);
  bool resolve_view(const OpSchema& schema, const InferContext& call, const Dims& x_strides,
                    Route* out) const;
  /// Appends to `refusal` what the decomposition lacks here.
  Status resolve_composite(OpId op, const InferContext& context, std::string* refusal,
                           bool deterministic, Route* out);
  /// The nodes that would run elsewhere, with the reasons; empty: none.
  std::string refused_parts(const Graph& graph, bool deterministic);
  /// By value: what is kept may be dropped while the caller still asks the candidates.
  Selection select(const struct CallQuery& call);
  Result<std::shared_ptr<PlannedKernel>> make_plan(const KernelRecord& record,
                                                   const struct CallQuery& call);

  /// Those for an operator by its id; what cannot be used is told.
  void sort_kernels_by_op();
  static constexpr size_t kSelectionLimit = 4096;
  static constexpr size_t kMostDeferred = 256;

  Device& device_;
  const OpRegistry& registry_;
  KernelList kernels_;
  std::string list_failure_;  // why there are none; empty: they were listed
  std::vector<std::vector<const KernelRecord*>> kernels_by_op_;

  std::mutex mutex_;
  std::unordered_map<std::string, std::unique_ptr<const Selection>> selections_;
  const std::unique_ptr<RouteCache> routes_;
  std::atomic<size_t> drain_above_{kMostDeferred};
  std::atomic<uint64_t> resolved_count_{0};
};

}  // namespace bp

#endif
