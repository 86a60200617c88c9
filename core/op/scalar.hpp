// SPDX-License-Identifier: Apache-2.0
//
// One number written as an element of any dtype. Decompositions need constants
// of the dtype that they meet.
#ifndef BACKPLANE_CORE_OP_SCALAR_HPP
#define BACKPLANE_CORE_OP_SCALAR_HPP

#include <cstdint>

#include "core/base/status.hpp"

namespace bp {

/// Writes one element to `out_element`. Float dtypes round to nearest even and overflow to
/// infinity; integers truncate and saturate, NaN gives 0; bool is value != 0; complex has no
/// imaginary part. Errors: UNSUPPORTED for 8-bit floats and dtypes below 8 bits.
Status write_scalar(uint32_t dtype, double value, void* out_element);

}  // namespace bp

#endif
