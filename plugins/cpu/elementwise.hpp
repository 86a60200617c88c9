// SPDX-License-Identifier: Apache-2.0
//
// The driver of elementwise kernels. A kernel gives a function for one row; the driver finds the
// rows. Operands that are contiguous, or one element, need no nest at all: that is the way of tiny
// tensors, and it touches nothing but the tensors' sizes.
#ifndef BACKPLANE_PLUGINS_CPU_ELEMENTWISE_HPP
#define BACKPLANE_PLUGINS_CPU_ELEMENTWISE_HPP

#include "backplane/device_api.h"

namespace bp::cpu {

/// One row: y is contiguous; strides in elements, 0 repeats.
using UnaryRow = void (*)(void* y, const void* x, int64_t x_stride, int64_t count);
using BinaryRow = void (*)(void* y, const void* a, int64_t a_stride, const void* b,
                           int64_t b_stride, int64_t count);

/// item_cost: of one element, see parallel.hpp.
bp_status run_unary(const bp_launch_args& args, UnaryRow row, int64_t item_cost);
bp_status run_binary(const bp_launch_args& args, BinaryRow row, int64_t item_cost);

}  // namespace bp::cpu

#endif
