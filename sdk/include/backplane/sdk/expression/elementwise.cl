// SPDX-License-Identifier: Apache-2.0
//
// The loops of emitted elementwise kernels in OpenCL C 1.2. A program is layout.h, words.h,
// memory.cl, what bp-exprgen wrote of one operator and dtype, and this text. That defines
// BP_KERNEL(form), a kernel's name; BP_INPUT_COUNT; and BP_ITEM(i, i0, i1, i2), which computes output
// i of the inputs' elements. Each buffer comes as its start and a byte offset, since a device may
// refuse sub-buffers that begin in the middle.

#if BP_INPUT_COUNT == 1
#define BP_INPUTS BP_INPUT(0)
#elif BP_INPUT_COUNT == 2
#define BP_INPUTS BP_INPUT(0), BP_INPUT(1)
#else
#define BP_INPUTS BP_INPUT(0), BP_INPUT(1), BP_INPUT(2)
#endif

// Operands that lie as the output does: no index arithmetic, so that compilers vectorise it.
__kernel void BP_KERNEL(dense)(BP_INPUTS, BP_OUTPUT, bp_expression_layout layout) {
  const ulong item = get_global_id(0);
  if (item >= layout.item_count) return;
  BP_ITEM(item, item, item, item);
}

__kernel void BP_KERNEL(strided)(BP_INPUTS, BP_OUTPUT, bp_expression_layout layout) {
  const ulong item = get_global_id(0);
  if (item >= layout.item_count) return;
  ulong rest = item;
  long places[BP_LAYOUT_MAX_INPUTS] = {0, 0, 0};
  for (ulong d = layout.rank; d > 0; --d) {
    const ulong size = layout.sizes[d - 1];
    const ulong index = d > 1 ? rest % size : rest;
    if (d > 1) rest /= size;
    for (uint i = 0; i < BP_INPUT_COUNT; ++i) places[i] += (long)index * layout.strides[i][d - 1];
  }
  BP_ITEM(item, places[0], places[1], places[2]);
}
