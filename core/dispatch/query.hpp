// SPDX-License-Identifier: Apache-2.0
//
// Inside core/dispatch: one call as the kernels of a device are asked about it.
#ifndef BACKPLANE_CORE_DISPATCH_QUERY_HPP
#define BACKPLANE_CORE_DISPATCH_QUERY_HPP

#include <span>
#include <string>
#include <vector>

#include "core/dispatch/dispatcher.hpp"

namespace bp {

/// Of kernels that cannot, in one message: each is foreign, and they are kept.
inline constexpr size_t kMostReasons = 16;

struct CallQuery {
  const OpSchema& schema;
  OpId op;
  std::span<const ArgType> inputs;
  std::span<const TensorType> outputs;
  const Attributes& attributes;
  CallMode mode = {};
};

/// A bp_kernel_query with the arrays it points to. What is shown of sizes, strides and host data
/// follows kernel.depends_on; `depends_on` 0 shows ranks only.
class KernelQuery {
 public:
  KernelQuery(const KernelRecord& record, const CallQuery& call, uint32_t depends_on,
              const InputSet& contiguous);
  const bp_kernel_query* get() const { return &query_; }

 private:
  bp_kernel_query query_{};
  std::vector<bp_arg_info> args_;
  std::vector<Dims> dims_;  // sizes and strides of each argument, in turn
};

/// The rule for input `index` of a kernel.
bp_arg_rule arg_rule(const KernelRecord& record, size_t index);
inline constexpr uint32_t kHostArgBits = BP_ARG_HOST_AT_PLAN_BIT | BP_ARG_HOST_AT_LAUNCH_BIT;

/// Why the descriptor alone rules the kernel out; empty: it does not. Keyed without shapes.
std::string refuse_by_descriptor(const KernelRecord& record, const CallQuery& call);
/// The sizes of a call's arguments; the call must outlive this.
class CallSizes {
 public:
  explicit CallSizes(const CallQuery& call);
  operator ArgumentSizes() const { return sizes_; }

 private:
  std::vector<const Dims*> sizes_;
};
/// Why the kernel's own supports() rules it out; empty: it does not, for the sizes in out_ranges.
std::string refuse_by_kernel(Device& device, const KernelRecord& record, const CallQuery& call,
                             SizeRanges* out_ranges);
/// Whether BP_INFO_ANY_ORDER_BIT is shown for output `index`.
bool chooses_order(const KernelRecord& record, const CallQuery& call, size_t index);
/// Inputs whose strides or alignment the kernel does not take.
InputSet inputs_to_make_contiguous(const KernelRecord& record, const CallQuery& call);

}  // namespace bp

#endif
