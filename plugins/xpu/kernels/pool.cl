// SPDX-License-Identifier: Apache-2.0
//
// Pools over windows of BP_DTYPE. One work item makes one element of y.

#define lowest_f32 (-INFINITY)
#define lowest_f16 (-INFINITY)
#define lowest_bf16 (-INFINITY)
#define lowest_f64 (-(double)INFINITY)
#define lowest_i8 CHAR_MIN
#define lowest_i16 SHRT_MIN
#define lowest_i32 INT_MIN
#define lowest_i64 LONG_MIN
#define lowest_u8 0
#define lowest_u16 0
#define lowest_u32 0
#define lowest_u64 0

// Where the window of one element of y begins, and which of its positions lie inside x.
typedef struct Place {
  ulong plane;
  long plane_start;  // of x, in elements
  long start[3];
  long first[3];
  long end[3];
} Place;

static Place place_of(ulong item, const PoolGeometry* geometry) {
  const Window* window = &geometry->window;
  Place place;
  for (int d = 2; d >= 0; --d) {
    const long out = (long)(item % (ulong)window->out[d]);
    item /= (ulong)window->out[d];
    place.start[d] = out * window->stride[d] - window->pad_begin[d];
    place.first[d] = first_inside(place.start[d], window->dilation[d]);
    place.end[d] =
        end_inside(place.start[d], window->dilation[d], window->extent[d], window->in[d]);
  }
  place.plane = item;
  place.plane_start = (long)(item / geometry->channels) * geometry->x_strides[0] +
                      (long)(item % geometry->channels) * geometry->x_strides[1];
  return place;
}

// Visits the positions inside x, in row-major order; `at`, `d`, `h`, `w` are theirs.
#define BP_FOR_EACH_INSIDE(place, geometry)                                                      \
  for (long kd = place.first[0]; kd < place.end[0]; ++kd)                                        \
    for (long kh = place.first[1]; kh < place.end[1]; ++kh)                                      \
      for (long kw = place.first[2], d = place.start[0] + kd * geometry.window.dilation[0],      \
                h = place.start[1] + kh * geometry.window.dilation[1],                           \
                w = place.start[2] + kw * geometry.window.dilation[2],                           \
                at = place.plane_start + d * geometry.x_strides[2] + h * geometry.x_strides[3] + \
                     w * geometry.x_strides[4];                                                  \
           kw < place.end[2]; ++kw, w += geometry.window.dilation[2],                            \
                at += geometry.window.dilation[2] * geometry.x_strides[4])

__kernel void max_pool(BP_INPUT(x), BP_OUTPUT(y), PoolGeometry geometry) {
  const ulong item = get_global_id(0);
  if (item >= geometry.item_count) return;
  const Place place = place_of(item, &geometry);
  BP_VALUE(BP_DTYPE) best = BP_JOIN(lowest_, BP_DTYPE);
  BP_FOR_EACH_INSIDE(place, geometry) {
    const BP_VALUE(BP_DTYPE) value = BP_LOAD(BP_DTYPE, x, at);
    if (best == best && (value > best || value != value)) best = value;
  }
  BP_STORE(BP_DTYPE, y, (long)item, best);
}

__kernel void max_pool_indices(BP_INPUT(x), BP_OUTPUT(y), BP_OUTPUT(indices),
                               PoolGeometry geometry) {
  const ulong item = get_global_id(0);
  if (item >= geometry.item_count) return;
  const Place place = place_of(item, &geometry);
  const long* in = geometry.window.in;
  BP_VALUE(BP_DTYPE) best = BP_JOIN(lowest_, BP_DTYPE);
  long index = -1;
  BP_FOR_EACH_INSIDE(place, geometry) {
    const BP_VALUE(BP_DTYPE) value = BP_LOAD(BP_DTYPE, x, at);
    const bool wins = best == best && (value > best || value != value);
    if (index >= 0 && !wins) continue;
    best = value;
    index = geometry.first_dimension_fastest != 0 ? (w * in[1] + h) * in[0] + d
                                                  : (d * in[1] + h) * in[2] + w;
  }
  BP_STORE(BP_DTYPE, y, (long)item, best);
  BP_WRITE(long, indices)
  [item] = index < 0 ? -1 : (long)place.plane * in[0] * in[1] * in[2] + index;
}

#ifdef BP_ACC
// How many positions of the window count, along one dimension.
static long counted(const Place* place, const PoolGeometry* geometry, int d) {
  if (geometry->counts_padding == 0) return max(place->end[d] - place->first[d], 0L);
  const Window* window = &geometry->window;
  return end_inside(place->start[d], window->dilation[d], window->extent[d],
                    window->in[d] + window->pad_end[d]);
}

__kernel void average_pool(BP_INPUT(x), BP_OUTPUT(y), PoolGeometry geometry) {
  const ulong item = get_global_id(0);
  if (item >= geometry.item_count) return;
  const Place place = place_of(item, &geometry);
  BP_ACC sum = 0;
  BP_FOR_EACH_INSIDE(place, geometry) { sum += BP_LOAD(BP_DTYPE, x, at); }
  BP_ACC count = 1;
  for (int d = 0; d < 3; ++d) count *= (BP_ACC)counted(&place, &geometry, d);
  BP_STORE(BP_DTYPE, y, (long)item, sum / count);
}
#endif
