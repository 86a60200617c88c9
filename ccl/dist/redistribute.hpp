// SPDX-License-Identifier: Apache-2.0
//
// A tensor that lies one way on the ranks of a mesh comes to lie another way.
#ifndef BACKPLANE_CCL_DIST_REDISTRIBUTE_HPP
#define BACKPLANE_CCL_DIST_REDISTRIBUTE_HPP

#include <chrono>

#include "ccl/dist/mesh.hpp"
#include "ccl/dist/placement.hpp"
#include "core/runtime/tensor.hpp"

namespace bp::ccl {

struct RedistributeArgs {
  Ref<Tensor> tensor;  // this rank's part, on the mesh's device
  Dims sizes;          // of the whole
  Placements from;     // by axis
  Placements to;
  Stream* stream = nullptr;             // of copies; nullptr: the device's default stream
  std::chrono::nanoseconds timeout{0};  // of each operation; 0: the group's
  bool is_deterministic = false;
};

/// This rank's part as it lies afterwards: contiguous, in memory of its own; the tensor itself
/// where nothing changes. All ranks call it alike. Waits for the others; copies on this device may
/// still be in its stream's order. Errors: INVALID_ARGUMENT naming what is wrong; UNSUPPORTED for a
/// way that there is none; the group's failure; OUT_OF_MEMORY; the device's.
Result<Ref<Tensor>> redistribute(const Mesh& mesh, const RedistributeArgs& args);

}  // namespace bp::ccl

#endif
