// SPDX-License-Identifier: Apache-2.0
//
// f32 matrix product with f32 accumulators, over batches that broadcast. Work items are counted in
// one dimension, since several devices limit the others to 65,535 groups.
// Multiply and add rounds once where the device does that fast, else twice; never as it happens.
#ifdef FP_FAST_FMAF
#define BP_MULTIPLY_ADD(a, b, c) fma((a), (b), (c))
#else
#define BP_MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif

// Where batch `batch` begins in a and in b, in elements.
static long2 locate_batch(ulong batch, const MatmulGeometry* geometry) {
  long2 place = (long2)(0, 0);
  for (ulong d = geometry->batch_rank; d > 0; --d) {
    const ulong size = geometry->batch_sizes[d - 1];
    const long index = (long)(batch % size);
    batch /= size;
    place.x += index * geometry->a_batch_strides[d - 1];
    place.y += index * geometry->b_batch_strides[d - 1];
  }
  return place;
}

static float dot_product(__global const float* a, __global const float* b,
                         const MatmulGeometry* geometry) {
  float sum = 0.0f;
  for (ulong k = 0; k < geometry->depth; ++k) {
    sum = BP_MULTIPLY_ADD(*a, *b, sum);
    a += geometry->a_depth_stride;
    b += geometry->b_depth_stride;
  }
  return sum;
}

// One element per work item; any strides.
__kernel void matmul_f32_strided(BP_INPUT(a), BP_INPUT(b), BP_OUTPUT(y), MatmulGeometry geometry) {
  const ulong item = get_global_id(0);
  if (item >= geometry.item_count) return;
  const ulong column = item % geometry.column_count;
  const ulong row = item / geometry.column_count % geometry.row_count;
  const long2 batch = locate_batch(item / geometry.column_count / geometry.row_count, &geometry);
  __global const float* a_row =
      (__global const float*)(a + a_offset) + batch.x + (long)row * geometry.a_row_stride;
  __global const float* b_column =
      (__global const float*)(b + b_offset) + batch.y + (long)column * geometry.b_column_stride;
  ((__global float*)(y + y_offset))[item] = dot_product(a_row, b_column, &geometry);
}

// A block of BP_XPU_BLOCK_ROWS x BP_XPU_BLOCK_COLUMNS elements per work item, for a b whose rows
// are dense: each 8 values read from b serve four rows. The last columns go one by one.
__kernel void matmul_f32_block(BP_INPUT(a), BP_INPUT(b), BP_OUTPUT(y), MatmulGeometry geometry) {
  const ulong item = get_global_id(0);
  if (item >= geometry.item_count) return;
  const ulong columns = geometry.column_count;
  const ulong rows = geometry.row_count;
  const ulong across = (columns + BP_XPU_BLOCK_COLUMNS - 1) / BP_XPU_BLOCK_COLUMNS;
  const ulong down = (rows + BP_XPU_BLOCK_ROWS - 1) / BP_XPU_BLOCK_ROWS;
  const ulong column = item % across * BP_XPU_BLOCK_COLUMNS;
  const ulong row = item / across % down * BP_XPU_BLOCK_ROWS;
  const ulong batch = item / across / down;
  const long2 begin = locate_batch(batch, &geometry);
  __global const float* a_batch = (__global const float*)(a + a_offset) + begin.x;
  __global const float* b_block = (__global const float*)(b + b_offset) + begin.y + (long)column;
  __global float* y_batch = (__global float*)(y + y_offset) + batch * rows * columns;

  if (column + BP_XPU_BLOCK_COLUMNS > columns) {
    for (ulong i = row; i < min(row + BP_XPU_BLOCK_ROWS, rows); ++i) {
      for (ulong j = column; j < columns; ++j) {
        y_batch[i * columns + j] = dot_product(a_batch + (long)i * geometry.a_row_stride,
                                               b_block + (j - column), &geometry);
      }
    }
    return;
  }
  // Rows past the end repeat the last one, which keeps branches out of the loop.
  __global const float* a0 = a_batch + (long)row * geometry.a_row_stride;
  __global const float* a1 = a_batch + (long)min(row + 1, rows - 1) * geometry.a_row_stride;
  __global const float* a2 = a_batch + (long)min(row + 2, rows - 1) * geometry.a_row_stride;
  __global const float* a3 = a_batch + (long)min(row + 3, rows - 1) * geometry.a_row_stride;
  float8 sum0 = 0.0f, sum1 = 0.0f, sum2 = 0.0f, sum3 = 0.0f;
  for (ulong k = 0; k < geometry.depth; ++k) {
    const long step = (long)k * geometry.a_depth_stride;
    const float8 b_row = vload8(0, b_block + (long)k * geometry.b_depth_stride);
    sum0 = BP_MULTIPLY_ADD((float8)(a0[step]), b_row, sum0);
    sum1 = BP_MULTIPLY_ADD((float8)(a1[step]), b_row, sum1);
    sum2 = BP_MULTIPLY_ADD((float8)(a2[step]), b_row, sum2);
    sum3 = BP_MULTIPLY_ADD((float8)(a3[step]), b_row, sum3);
  }
  __global float* out = y_batch + row * columns + column;
  vstore8(sum0, 0, out);
  if (row + 1 < rows) vstore8(sum1, 0, out + columns);
  if (row + 2 < rows) vstore8(sum2, 0, out + 2 * columns);
  if (row + 3 < rows) vstore8(sum3, 0, out + 3 * columns);
}
