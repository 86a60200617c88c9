// SPDX-License-Identifier: Apache-2.0
//
// Matrix product over batches that broadcast, of BP_DTYPE with sums in BP_ACC. Work items are
// counted in one dimension, since several devices limit the others to 65,535 groups.

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

// Of `count` terms.
static BP_ACC dot_product(BP_INPUT(a), long a_place, BP_INPUT(b), long b_place, ulong count,
                          const MatmulGeometry* geometry) {
  const ulong block = block_of(count);
  BP_ACC total = 0;
  for (ulong k = 0; k < count;) {
    const ulong end = min(k + block, count);
    BP_ACC sum = 0;
    for (; k < end; ++k) {
      sum = BP_MULTIPLY_ADD((BP_ACC)BP_LOAD(BP_DTYPE, a, a_place),
                            (BP_ACC)BP_LOAD(BP_DTYPE, b, b_place), sum);
      a_place += geometry->a_depth_stride;
      b_place += geometry->b_depth_stride;
    }
    total += sum;
  }
  return total;
}

// Where the row and the column of an element of y begin in a and in b.
static long2 locate_element(ulong item, const MatmulGeometry* geometry) {
  const ulong column = item % geometry->column_count;
  const ulong row = item / geometry->column_count % geometry->row_count;
  const long2 batch = locate_batch(item / geometry->column_count / geometry->row_count, geometry);
  return batch +
         (long2)((long)row * geometry->a_row_stride, (long)column * geometry->b_column_stride);
}

// One element per work item; any strides.
__kernel void matmul_strided(BP_INPUT(a), BP_INPUT(b), BP_OUTPUT(y), MatmulGeometry geometry) {
  const ulong item = get_global_id(0);
  if (item >= geometry.item_count) return;
  const long2 begin = locate_element(item, &geometry);
  const BP_ACC sum =
      dot_product(a, a_offset, begin.x, b, b_offset, begin.y, geometry.depth, &geometry);
  BP_STORE(BP_DTYPE, y, (long)item, (BP_VALUE(BP_DTYPE))sum);
}

// One element per group, whose parts are runs of the terms; any strides.
__kernel void matmul_deep(BP_INPUT(a), BP_INPUT(b), BP_OUTPUT(y), MatmulGeometry geometry) {
  __local BP_ACC parts[BP_XPU_PARTS];
  const ulong item = get_group_id(0);
  const long2 begin = locate_element(item, &geometry);
  const ulong run = (geometry.depth + BP_XPU_PARTS - 1) / BP_XPU_PARTS;
  BP_FOR_EACH_PART(part, BP_XPU_PARTS) {
    const ulong first = min(part * run, geometry.depth);
    parts[part] = dot_product(a, a_offset, begin.x + (long)first * geometry.a_depth_stride, b,
                              b_offset, begin.y + (long)first * geometry.b_depth_stride,
                              min(run, geometry.depth - first), &geometry);
  }
  const BP_ACC sum = group_sum(parts);
  if (get_local_id(0) == 0) BP_STORE(BP_DTYPE, y, (long)item, (BP_VALUE(BP_DTYPE))sum);
}

static inline void store_row(BP_OUTPUT(y), long place, BP_ACC8 sums) {
  BP_ACC values[8];
  vstore8(sums, 0, values);
  for (int i = 0; i < 8; ++i) BP_STORE(BP_DTYPE, y, place + i, (BP_VALUE(BP_DTYPE))values[i]);
}

// A block of BP_XPU_BLOCK_ROWS x BP_XPU_BLOCK_COLUMNS elements per work item, for a b whose rows
// are dense: what is read of b serves all the rows. Neighbouring work items have the same columns,
// so that b stays in the cache. The last columns go one by one.
__kernel void matmul_block(BP_INPUT(a), BP_INPUT(b), BP_OUTPUT(y), MatmulGeometry geometry) {
  const ulong item = get_global_id(0);
  if (item >= geometry.item_count) return;
  const ulong columns = geometry.column_count;
  const ulong rows = geometry.row_count;
  const ulong across = (columns + BP_XPU_BLOCK_COLUMNS - 1) / BP_XPU_BLOCK_COLUMNS;
  const ulong down = (rows + BP_XPU_BLOCK_ROWS - 1) / BP_XPU_BLOCK_ROWS;
  const ulong row = item % down * BP_XPU_BLOCK_ROWS;
  const ulong column = item / down % across * BP_XPU_BLOCK_COLUMNS;
  const ulong batch = item / across / down;
  const long2 begin = locate_batch(batch, &geometry);
  long b_row = begin.y + (long)column;
  const long y_block = (long)((batch * rows + row) * columns + column);
  const ulong row_end = min(row + BP_XPU_BLOCK_ROWS, rows);

  if (column + BP_XPU_BLOCK_COLUMNS > columns) {
    for (ulong i = row; i < row_end; ++i) {
      for (ulong j = 0; j < columns - column; ++j) {
        const BP_ACC sum = dot_product(a, a_offset, begin.x + (long)i * geometry.a_row_stride, b,
                                       b_offset, b_row + (long)j, geometry.depth, &geometry);
        BP_STORE(BP_DTYPE, y, y_block + (long)((i - row) * columns + j), (BP_VALUE(BP_DTYPE))sum);
      }
    }
    return;
  }
  // Rows past the end repeat the last one, which keeps branches out of the loop.
  long a_rows[BP_XPU_BLOCK_ROWS];
  BP_ACC8 left_totals[BP_XPU_BLOCK_ROWS];
  BP_ACC8 right_totals[BP_XPU_BLOCK_ROWS];
  for (uint i = 0; i < BP_XPU_BLOCK_ROWS; ++i) {
    a_rows[i] = begin.x + (long)min(row + i, rows - 1) * geometry.a_row_stride;
    left_totals[i] = right_totals[i] = 0;
  }
  const ulong block = block_of(geometry.depth);
  for (ulong k = 0; k < geometry.depth;) {
    const ulong end = min(k + block, geometry.depth);
    BP_ACC8 left[BP_XPU_BLOCK_ROWS] = {0};
    BP_ACC8 right[BP_XPU_BLOCK_ROWS] = {0};
    for (; k < end; ++k) {
      const BP_ACC8 b_left = BP_LOAD8(BP_DTYPE, b, b_row);
      const BP_ACC8 b_right = BP_LOAD8(BP_DTYPE, b, b_row + 8);
      b_row += geometry.b_depth_stride;
      for (uint i = 0; i < BP_XPU_BLOCK_ROWS; ++i) {
        const BP_ACC8 value =
            (BP_ACC8)(BP_LOAD(BP_DTYPE, a, a_rows[i] + (long)k * geometry.a_depth_stride));
        left[i] = BP_MULTIPLY_ADD(value, b_left, left[i]);
        right[i] = BP_MULTIPLY_ADD(value, b_right, right[i]);
      }
    }
    for (uint i = 0; i < BP_XPU_BLOCK_ROWS; ++i) {
      left_totals[i] += left[i];
      right_totals[i] += right[i];
    }
  }
  for (uint i = 0; i < row_end - row; ++i) {
    const long to = y_block + (long)(i * columns);
    store_row(y, y_offset, to, left_totals[i]);
    store_row(y, y_offset, to + 8, right_totals[i]);
  }
}

// One tile of a product per group; any strides.
__kernel __attribute__((reqd_work_group_size(BP_XPU_TILE_ITEMS, 1, 1))) void matmul_tile(
    BP_INPUT(a), BP_INPUT(b), BP_OUTPUT(y), MatmulGeometry geometry) {
  __local BP_ACC a_tile[BP_XPU_TILE_DEPTH][BP_XPU_TILE];
  __local BP_ACC b_tile[BP_XPU_TILE_DEPTH][BP_XPU_TILE];
  const ulong across = (geometry.column_count + BP_XPU_TILE - 1) / BP_XPU_TILE;
  const ulong down = (geometry.row_count + BP_XPU_TILE - 1) / BP_XPU_TILE;
  const ulong tile = get_group_id(0);
  const ulong first_column = tile % across * BP_XPU_TILE;
  const ulong first_row = tile / across % down * BP_XPU_TILE;
  const ulong batch = tile / across / down;
  const long2 begin = locate_batch(batch, &geometry);
  const uint item = (uint)get_local_id(0);
  const uint own_row = item / BP_XPU_TILE_SIDE;
  const uint own_column = item % BP_XPU_TILE_SIDE;
  BP_ACC totals[BP_XPU_TILE_SHARE][BP_XPU_TILE_SHARE] = {{0}};
  BP_ACC sums[BP_XPU_TILE_SHARE][BP_XPU_TILE_SHARE] = {{0}};
  const ulong block = block_of(geometry.depth);
  for (ulong k = 0; k < geometry.depth; k += BP_XPU_TILE_DEPTH) {
    for (uint e = item; e < BP_XPU_TILE * BP_XPU_TILE_DEPTH; e += BP_XPU_TILE_ITEMS) {
      const uint a_step = e % BP_XPU_TILE_DEPTH;
      const ulong row = first_row + e / BP_XPU_TILE_DEPTH;
      const bool has_a = row < geometry.row_count && k + a_step < geometry.depth;
      a_tile[a_step][e / BP_XPU_TILE_DEPTH] =
          has_a ? (BP_ACC)BP_LOAD(BP_DTYPE, a,
                                  begin.x + (long)row * geometry.a_row_stride +
                                      (long)(k + a_step) * geometry.a_depth_stride)
                : 0;
      const uint b_step = e / BP_XPU_TILE;
      const ulong column = first_column + e % BP_XPU_TILE;
      const bool has_b = column < geometry.column_count && k + b_step < geometry.depth;
      b_tile[b_step][e % BP_XPU_TILE] =
          has_b ? (BP_ACC)BP_LOAD(BP_DTYPE, b,
                                  begin.y + (long)column * geometry.b_column_stride +
                                      (long)(k + b_step) * geometry.b_depth_stride)
                : 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    BP_ADD_TILE(sums, a_tile, b_tile)
    if ((k + BP_XPU_TILE_DEPTH) % block == 0) {
      for (uint i = 0; i < BP_XPU_TILE_SHARE; ++i) {
        for (uint j = 0; j < BP_XPU_TILE_SHARE; ++j) {
          totals[i][j] += sums[i][j];
          sums[i][j] = 0;
        }
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  for (uint i = 0; i < BP_XPU_TILE_SHARE; ++i) {
    const ulong row = first_row + own_row + i * BP_XPU_TILE_SIDE;
    for (uint j = 0; j < BP_XPU_TILE_SHARE; ++j) {
      const ulong column = first_column + own_column + j * BP_XPU_TILE_SIDE;
      if (row >= geometry.row_count || column >= geometry.column_count) continue;
      BP_STORE(BP_DTYPE, y,
               (long)((batch * geometry.row_count + row) * geometry.column_count + column),
               (BP_VALUE(BP_DTYPE))(totals[i][j] + sums[i][j]));
    }
  }
}
