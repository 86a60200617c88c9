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

// What one work item of matmul_block computes.
#define BP_XPU_BLOCK_ROWS 4
#define BP_XPU_BLOCK_COLUMNS 16

// Tiles of products in local memory: sums along a side, steps, work items along a side and in all,
// sums of each along a side.
#define BP_XPU_TILE 32
#define BP_XPU_TILE_DEPTH 8
#define BP_XPU_TILE_SIDE 8
#define BP_XPU_TILE_ITEMS 64
#define BP_XPU_TILE_SHARE 4

// Output channels of a strip of a convolution.
#define BP_XPU_STRIP_CHANNELS 4

// Partial results of a group that sums a lane up, and its work items.
#define BP_XPU_PARTS 64

// Work items of a group that sorts, digits of a key and their values.
#define BP_XPU_SORT_GROUP 128
#define BP_XPU_DIGIT_BITS 8
#define BP_XPU_DIGIT_VALUES 256

// Elements of a block that is sorted by counting ranks, and those that a work item merges: no more
// than two blocks.
#define BP_XPU_SORTED_BLOCK 32
#define BP_XPU_MERGED 32

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

// Rows of indices, each a point in some dimensions of x; tensor 0 is x without them, tensor 1 the
// indices, both along the dimensions of y.
typedef struct GatherNdGeometry {
  Nest2 rows;
  BP_XPU_U64 point_size;
  BP_XPU_I64 point_stride;
  BP_XPU_I64 extents[BP_XPU_MAX_RANK];
  BP_XPU_I64 strides[BP_XPU_MAX_RANK];
} GatherNdGeometry;

// How updates change an element of the target.
#define BP_XPU_SCATTER_NONE 0
#define BP_XPU_SCATTER_ADD 1
#define BP_XPU_SCATTER_MUL 2
#define BP_XPU_SCATTER_MAX 3
#define BP_XPU_SCATTER_MIN 4

// Lanes of indices and updates (tensor 0) along an axis of the target (tensor 1, without the axis).
// Each lane is gone through by `part_count` work items, which share the positions out.
typedef struct ScatterElementsGeometry {
  Nest2 lanes;
  BP_XPU_U64 part_count;
  BP_XPU_U64 length;
  BP_XPU_I64 step;  // of indices and updates
  BP_XPU_I64 extent;
  BP_XPU_I64 target_step;
} ScatterElementsGeometry;

// Rows of indices, each a point in the first dimensions of the target, and slices of updates. Each
// column of the slices is gone through by `part_count` work items, which share the slices out.
typedef struct ScatterNdGeometry {
  BP_XPU_U64 row_count;
  BP_XPU_U64 point_size;
  BP_XPU_U64 slice_size;
  BP_XPU_U64 part_count;
  BP_XPU_I64 extents[BP_XPU_MAX_RANK];
  BP_XPU_I64 strides[BP_XPU_MAX_RANK];  // of the target, in slices
} ScatterNdGeometry;

// A part of y: tensor 0 is x, tensor 1 is y, which it begins in at `start`.
typedef struct PartGeometry {
  Nest2 nest;
  BP_XPU_I64 start;
} PartGeometry;

// Lanes along an axis: x is tensor 0, y tensor 1, without the axis, in which they begin at `start`
// and go on by `step`.
typedef struct LanesGeometry {
  Nest2 lanes;
  BP_XPU_U64 length;
  BP_XPU_I64 x_start;
  BP_XPU_I64 x_step;
  BP_XPU_I64 y_start;
  BP_XPU_I64 y_step;
} LanesGeometry;

// Rows of `length` neighbouring elements of x; scale (tensor 0) and bias (tensor 1) seen as x.
typedef struct NormGeometry {
  BP_XPU_U64 length;
  BP_XPU_U64 epsilon_bits;  // of an f64
  float epsilon;
  float reserved;
  Nest2 parameters;
} NormGeometry;

// y = (x - mean) / sqrt(variance + epsilon) * scale + bias, each with a value per channel.
typedef struct BatchNormGeometry {
  Nest1 x;
  BP_XPU_U64 channels;
  BP_XPU_U64 inner;  // elements of a channel
  BP_XPU_U64 epsilon_bits;
  float epsilon;
  float reserved;
  BP_XPU_I64 strides[4];  // of scale, bias, mean and variance
} BatchNormGeometry;

// The k best of each lane of x, whose elements lie `step` apart; those of y and of indices lie
// `inner` apart. Before the last step they are entries of the workspace, k for each lane, in sorted
// runs of `run`.
typedef struct TopKGeometry {
  BP_XPU_U64 item_count;
  Nest1 lanes;
  BP_XPU_U64 length;
  BP_XPU_U64 k;
  BP_XPU_U64 inner;
  BP_XPU_I64 step;
  BP_XPU_U64 run;
  BP_XPU_U64 is_last;
} TopKGeometry;

// Each dimension of y has a table of the elements of x that its outputs mix: `taps` of them for
// each output, as i32 positions (-1: the output is `extrapolation`) and weights in the
// accumulator's type, at these bytes. A dimension of 0 taps is copied.
typedef struct ResizeGeometry {
  BP_XPU_U64 item_count;
  BP_XPU_U64 rank;
  BP_XPU_U64 sizes[BP_XPU_MAX_RANK];
  BP_XPU_I64 x_strides[BP_XPU_MAX_RANK];
  BP_XPU_U64 taps[BP_XPU_MAX_RANK];
  BP_XPU_U64 position_bytes[BP_XPU_MAX_RANK];
  BP_XPU_U64 weight_bytes[BP_XPU_MAX_RANK];
  BP_XPU_U64 extrapolation_bits;  // of an f64
  float extrapolation;
  float reserved;
} ResizeGeometry;

// The slices of x along `axis` whose condition is true, of the `told` first ones. y_sizes has room
// for all of them.
typedef struct CompressGeometry {
  BP_XPU_U64 item_count;
  BP_XPU_U64 told;
  BP_XPU_I64 condition_stride;
  BP_XPU_U64 axis;
  BP_XPU_U64 inner;  // elements of y from one slice to the next
  BP_XPU_I64 axis_stride;
  BP_XPU_U64 y_rank;
  BP_XPU_I64 y_sizes[BP_XPU_MAX_RANK];
  BP_XPU_I64 x_strides[BP_XPU_MAX_RANK];  // 0 along the axis
} CompressGeometry;

// A window that slides over up to three dimensions; missing leading ones have size 1.
typedef struct Window {
  BP_XPU_I64 in[3];
  BP_XPU_I64 out[3];
  BP_XPU_I64 extent[3];  // of the window itself
  BP_XPU_I64 stride[3];
  BP_XPU_I64 dilation[3];
  BP_XPU_I64 pad_begin[3];
  BP_XPU_I64 pad_end[3];
} Window;

typedef struct PoolGeometry {
  BP_XPU_U64 item_count;
  Window window;
  BP_XPU_U64 channels;
  BP_XPU_I64 x_strides[5];  // images, channels, three dimensions
  BP_XPU_U64 counts_padding;
  BP_XPU_U64 first_dimension_fastest;  // of the indices
} PoolGeometry;

// y[image][channel][out] = sum over the channels of the group and the window of x * w, plus b.
typedef struct ConvGeometry {
  BP_XPU_U64 item_count;
  Window window;
  BP_XPU_U64 groups;
  BP_XPU_U64 group_in;  // channels
  BP_XPU_U64 group_out;
  BP_XPU_I64 x_strides[5];  // images, channels, three dimensions
  BP_XPU_I64 w_strides[5];
  BP_XPU_I64 b_stride;
} ConvGeometry;

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
