// SPDX-License-Identifier: Apache-2.0
//
// Copies of elements between strided tensors, by the size of the elements.
#ifndef BACKPLANE_PLUGINS_CPU_COPY_ROWS_HPP
#define BACKPLANE_PLUGINS_CPU_COPY_ROWS_HPP

#include <cstddef>
#include <cstdint>

#include "backplane/types.h"
#include "parallel.hpp"

namespace bp::cpu {

/// Copies x to y, of the same sizes or broadcast. element_bytes: 1, 2, 4, 8 or 16.
void copy_strided(Workers& workers, const bp_tensor& y, std::byte* y_data, const bp_tensor& x,
                  const std::byte* x_data, int64_t element_bytes);

}  // namespace bp::cpu

#endif
