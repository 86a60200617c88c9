// SPDX-License-Identifier: Apache-2.0
//
// The numbers that a kernel needs besides its buffers. One file for both sides: plans fill these
// structs, and the OpenCL C sources begin with this text, so the two layouts cannot drift apart.
// They travel by value as one kernel argument, which every launch copies.
#ifndef BACKPLANE_PLUGINS_XPU_KERNELS_GEOMETRY_H
#define BACKPLANE_PLUGINS_XPU_KERNELS_GEOMETRY_H

#ifdef __OPENCL_VERSION__
#define BP_XPU_U64 ulong
#define BP_XPU_I64 long
#else
#include <stdint.h>
#define BP_XPU_U64 uint64_t
#define BP_XPU_I64 int64_t
#endif

#define BP_XPU_MAX_RANK 16

// What one work item of matmul_f32_block computes.
#define BP_XPU_BLOCK_ROWS 4
#define BP_XPU_BLOCK_COLUMNS 8

// The most work items of non_zero, which are one group.
#define BP_XPU_NON_ZERO_GROUP 256

// BP_FAULT_INDEX of the plugin ABI
#define BP_XPU_FAULT_INDEX 1u

// Dimensions that `n` tensors are stepped through together: strides in elements, of each tensor
// seen with these sizes. make_nest fills it, and merges what can be.
#define BP_XPU_NEST(n)                      \
  typedef struct Nest##n {                  \
    BP_XPU_U64 item_count;                  \
    BP_XPU_U64 rank;                        \
    BP_XPU_U64 sizes[BP_XPU_MAX_RANK];      \
    BP_XPU_I64 strides[n][BP_XPU_MAX_RANK]; \
  } Nest##n

BP_XPU_NEST(1);
BP_XPU_NEST(2);
BP_XPU_NEST(3);

// y[batch][row][column] = sum over k of a[batch][row][k] * b[batch][k][column]; y is contiguous.
typedef struct MatmulGeometry {
  BP_XPU_U64 item_count;
  BP_XPU_U64 row_count;
  BP_XPU_U64 column_count;
  BP_XPU_U64 depth;
  BP_XPU_I64 a_row_stride;
  BP_XPU_I64 a_depth_stride;
  BP_XPU_I64 b_depth_stride;
  BP_XPU_I64 b_column_stride;
  BP_XPU_U64 batch_rank;
  BP_XPU_U64 batch_sizes[BP_XPU_MAX_RANK];
  BP_XPU_I64 a_batch_strides[BP_XPU_MAX_RANK];
  BP_XPU_I64 b_batch_strides[BP_XPU_MAX_RANK];
} MatmulGeometry;

// Each element of y is one of x: strides along the dimensions of y, 0 where the other one rules.
typedef struct GatherGeometry {
  BP_XPU_U64 item_count;
  BP_XPU_I64 extent;  // of x along the axis
  BP_XPU_I64 axis_stride;
  BP_XPU_U64 rank;
  BP_XPU_U64 sizes[BP_XPU_MAX_RANK];
  BP_XPU_I64 x_strides[BP_XPU_MAX_RANK];
  BP_XPU_I64 index_strides[BP_XPU_MAX_RANK];
} GatherGeometry;

// y[dimension][n] = the place of the n-th element of x that has one of its value bits set.
typedef struct NonZeroGeometry {
  BP_XPU_U64 element_count;
  BP_XPU_U64 value_bits;
  BP_XPU_U64 row_stride;  // of y
  BP_XPU_U64 rank;
  BP_XPU_U64 sizes[BP_XPU_MAX_RANK];
  BP_XPU_I64 strides[BP_XPU_MAX_RANK];
} NonZeroGeometry;

#endif
