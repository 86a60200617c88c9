// SPDX-License-Identifier: Apache-2.0
//
// One kernel, planned for one call: asked as the core asks, launched as the core launches.
#ifndef BACKPLANE_SDK_CONFORM_KERNELS_PLANNED_HPP
#define BACKPLANE_SDK_CONFORM_KERNELS_PLANNED_HPP

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/device/kernel_list.hpp"
#include "sdk/conform/context.hpp"
#include "sdk/conform/kernels/block.hpp"
#include "sdk/conform/kernels/call.hpp"

namespace bp::conform {

/// The rule for input `index` of a kernel.
bp_arg_rule arg_rule(const KernelRecord& record, size_t index);
inline bool wants_on_host(const bp_arg_rule& rule) {
  return (rule.flags & (BP_ARG_HOST_AT_PLAN_BIT | BP_ARG_HOST_AT_LAUNCH_BIT)) != 0;
}
/// Whether the kernel is shown that outputs may lie in any order.
bool chooses_order(const KernelRecord& record, const Call& call);
/// Whether outputs may lie by any strides.
inline bool writes_into_views(const KernelRecord& record) {
  return (record.kernel.flags & BP_KERNEL_STRIDED_OUTPUTS_BIT) != 0;
}
/// Whether the descriptor admits the operator, its version and these dtypes.
bool admits(const KernelRecord& record, const OpSchema& schema, const DtypeChoice& dtypes);

/// What a query shows beside the call.
struct Shown {
  bool any_order = false;           // the plan may choose the order of outputs
  std::set<size_t> constants{};     // inputs that the plan may want packed
  std::vector<Dims> out_strides{};  // of each output; empty: contiguous
};

class Planned {
 public:
  /// Asks supports and plan, and expects that these agree about the sizes. `strides`: of each
  /// input.
  Planned(Context& context, const KernelRecord& record, const Call& call,
          const std::vector<Dims>& strides, const Shown& shown = {});
  ~Planned();
  Planned(const Planned&) = delete;
  Planned& operator=(const Planned&) = delete;

  /// Why the kernel leaves the call to others; empty: it takes it.
  const std::string& refusal() const { return refusal_; }
  /// Of output `index`, in elements.
  const Dims& out_strides(size_t index) const { return out_strides_[index]; }
  /// Launches, waits, and expects that all went well and nothing was used of what lies
  /// round the workspace, the fault word and the extents: `border`.
  void run(const std::vector<bp_tensor>& tensors, Border border);
  /// After run(): launches again, with the same workspace, fault word and extents.
  void launch(const std::vector<bp_tensor>& tensors);
  /// Bit i: launches take input i packed.
  uint64_t packed_inputs() const { return info_.packed_inputs; }
  /// What prepack_query says, which is expected to be possible. `layout` lives until the next call.
  bp_prepack_info packed_form(uint32_t input) const;
  /// Packs a constant and expects that it went well.
  void pack(uint32_t input, const bp_tensor& constant, bp_mem packed, uint64_t bytes);
  /// After run(): nothing if the plan cannot fault.
  std::optional<bp_fault_word> fault() const;
  /// After run(): the sizes that the kernel told for output `index`.
  Dims real_sizes(size_t index, const Dims& bound) const;

  static constexpr uint64_t kOpSeq = 4711;

 private:
  /// "launch of relu_f32, relu of [2, 3] as f32"
  std::string words_of(std::string_view what) const;
  /// Whether it is as new as what the call uses.
  bool knows_the_call();
  bool ask_supports(const std::vector<Dims>& strides);
  bool ask_plan(const std::vector<Dims>& strides, const Shown& shown);
  /// Empty: the call's sizes lie in the ranges that supports told.
  std::string outside_its_ranges() const;
  /// Expects that the plan chose what it may.
  void take_out_strides(const Shown& shown);
  bp_launch_args launch_args(const std::vector<bp_tensor>& tensors) const;
  void require_room(std::string_view what, uint64_t bytes) const;
  void make_extras(size_t output_count, Border border);

  Context& context_;
  const KernelRecord& record_;
  const Call& call_;
  std::string refusal_;
  bp_support support_{};
  bp_plan_info info_{};
  std::vector<Dims> out_strides_;
  bp_kernel_plan* plan_ = nullptr;
  bp_kernel_state* state_ = nullptr;
  std::optional<Extra> workspace_;
  std::optional<Extra> fault_;
  std::optional<Extra> extents_;
};

}  // namespace bp::conform

#endif
