// SPDX-License-Identifier: Apache-2.0
//
// The driver of elementwise kernels. A kernel gives a function for one row; the driver finds the
// rows. Operands that are contiguous, or one element, need no nest at all: that is the way of tiny
// tensors, and it touches nothing but the tensors' sizes.
#ifndef BACKPLANE_PLUGINS_CPU_ELEMENTWISE_HPP
#define BACKPLANE_PLUGINS_CPU_ELEMENTWISE_HPP

#include <cstddef>
#include <cstdint>

#include "backplane/device_api.h"

namespace bp::cpu {

inline constexpr size_t kMaxMapInputs = 3;

/// One row of an operator that maps elements of its inputs to one of its output.
struct MapRow {
  void* y;  // contiguous
  const void* inputs[kMaxMapInputs];
  int64_t strides[kMaxMapInputs];  // of the inputs, in elements; 0 repeats
  int64_t count;
  const double* constants;  // the operator's own
};
using MapRowFunction = void (*)(const MapRow& row);

/// InputCount: 1 to kMaxMapInputs. item_cost: of one element, see parallel.hpp.
template <size_t InputCount>
bp_status run_map(const bp_launch_args& args, MapRowFunction function, const double* constants,
                  int64_t item_cost);

extern template bp_status run_map<1>(const bp_launch_args&, MapRowFunction, const double*, int64_t);
extern template bp_status run_map<2>(const bp_launch_args&, MapRowFunction, const double*, int64_t);
extern template bp_status run_map<3>(const bp_launch_args&, MapRowFunction, const double*, int64_t);

}  // namespace bp::cpu

#endif
