// SPDX-License-Identifier: Apache-2.0
//
// A max_pool as both of its kernels see it: planes and window, checked once, when a plan is made.
#ifndef BACKPLANE_PLUGINS_CPU_POOL_SHAPE_HPP
#define BACKPLANE_PLUGINS_CPU_POOL_SHAPE_HPP

#include "kernel_support.hpp"
#include "window.hpp"

namespace bp::cpu {

struct PoolShape {
  Window window;
  int64_t planes = 0;  // N * C
};

/// Throws Failure (INVALID_ARGUMENT) for ranks and attributes that contradict each other, Refusal
/// for more than three spatial dimensions.
PoolShape make_pool_shape(const bp_kernel_query& query);

}  // namespace bp::cpu

#endif
