/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the operands of an emitted kernel lie: filled by a plan or a launch (expression.h), read by
 * the loops in C and in OpenCL C. One text for both, so that the two layouts cannot differ; it
 * travels by value. Strides are in elements; the output is contiguous.
 */
#ifndef BACKPLANE_SDK_EXPRESSION_LAYOUT_H
#define BACKPLANE_SDK_EXPRESSION_LAYOUT_H

#ifdef __OPENCL_VERSION__
#define BP_LAYOUT_U64 ulong
#define BP_LAYOUT_I64 long
#else
#include <stdint.h>
#define BP_LAYOUT_U64 uint64_t
#define BP_LAYOUT_I64 int64_t
#endif

#define BP_LAYOUT_MAX_RANK 16
#define BP_LAYOUT_MAX_INPUTS 3
#define BP_LAYOUT_MAX_CONSTANTS 4

/* Elementwise: the output's dimensions, merged where all inputs step through two as through one,
 * and each input's strides along them; 0 repeats. */
typedef struct bp_expression_layout {
  BP_LAYOUT_U64 item_count;
  BP_LAYOUT_U64 rank;
  BP_LAYOUT_U64 sizes[BP_LAYOUT_MAX_RANK];
  BP_LAYOUT_I64 strides[BP_LAYOUT_MAX_INPUTS][BP_LAYOUT_MAX_RANK];
  BP_LAYOUT_U64 constants[BP_LAYOUT_MAX_CONSTANTS]; /* the bits of each numeric attribute */
} bp_expression_layout;

/* A reduction: kept_rank dimensions of x that stay, then reduced_rank that go, kept_rank +
 * reduced_rank <= BP_LAYOUT_MAX_RANK. */
typedef struct bp_reduction_layout {
  BP_LAYOUT_U64 output_count;
  BP_LAYOUT_U64 reduced_count; /* elements in each output */
  BP_LAYOUT_U64 kept_rank;
  BP_LAYOUT_U64 reduced_rank;
  BP_LAYOUT_U64 sizes[BP_LAYOUT_MAX_RANK];
  BP_LAYOUT_I64 strides[BP_LAYOUT_MAX_RANK]; /* of x */
} bp_reduction_layout;

#endif
