// SPDX-License-Identifier: Apache-2.0
//
// Plans of relu, add and identity: shapes are broadcast, then merged into as few dimensions as the
// strides allow, so that most tensors end up with one and the index arithmetic with them.
#include <string>

#include "device.hpp"
#include "kernels/kernel.hpp"

namespace bp::xpu {
namespace {

// Enough for a processor to vectorise and a GPU to hide latency; small tensors lose nothing.
constexpr uint32_t kGroupSize = 256;

/// Drops dimensions of size 1, and merges neighbours that all inputs step through as one.
void merge_dimensions(ElementwiseGeometry* geometry) {
  uint64_t kept = 0;
  for (uint64_t d = 0; d < geometry->rank; ++d) {
    if (geometry->sizes[d] == 1) continue;
    bool merges = kept > 0;
    for (const auto& strides : geometry->strides) {
      const auto size = static_cast<int64_t>(geometry->sizes[d]);
      merges = merges && strides[kept - 1] == strides[d] * size;
    }
    const uint64_t target = merges ? kept - 1 : kept;
    geometry->sizes[target] = geometry->sizes[d] * (merges ? geometry->sizes[target] : 1);
    for (auto& strides : geometry->strides) strides[target] = strides[d];
    kept = target + 1;
  }
  geometry->rank = kept;
}

/// An unused second operand has stride 0 everywhere and so never hinders merging.
ElementwiseGeometry make_geometry(const bp_kernel_query& query) {
  const bp_arg_info& output = argument(query, query.input_count);
  ElementwiseGeometry geometry{};
  geometry.rank = output.rank;
  geometry.item_count = 1;
  for (uint32_t d = 0; d < output.rank; ++d) {
    geometry.sizes[d] = static_cast<uint64_t>(output.sizes[d]);
    geometry.item_count *= geometry.sizes[d];
  }
  for (uint32_t i = 0; i < query.input_count; ++i) {
    broadcast_strides(argument(query, i), output.sizes, output.rank, geometry.strides[i]);
  }
  merge_dimensions(&geometry);
  return geometry;
}

bool is_dense(const ElementwiseGeometry& geometry, uint32_t input_count) {
  if (geometry.rank == 0) return true;
  bool dense = geometry.rank == 1;
  for (uint32_t i = 0; i < input_count; ++i) dense = dense && geometry.strides[i][0] == 1;
  return dense;
}

Plan plan_relu(const bp_kernel_query& query) {
  expect_inputs(query, 1);
  const ElementwiseGeometry geometry = make_geometry(query);
  return {ProgramId::kElementwise, is_dense(geometry, 1) ? "relu_f32_dense" : "relu_f32_strided",
          kGroupSize, geometry};
}

Plan plan_add(const bp_kernel_query& query) {
  expect_inputs(query, 2);
  const ElementwiseGeometry geometry = make_geometry(query);
  return {ProgramId::kElementwise, is_dense(geometry, 2) ? "add_f32_dense" : "add_f32_strided",
          kGroupSize, geometry};
}

const char* copy_function(uint64_t element_bytes, bool dense) {
  switch (element_bytes) {
    case 1:
      return dense ? "copy_1_dense" : "copy_1_strided";
    case 2:
      return dense ? "copy_2_dense" : "copy_2_strided";
    case 4:
      return dense ? "copy_4_dense" : "copy_4_strided";
    default:
      return dense ? "copy_8_dense" : "copy_8_strided";
  }
}

Plan plan_identity(const bp_kernel_query& query) {
  expect_inputs(query, 1);
  const ElementwiseGeometry geometry = make_geometry(query);
  const uint64_t element_bytes = sdk::dtype_bytes(argument(query, 0).dtype);
  if (element_bytes == 0 || element_bytes > 8) {
    throw sdk::Failure{BP_INVALID_ARGUMENT,
                       "plan: identity of dtype code " + std::to_string(argument(query, 0).dtype)};
  }
  return {ProgramId::kElementwise, copy_function(element_bytes, is_dense(geometry, 1)), kGroupSize,
          geometry};
}

constexpr uint64_t kF32[] = {sdk::dtypes({BP_DTYPE_F32})};
constexpr uint64_t kCopyDtypes[] = {kUpTo8Bytes};

constexpr bp_kernel kKernels[] = {
    describe<plan_relu>("relu_f32", "relu", kF32), describe<plan_add>("add_f32", "add", kF32),
    describe<plan_identity>("identity_copy", "identity", kCopyDtypes)};

}  // namespace

BP_SDK_KERNELS(elementwise, kKernels);

}  // namespace bp::xpu
