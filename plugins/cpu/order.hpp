// SPDX-License-Identifier: Apache-2.0
//
// Orders of dimensions: tensors without gaps whose dimensions lie in memory in another order than
// row-major, above all images with their channels last. A kernel takes them by its rules and makes
// them where its plan may choose (BP_INFO_ANY_ORDER_BIT). Strides of dimensions of size 1 say
// nothing.
#ifndef BACKPLANE_PLUGINS_CPU_ORDER_HPP
#define BACKPLANE_PLUGINS_CPU_ORDER_HPP

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "kernel_support.hpp"

namespace bp::cpu {

using Strides = std::array<int64_t, BP_MAX_RANK>;

inline constexpr bp_arg_rule kContiguousRule{.struct_size = sizeof(bp_arg_rule),
                                             .flags = 0,
                                             .strides = BP_STRIDES_CONTIGUOUS,
                                             .alignment_bytes = 0};
inline constexpr bp_arg_rule kDenseRule{.struct_size = sizeof(bp_arg_rule),
                                        .flags = 0,
                                        .strides = BP_STRIDES_DENSE,
                                        .alignment_bytes = 0};
/// For KernelTraits::arg_rules: the first input in any order, the others row-major.
inline constexpr const bp_arg_rule* kFirstDense[] = {&kDenseRule, &kContiguousRule};

/// The strides of a tensor without gaps, with those of sides of 1 as an output may have them;
/// nullopt: it has gaps or overlaps.
std::optional<Strides> dense_strides(std::span<const int64_t> sizes,
                                     std::span<const int64_t> strides);

/// Whether the plan may choose the order of this output.
inline bool may_choose_order(const bp_arg_info& output) {
  return (output.flags & BP_INFO_ANY_ORDER_BIT) != 0;
}

inline std::span<const int64_t> strides_of(const bp_arg_info& info) {
  return {info.strides, info.rank};
}

bool is_row_major(const bp_arg_info& info);
/// Of [N, C, spatial...] that lies as [N, spatial..., C].
Strides channels_last_strides(std::span<const int64_t> sizes);
/// Whether the strides are these, and not row-major too.
bool is_channels_last(std::span<const int64_t> sizes, std::span<const int64_t> strides);

/// Of tensors of the same sizes.
inline bool lie_alike(const bp_tensor& a, const bp_tensor& b) {
  if (a.rank != b.rank) return false;
  for (uint32_t d = 0; d < a.rank; ++d) {
    if (a.sizes[d] != 1 && a.strides[d] != b.strides[d]) return false;
  }
  return true;
}

/// A plan whose output lies in an order that it chose.
struct OrderedPlan : bp_kernel_plan {
  Strides out_strides{};
};

/// Lays the output in the order of the first input of its shape that is not row-major, where it may
/// choose. For kernels that write their output by its strides.
void follow_inputs(const bp_kernel_query& query, OrderedPlan* plan, bp_plan_info* info);

/// Lays the output with its channels last where it may choose and an input lies so. For kernels
/// whose output has the rank of their inputs, and is written by its strides.
void follow_channels(const bp_kernel_query& query, OrderedPlan* plan, bp_plan_info* info);

}  // namespace bp::cpu

#endif
