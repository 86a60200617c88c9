// SPDX-License-Identifier: Apache-2.0
//
// What scatter_elements and scatter_nd share: what becomes of an element that an update meets. Both
// begin with a copy of x and bring the updates to it in row-major order of each element, so that
// results do not depend on threads.
#ifndef BACKPLANE_PLUGINS_CPU_SCATTER_HPP
#define BACKPLANE_PLUGINS_CPU_SCATTER_HPP

#include <cstdint>

#include "kernel_support.hpp"

namespace bp::cpu {

/// `target` is what the elements are kept in while updates arrive: y, or f32 for sums and products
/// of half types.
struct ScatterFunctions {
  /// Each of target[places[i]] meets updates[i * stride], in order of i.
  void (*to_places)(void* target, const int64_t* places, const void* updates, int64_t stride,
                    int64_t count) noexcept;
  /// Each of target[i] meets updates[i].
  void (*to_slice)(void* target, const void* updates, int64_t count) noexcept;
};

struct ScatterPlan : bp_kernel_plan {
  ScatterFunctions functions{};
  int64_t target_bytes = 0;  // of one element of the target
  bool widened = false;      // the target is f32, in the workspace
};

/// Fills what the reduction decides, and the workspace. Throws sdk::Failure for an unknown one.
void plan_scatter(const bp_kernel_query& query, bp_str reduction, ScatterPlan* plan,
                  bp_plan_info* info);

/// Makes the target from x, as wide as updates need it; nullptr where x has no elements.
void* begin_scatter(const bp_launch_args& args, const ScatterPlan& plan);
/// Makes y of the target.
void end_scatter(const bp_launch_args& args, const ScatterPlan& plan);

}  // namespace bp::cpu

#endif
