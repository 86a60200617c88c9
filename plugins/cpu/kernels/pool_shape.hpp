// SPDX-License-Identifier: Apache-2.0
//
// A pooling operator as its kernels see it: planes and window, checked once, when a plan is made.
#ifndef BACKPLANE_PLUGINS_CPU_POOL_SHAPE_HPP
#define BACKPLANE_PLUGINS_CPU_POOL_SHAPE_HPP

#include <string_view>

#include "kernel_support.hpp"
#include "window.hpp"

namespace bp::cpu {

struct PoolShape {
  Window window;
  int64_t planes = 0;  // N * C
};

/// Elements of the window at this output position that an average counts, in one dimension.
int64_t counted(const Window& window, bool counts_padding, int dimension, int64_t out);

/// Throws Failure (INVALID_ARGUMENT) for ranks and attributes that contradict each other, Refusal
/// for more than three spatial dimensions.
PoolShape make_pool_shape(const bp_kernel_query& query, std::string_view op,
                          bp_i64_span kernel_shape, const WindowAttributes& attributes);

/// ... of any operator with the attributes of max_pool.
template <class Attrs>
PoolShape make_pool_shape(const bp_kernel_query& query, std::string_view op, const Attrs& attrs) {
  return make_pool_shape(query, op, attrs.kernel_shape,
                         {.strides = values_of(attrs.strides),
                          .pads = values_of(attrs.pads),
                          .dilations = values_of(attrs.dilations)});
}

}  // namespace bp::cpu

#endif
