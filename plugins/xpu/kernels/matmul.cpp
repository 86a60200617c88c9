// SPDX-License-Identifier: Apache-2.0
//
// The plan of matmul: NumPy's rules for 1-D operands and broadcast batches, written as strides.
#include <string>

#include "device.hpp"
#include "kernels/dtypes.hpp"
#include "kernels/kernel.hpp"

namespace bp::xpu {
namespace {

// Small, since one item is much work and processors share out whole groups.
constexpr uint32_t kItemsPerGroup = 32;

// So many terms are worth a group for each element of y, where these are too few for the device.
constexpr uint64_t kDeep = 1024;
constexpr uint64_t kFewElements = 1024;

/// One operand as a stack of matrices: a 1-D one is a single row (a) or column (b).
struct Matrices {
  int64_t rows = 1;
  int64_t columns = 1;
  int64_t row_stride = 0;
  int64_t column_stride = 0;
  bp_arg_info batch;  // the dimensions before the last two
};

Matrices read_operand(const bp_kernel_query& query, uint32_t index) {
  const bp_arg_info& info = argument(query, index);
  if (info.rank == 0) {
    throw sdk::Failure{BP_INVALID_ARGUMENT,
                       "plan: matmul of argument " + std::to_string(index) + " with rank 0"};
  }
  Matrices matrices;
  matrices.batch = info;
  matrices.batch.rank = info.rank > 2 ? info.rank - 2 : 0;
  const uint32_t last = info.rank - 1;
  if (info.rank >= 2) {
    matrices.rows = info.sizes[last - 1];
    matrices.row_stride = info.strides[last - 1];
    matrices.columns = info.sizes[last];
    matrices.column_stride = info.strides[last];
  } else if (index == 0) {
    matrices.columns = info.sizes[0];
    matrices.column_stride = info.strides[0];
  } else {
    matrices.rows = info.sizes[0];
    matrices.row_stride = info.strides[0];
  }
  return matrices;
}

/// Throws sdk::Failure unless y has the batch dimensions and then the rows and columns that exist.
uint32_t batch_rank(const bp_kernel_query& query, const Matrices& a, const Matrices& b) {
  const bp_arg_info& y = argument(query, 2);
  const bool has_rows = argument(query, 0).rank >= 2;
  const bool has_columns = argument(query, 1).rank >= 2;
  const uint32_t matrix_rank = (has_rows ? 1u : 0u) + (has_columns ? 1u : 0u);
  const bool fits = y.rank >= matrix_rank && a.columns == b.rows &&
                    (!has_columns || y.sizes[y.rank - 1] == b.columns) &&
                    (!has_rows || y.sizes[y.rank - matrix_rank] == a.rows);
  if (!fits) {
    throw sdk::Failure{BP_INVALID_ARGUMENT,
                       "plan: matmul of " + std::to_string(a.rows) + "x" +
                           std::to_string(a.columns) + " and " + std::to_string(b.rows) + "x" +
                           std::to_string(b.columns) + " does not give the output's sizes"};
  }
  return y.rank - matrix_rank;
}

uint64_t blocks(uint64_t count, uint64_t size) { return (count + size - 1) / size; }

/// Tiles in local memory where that is faster than the rest of it, and for operands that lie
/// across; else blocks in registers. Few long sums are shared out among groups instead.
Step choose_step(const Device& device, const std::string& options, uint64_t batch_count,
                 MatmulGeometry* geometry) {
  const uint64_t rows = geometry->row_count;
  const uint64_t columns = geometry->column_count;
  const bool is_large = rows >= BP_XPU_TILE_SIDE && columns >= BP_XPU_TILE_SIDE;
  const bool can_block = geometry->b_column_stride == 1 && columns >= BP_XPU_BLOCK_COLUMNS;
  const bool prefers_groups = !can_block || device.info().has_fast_local_memory;
  const ProgramSource source = program_of("matmul.cl", options);
  const uint64_t elements = batch_count * rows * columns;
  if (prefers_groups && elements <= kFewElements && geometry->depth >= kDeep) {
    return Step(source, "matmul_deep", *geometry).groups(elements, BP_XPU_PARTS);
  }
  if (is_large && can_tile(device) && prefers_groups) {
    return Step(source, "matmul_tile", *geometry)
        .groups(batch_count * blocks(rows, BP_XPU_TILE) * blocks(columns, BP_XPU_TILE),
                BP_XPU_TILE_ITEMS);
  }
  const uint64_t block_rows = can_block ? BP_XPU_BLOCK_ROWS : 1;
  const uint64_t block_columns = can_block ? BP_XPU_BLOCK_COLUMNS : 1;
  geometry->item_count = batch_count * blocks(rows, block_rows) * blocks(columns, block_columns);
  return Step(source, can_block ? "matmul_block" : "matmul_strided", *geometry)
      .items(geometry->item_count, kItemsPerGroup);
}

Plan plan_matmul(const Device& device, const bp_kernel_query& query) {
  expect_inputs(query, 2);
  const Matrices a = read_operand(query, 0);
  const Matrices b = read_operand(query, 1);
  const bp_arg_info& y = argument(query, 2);

  MatmulGeometry geometry{};
  geometry.row_count = static_cast<uint64_t>(a.rows);
  geometry.column_count = static_cast<uint64_t>(b.columns);
  geometry.depth = static_cast<uint64_t>(a.columns);
  geometry.a_row_stride = a.row_stride;
  geometry.a_depth_stride = a.column_stride;
  geometry.b_depth_stride = b.row_stride;
  geometry.b_column_stride = b.column_stride;
  const uint32_t rank = batch_rank(query, a, b);
  geometry.batch_rank = rank;
  broadcast_strides(a.batch, y.sizes, rank, geometry.a_batch_strides);
  broadcast_strides(b.batch, y.sizes, rank, geometry.b_batch_strides);
  uint64_t batch_count = 1;
  for (uint32_t d = 0; d < rank; ++d) {
    geometry.batch_sizes[d] = static_cast<uint64_t>(y.sizes[d]);
    batch_count *= geometry.batch_sizes[d];
  }

  return {.steps = {choose_step(device, accumulate(y.dtype), batch_count, &geometry)}};
}

constexpr uint64_t kDtypes[] = {kNumbers};

constexpr bp_kernel kKernels[] = {describe<plan_matmul>("matmul_number", "matmul", kDtypes)};

}  // namespace

BP_SDK_KERNELS(matmul, kKernels);

}  // namespace bp::xpu
