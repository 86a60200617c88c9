// SPDX-License-Identifier: Apache-2.0
//
// relu, add and the strided copy. Each buffer comes as its start and a byte offset, since a device
// may refuse sub-buffers that begin in the middle. The _dense forms are for operands that lie as
// the output does: no index arithmetic, so compilers vectorise them.
#pragma OPENCL FP_CONTRACT OFF

#define BP_INPUT(name) __global const uchar *name, ulong name##_offset
#define BP_OUTPUT __global uchar *y, ulong y_offset
#define BP_READ(type, name) ((__global const type*)(name + name##_offset))
#define BP_WRITE(type) ((__global type*)(y + y_offset))

// Where item `item` of the output lies in both inputs, in elements.
static long2 locate(ulong item, const ElementwiseGeometry* geometry) {
  long2 place = (long2)(0, 0);
  for (ulong d = geometry->rank; d > 0; --d) {
    const ulong size = geometry->sizes[d - 1];
    const long index = (long)(item % size);
    item /= size;
    place.x += index * geometry->strides[0][d - 1];
    place.y += index * geometry->strides[1][d - 1];
  }
  return place;
}

// Not max(x, 0), which may turn NaN into 0.
static float relu(float x) { return x <= 0.0f ? 0.0f : x; }

__kernel void relu_f32_dense(BP_INPUT(a), BP_OUTPUT, ElementwiseGeometry geometry) {
  const ulong item = get_global_id(0);
  if (item >= geometry.item_count) return;
  BP_WRITE(float)[item] = relu(BP_READ(float, a)[item]);
}

__kernel void relu_f32_strided(BP_INPUT(a), BP_OUTPUT, ElementwiseGeometry geometry) {
  const ulong item = get_global_id(0);
  if (item >= geometry.item_count) return;
  BP_WRITE(float)[item] = relu(BP_READ(float, a)[locate(item, &geometry).x]);
}

__kernel void add_f32_dense(BP_INPUT(a), BP_INPUT(b), BP_OUTPUT, ElementwiseGeometry geometry) {
  const ulong item = get_global_id(0);
  if (item >= geometry.item_count) return;
  BP_WRITE(float)[item] = BP_READ(float, a)[item] + BP_READ(float, b)[item];
}

__kernel void add_f32_strided(BP_INPUT(a), BP_INPUT(b), BP_OUTPUT, ElementwiseGeometry geometry) {
  const ulong item = get_global_id(0);
  if (item >= geometry.item_count) return;
  const long2 place = locate(item, &geometry);
  BP_WRITE(float)[item] = BP_READ(float, a)[place.x] + BP_READ(float, b)[place.y];
}

#define BP_COPY(name, type)                                                            \
  __kernel void name##_dense(BP_INPUT(a), BP_OUTPUT, ElementwiseGeometry geometry) {   \
    const ulong item = get_global_id(0);                                               \
    if (item >= geometry.item_count) return;                                           \
    BP_WRITE(type)[item] = BP_READ(type, a)[item];                                     \
  }                                                                                    \
  __kernel void name##_strided(BP_INPUT(a), BP_OUTPUT, ElementwiseGeometry geometry) { \
    const ulong item = get_global_id(0);                                               \
    if (item >= geometry.item_count) return;                                           \
    BP_WRITE(type)[item] = BP_READ(type, a)[locate(item, &geometry).x];                \
  }

BP_COPY(copy_1, uchar)
BP_COPY(copy_2, ushort)
BP_COPY(copy_4, uint)
BP_COPY(copy_8, ulong)
