// SPDX-License-Identifier: Apache-2.0
//
// relu and add. The _dense forms are for operands that lie as the output does: no index arithmetic,
// so compilers vectorise them.

// Not max(x, 0), which may turn NaN into 0.
static float relu(float x) { return x <= 0.0f ? 0.0f : x; }

__kernel void relu_f32_dense(BP_INPUT(a), BP_OUTPUT(y), Nest2 nest) {
  const ulong item = get_global_id(0);
  if (item >= nest.item_count) return;
  BP_WRITE(float, y)[item] = relu(BP_READ(float, a)[item]);
}

__kernel void relu_f32_strided(BP_INPUT(a), BP_OUTPUT(y), Nest2 nest) {
  const ulong item = get_global_id(0);
  if (item >= nest.item_count) return;
  BP_WRITE(float, y)[item] = relu(BP_READ(float, a)[BP_PLACE(nest, 0, item)]);
}

__kernel void add_f32_dense(BP_INPUT(a), BP_INPUT(b), BP_OUTPUT(y), Nest2 nest) {
  const ulong item = get_global_id(0);
  if (item >= nest.item_count) return;
  BP_WRITE(float, y)[item] = BP_READ(float, a)[item] + BP_READ(float, b)[item];
}

__kernel void add_f32_strided(BP_INPUT(a), BP_INPUT(b), BP_OUTPUT(y), Nest2 nest) {
  const ulong item = get_global_id(0);
  if (item >= nest.item_count) return;
  BP_WRITE(float, y)
  [item] = BP_READ(float, a)[BP_PLACE(nest, 0, item)] + BP_READ(float, b)[BP_PLACE(nest, 1, item)];
}
