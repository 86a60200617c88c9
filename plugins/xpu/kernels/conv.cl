// SPDX-License-Identifier: Apache-2.0
//
// Convolutions of BP_DTYPE with sums in BP_ACC. A weight that meets padding adds nothing, not even
// if it is infinite or NaN.

static inline BP_ACC bias_of(BP_INPUT(b), ulong channel, const ConvGeometry* geometry) {
  return b == 0 ? 0 : BP_LOAD(BP_DTYPE, b, (long)channel * geometry->b_stride);
}

// One work item makes one element of y.
__kernel void conv_direct(BP_INPUT(x), BP_INPUT(w), BP_INPUT(b), BP_OUTPUT(y),
                          ConvGeometry geometry) {
  const ulong item = get_global_id(0);
  if (item >= geometry.item_count) return;
  const Window* window = &geometry.window;
  long start[3], first[3], end[3];
  ulong rest = item;
  for (int d = 2; d >= 0; --d) {
    const long out = (long)(rest % (ulong)window->out[d]);
    rest /= (ulong)window->out[d];
    start[d] = out * window->stride[d] - window->pad_begin[d];
    first[d] = first_inside(start[d], window->dilation[d]);
    end[d] = end_inside(start[d], window->dilation[d], window->extent[d], window->in[d]);
  }
  const ulong channels = geometry.group_out * geometry.groups;
  const ulong channel = rest % channels;
  const ulong image = rest / channels;
  long x_plane = (long)image * geometry.x_strides[0] +
                 (long)(channel / geometry.group_out * geometry.group_in) * geometry.x_strides[1];
  long w_plane = (long)channel * geometry.w_strides[0];
  BP_ACC sum = 0;
  for (ulong c = 0; c < geometry.group_in; ++c) {
    for (long kd = first[0]; kd < end[0]; ++kd) {
      for (long kh = first[1]; kh < end[1]; ++kh) {
        long x_at = x_plane + (start[0] + kd * window->dilation[0]) * geometry.x_strides[2] +
                    (start[1] + kh * window->dilation[1]) * geometry.x_strides[3] +
                    (start[2] + first[2] * window->dilation[2]) * geometry.x_strides[4];
        long w_at = w_plane + kd * geometry.w_strides[2] + kh * geometry.w_strides[3] +
                    first[2] * geometry.w_strides[4];
        for (long kw = first[2]; kw < end[2]; ++kw) {
          sum = BP_MULTIPLY_ADD((BP_ACC)BP_LOAD(BP_DTYPE, x, x_at),
                                (BP_ACC)BP_LOAD(BP_DTYPE, w, w_at), sum);
          x_at += window->dilation[2] * geometry.x_strides[4];
          w_at += geometry.w_strides[4];
        }
      }
    }
    x_plane += geometry.x_strides[1];
    w_plane += geometry.w_strides[1];
  }
  BP_STORE(BP_DTYPE, y, (long)item, sum + bias_of(b, b_offset, channel, &geometry));
}

// One tile of output channels x places in y per group: a matrix product of the weights with what
// the windows see, whose rows are channels and positions of the window.
__kernel __attribute__((reqd_work_group_size(BP_XPU_TILE_ITEMS, 1, 1))) void conv_tile(
    BP_INPUT(x), BP_INPUT(w), BP_INPUT(b), BP_OUTPUT(y), ConvGeometry geometry) {
  __local BP_ACC w_tile[BP_XPU_TILE_DEPTH][BP_XPU_TILE];
  __local BP_ACC x_tile[BP_XPU_TILE_DEPTH][BP_XPU_TILE];
  __local uchar is_inside[BP_XPU_TILE_DEPTH][BP_XPU_TILE];
  __local int has_wild_weights;  // infinite or NaN: times the 0 of padding they would add NaN
  const Window* window = &geometry.window;
  const ulong places = (ulong)(window->out[0] * window->out[1] * window->out[2]);
  const ulong extent = (ulong)(window->extent[0] * window->extent[1] * window->extent[2]);
  const ulong depth = geometry.group_in * extent;
  const ulong across = (places + BP_XPU_TILE - 1) / BP_XPU_TILE;
  const ulong down = (geometry.group_out + BP_XPU_TILE - 1) / BP_XPU_TILE;
  const ulong tile = get_group_id(0);
  const ulong first_place = tile % across * BP_XPU_TILE;
  const ulong first_row = tile / across % down * BP_XPU_TILE;
  const ulong group = tile / across / down % geometry.groups;
  const ulong image = tile / across / down / geometry.groups;
  const uint item = (uint)get_local_id(0);
  const uint own_row = item / BP_XPU_TILE_SIDE;
  const uint own_column = item % BP_XPU_TILE_SIDE;
  const long x_group = (long)image * geometry.x_strides[0] +
                       (long)(group * geometry.group_in) * geometry.x_strides[1];
  const ulong first_channel = group * geometry.group_out + first_row;

  // The place whose windows this work item reads: the same in each step.
  const ulong read_place = first_place + item % BP_XPU_TILE;
  long start[3];
  ulong rest = read_place;
  for (int d = 2; d >= 0; --d) {
    start[d] = (long)(rest % (ulong)window->out[d]) * window->stride[d] - window->pad_begin[d];
    rest /= (ulong)window->out[d];
  }
  if (item == 0) has_wild_weights = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  BP_ACC sums[BP_XPU_TILE_SHARE][BP_XPU_TILE_SHARE] = {{0}};
  for (ulong k = 0; k < depth; k += BP_XPU_TILE_DEPTH) {
    for (uint e = item; e < BP_XPU_TILE * BP_XPU_TILE_DEPTH; e += BP_XPU_TILE_ITEMS) {
      const uint w_step = e % BP_XPU_TILE_DEPTH;
      const uint row = e / BP_XPU_TILE_DEPTH;
      BP_ACC weight = 0;
      if (first_row + row < geometry.group_out && k + w_step < depth) {
        const ulong at = (k + w_step) % extent;
        weight = BP_LOAD(BP_DTYPE, w,
                         (long)(first_channel + row) * geometry.w_strides[0] +
                             (long)((k + w_step) / extent) * geometry.w_strides[1] +
                             (long)(at / (ulong)(window->extent[1] * window->extent[2])) *
                                 geometry.w_strides[2] +
                             (long)(at / (ulong)window->extent[2] % (ulong)window->extent[1]) *
                                 geometry.w_strides[3] +
                             (long)(at % (ulong)window->extent[2]) * geometry.w_strides[4]);
      }
      if (!isfinite(weight)) has_wild_weights = 1;
      w_tile[w_step][row] = weight;

      const uint x_step = e / BP_XPU_TILE;
      BP_ACC value = 0;
      bool inside = read_place < places && k + x_step < depth;
      if (inside) {
        const ulong at = (k + x_step) % extent;
        const long d = start[0] + (long)(at / (ulong)(window->extent[1] * window->extent[2])) *
                                      window->dilation[0];
        const long h = start[1] + (long)(at / (ulong)window->extent[2] % (ulong)window->extent[1]) *
                                      window->dilation[1];
        const long v = start[2] + (long)(at % (ulong)window->extent[2]) * window->dilation[2];
        inside = d >= 0 && d < window->in[0] && h >= 0 && h < window->in[1] && v >= 0 &&
                 v < window->in[2];
        if (inside) {
          value = BP_LOAD(BP_DTYPE, x,
                          x_group + (long)((k + x_step) / extent) * geometry.x_strides[1] +
                              d * geometry.x_strides[2] + h * geometry.x_strides[3] +
                              v * geometry.x_strides[4]);
        }
      }
      x_tile[x_step][item % BP_XPU_TILE] = value;
      is_inside[x_step][item % BP_XPU_TILE] = inside;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (has_wild_weights) {
      for (uint step = 0; step < BP_XPU_TILE_DEPTH; ++step) {
        for (uint j = 0; j < BP_XPU_TILE_SHARE; ++j) {
          const uint column = own_column + j * BP_XPU_TILE_SIDE;
          if (!is_inside[step][column]) continue;
          for (uint i = 0; i < BP_XPU_TILE_SHARE; ++i) {
            sums[i][j] = BP_MULTIPLY_ADD(w_tile[step][own_row + i * BP_XPU_TILE_SIDE],
                                         x_tile[step][column], sums[i][j]);
          }
        }
      }
    } else {
      BP_ADD_TILE(sums, w_tile, x_tile)
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  for (uint i = 0; i < BP_XPU_TILE_SHARE; ++i) {
    const ulong row = own_row + i * BP_XPU_TILE_SIDE;
    if (first_row + row >= geometry.group_out) continue;
    const BP_ACC bias = bias_of(b, b_offset, first_channel + row, &geometry);
    const ulong plane = image * geometry.groups * geometry.group_out + first_channel + row;
    for (uint j = 0; j < BP_XPU_TILE_SHARE; ++j) {
      const ulong place = first_place + own_column + j * BP_XPU_TILE_SIDE;
      if (place >= places) continue;
      BP_STORE(BP_DTYPE, y, (long)(plane * places + place), sums[i][j] + bias);
    }
  }
}
