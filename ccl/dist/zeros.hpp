// SPDX-License-Identifier: Apache-2.0
//
// Zeros into tensors: padding, and gradients of parameters that were not used.
#ifndef BACKPLANE_CCL_DIST_ZEROS_HPP
#define BACKPLANE_CCL_DIST_ZEROS_HPP

#include "core/runtime/tensor.hpp"

namespace bp::ccl {

/// Into all of a contiguous tensor with elements of whole bytes, in the order of `stream`.
Status write_zeros(const Tensor& target, Stream& stream);

}  // namespace bp::ccl

#endif
