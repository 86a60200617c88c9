// SPDX-License-Identifier: Apache-2.0
//
// The driver of elementwise kernels. A kernel gives a function for one row; the driver finds the
// rows. Operands that lie as the output, or are one element, need no nest at all: that is the way
// of tiny tensors, and it touches nothing but the tensors' sizes.
#ifndef BACKPLANE_PLUGINS_CPU_ELEMENTWISE_HPP
#define BACKPLANE_PLUGINS_CPU_ELEMENTWISE_HPP

#include <cstddef>
#include <cstdint>
#include <memory>

#include "backplane/device_api.h"
#include "order.hpp"

namespace bp::cpu {

inline constexpr size_t kMaxMapInputs = 3;

struct MapRow;
using MapRowFunction = void (*)(const MapRow& row);

/// An operator that maps elements of its inputs to one of its output, in one dtype.
struct MapForm {
  MapRowFunction function;  // takes any strides
  const double* constants;  // the operator's own
  int64_t item_cost;        // of one element, see parallel.hpp
  // What run_by_dense() needs.
  MapRowFunction dense = nullptr;  // takes rows without gaps; f32 for half types
  uint32_t dtype = BP_DTYPE_NONE;  // of all operands that are not bools
  uint32_t bool_inputs = 0;        // bit i: input i is a bool
  bool gives_bool = false;
  bool past_cache = false;  // the output is stored so
};

/// One row of an operator that maps elements of its inputs to one of its output.
struct MapRow {
  void* y;  // contiguous
  const void* inputs[kMaxMapInputs];
  int64_t strides[kMaxMapInputs];  // of the inputs, in elements; 0 repeats
  int64_t count;
  const double* constants;  // the operator's own
  const MapForm* form;
};

/// InputCount: 1 to kMaxMapInputs.
template <size_t InputCount>
bp_status run_map(const bp_launch_args& args, const MapForm& form);

extern template bp_status run_map<1>(const bp_launch_args&, const MapForm&);
extern template bp_status run_map<2>(const bp_launch_args&, const MapForm&);
extern template bp_status run_map<3>(const bp_launch_args&, const MapForm&);

/// bp_kernel.plan of a kernel that runs run_map(): the output lies as the inputs do.
std::unique_ptr<OrderedPlan> plan_map(bp_device* device, const bp_kernel_query& query,
                                      bp_plan_info* info);

/// A MapForm's function that calls its `dense`, for parts of a row where that is needed: half types
/// are widened, strided inputs gathered and single elements repeated in buffers first. What is
/// stored past the caches others may read after finish_stream().
void run_by_dense(const MapRow& row);

}  // namespace bp::cpu

#endif
