// SPDX-License-Identifier: Apache-2.0
//
// Copies of elements of BP_ELEMENT, an unsigned type of their size. The _dense form has no index
// arithmetic, so compilers vectorise it.

__kernel void copy_dense(BP_INPUT(x), BP_OUTPUT(y), Nest1 nest) {
  const ulong item = get_global_id(0);
  if (item >= nest.item_count) return;
  BP_WRITE(BP_ELEMENT, y)[item] = BP_READ(BP_ELEMENT, x)[item];
}

__kernel void copy_strided(BP_INPUT(x), BP_OUTPUT(y), Nest1 nest) {
  const ulong item = get_global_id(0);
  if (item >= nest.item_count) return;
  BP_WRITE(BP_ELEMENT, y)[item] = BP_READ(BP_ELEMENT, x)[BP_PLACE(nest, 0, item)];
}

// One input of a concatenation.
__kernel void copy_part(BP_INPUT(x), BP_OUTPUT(y), PartGeometry geometry) {
  const ulong item = get_global_id(0);
  if (item >= geometry.nest.item_count) return;
  BP_WRITE(BP_ELEMENT, y)
  [geometry.start + BP_PLACE(geometry.nest, 1, item)] =
      BP_READ(BP_ELEMENT, x)[BP_PLACE(geometry.nest, 0, item)];
}
