// SPDX-License-Identifier: Apache-2.0
//
// Convolutions of BP_DTYPE with sums in BP_ACC. A weight that meets padding adds nothing, not even
// if it is infinite or NaN.

#ifdef BP_ACC_DOUBLE
#define BP_MASK long
#else
#define BP_MASK int
#endif

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

// A strip of BP_XPU_STRIP_CHANNELS channels x 8 neighbours of a row of y per work item: what is
// read of x serves all the channels.
__kernel void conv_strip(BP_INPUT(x), BP_INPUT(w), BP_INPUT(b), BP_OUTPUT(y),
                         ConvGeometry geometry) {
  const ulong item = get_global_id(0);
  if (item >= geometry.item_count) return;
  const Window* window = &geometry.window;
  const long stride = window->stride[2];
  const ulong across = ((ulong)window->out[2] + 7) / 8;
  const long column = (long)(item % across) * 8;
  ulong rest = item / across;
  long start[2], first[2], end[2];
  for (int d = 1; d >= 0; --d) {
    start[d] = (long)(rest % (ulong)window->out[d]) * window->stride[d] - window->pad_begin[d];
    rest /= (ulong)window->out[d];
    first[d] = first_inside(start[d], window->dilation[d]);
    end[d] = end_inside(start[d], window->dilation[d], window->extent[d], window->in[d]);
  }
  const ulong strips = (geometry.group_out + BP_XPU_STRIP_CHANNELS - 1) / BP_XPU_STRIP_CHANNELS;
  const ulong first_row = rest % strips * BP_XPU_STRIP_CHANNELS;
  const ulong group = rest / strips % geometry.groups;
  const ulong image = rest / strips / geometry.groups;
  // Channels past the end repeat the last one, which keeps branches out of the loop.
  long w_rows[BP_XPU_STRIP_CHANNELS];
  BP_ACC8 sums[BP_XPU_STRIP_CHANNELS];
  for (int i = 0; i < BP_XPU_STRIP_CHANNELS; ++i) {
    const ulong row = min(first_row + (ulong)i, geometry.group_out - 1);
    w_rows[i] = (long)(group * geometry.group_out + row) * geometry.w_strides[0];
    sums[i] = 0;
  }
  const long left_of_window = column * stride - window->pad_begin[2];
  long x_plane = (long)image * geometry.x_strides[0] +
                 (long)(group * geometry.group_in) * geometry.x_strides[1];
  long w_plane = 0;
  for (ulong c = 0; c < geometry.group_in; ++c) {
    for (long kd = first[0]; kd < end[0]; ++kd) {
      for (long kh = first[1]; kh < end[1]; ++kh) {
        const long x_row = x_plane + (start[0] + kd * window->dilation[0]) * geometry.x_strides[2] +
                           (start[1] + kh * window->dilation[1]) * geometry.x_strides[3];
        const long w_row = w_plane + kd * geometry.w_strides[2] + kh * geometry.w_strides[3];
        for (long kw = 0; kw < window->extent[2]; ++kw) {
          const long left = left_of_window + kw * window->dilation[2];
          const long right = left + 7 * stride;
          const long w_at = w_row + kw * geometry.w_strides[4];
          if (left >= 0 && right < window->in[2]) {
            BP_ACC8 values;
            if (stride == 1 && geometry.x_strides[4] == 1) {
              values = BP_LOAD8(BP_DTYPE, x, x_row + left);
            } else {
              BP_ACC lanes[8];
              for (int lane = 0; lane < 8; ++lane) {
                lanes[lane] =
                    BP_LOAD(BP_DTYPE, x, x_row + (left + lane * stride) * geometry.x_strides[4]);
              }
              values = vload8(0, lanes);
            }
            for (int i = 0; i < BP_XPU_STRIP_CHANNELS; ++i) {
              const BP_ACC weight = BP_LOAD(BP_DTYPE, w, w_rows[i] + w_at);
              sums[i] = BP_MULTIPLY_ADD((BP_ACC8)(weight), values, sums[i]);
            }
            continue;
          }
          BP_ACC lanes[8];
          BP_MASK inside[8];
          bool any = false;
          for (int lane = 0; lane < 8; ++lane) {
            const long at = left + lane * stride;
            const bool is_inside = at >= 0 && at < window->in[2];
            any = any || is_inside;
            inside[lane] = is_inside ? -1 : 0;
            lanes[lane] =
                is_inside ? (BP_ACC)BP_LOAD(BP_DTYPE, x, x_row + at * geometry.x_strides[4]) : 0;
          }
          if (!any) continue;
          for (int i = 0; i < BP_XPU_STRIP_CHANNELS; ++i) {
            const BP_ACC weight = BP_LOAD(BP_DTYPE, w, w_rows[i] + w_at);
            const BP_ACC8 sum = BP_MULTIPLY_ADD((BP_ACC8)(weight), vload8(0, lanes), sums[i]);
            sums[i] = select(sums[i], sum, vload8(0, inside));
          }
        }
      }
    }
    x_plane += geometry.x_strides[1];
    w_plane += geometry.w_strides[1];
  }
  const ulong row_of_y = item / across % (ulong)(window->out[0] * window->out[1]);
  const int lane_count = (int)min(window->out[2] - column, 8L);
  for (int i = 0; i < BP_XPU_STRIP_CHANNELS && first_row + (ulong)i < geometry.group_out; ++i) {
    const ulong channel = group * geometry.group_out + first_row + (ulong)i;
    const ulong plane = image * geometry.groups * geometry.group_out + channel;
    const long to =
        (long)(plane * (ulong)(window->out[0] * window->out[1]) + row_of_y) * window->out[2] +
        column;
    const BP_ACC bias = bias_of(b, b_offset, channel, &geometry);
    BP_ACC lanes[8];
    vstore8(sums[i], 0, lanes);
    for (int lane = 0; lane < lane_count; ++lane) {
      BP_STORE(BP_DTYPE, y, to + lane, lanes[lane] + bias);
    }
  }
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
