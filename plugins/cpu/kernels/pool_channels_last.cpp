// SPDX-License-Identifier: Apache-2.0
//
// max_pool, average_pool and global_average_pool in f32 of images whose channels lie last: a window
// meets whole rows of channels, so that they are worked on side by side.
#include <algorithm>

#include "backplane/ops/pooling.h"
#include "element.hpp"
#include "kernel_support.hpp"
#include "order.hpp"
#include "pool_shape.hpp"

namespace bp::cpu {
namespace {

// Channels that are worked on together, in registers.
constexpr int64_t kTile = 64;
// Sums of more terms, one after another, would be far from exact.
constexpr int64_t kMostSummed = 1024;

struct ChannelsPlan : OrderedPlan {
  explicit ChannelsPlan(const PoolShape& pool, int64_t pool_channels)
      : window(pool.window),
        ranges(pool.window),
        images(pool_channels == 0 ? 0 : pool.planes / pool_channels),
        channels(pool_channels) {}

  int64_t rows() const { return images * window.out[0] * window.out[1]; }
  /// Of one output row.
  int64_t row_cost() const {
    const Window& w = window;
    return std::max<int64_t>(
        1,
        sdk::saturating_product({w.out[2], w.kernel[0], w.kernel[1], w.kernel[2], channels}) / 8);
  }

  Window window;
  WindowRanges ranges;
  int64_t images;
  int64_t channels;
  bool counts_padding = false;
};

struct Max {
  static constexpr bool kCounts = false;
  static float start() { return lowest<float>(); }
  static float fold(float so_far, float value) { return larger(value, so_far); }
  static float finish(float best, float) { return best; }
};

struct Average {
  static constexpr bool kCounts = true;
  static float start() { return 0; }
  static float fold(float so_far, float value) { return so_far + value; }
  static float finish(float sum, float count) { return sum / count; }
};

// One output position: `count` channels from the first one of `image` on.
template <class Pool>
void pool_position(const ChannelsPlan& plan, const int64_t (&out)[kMaxSpatialRank],
                   const float* image, int64_t count, float* y) {
  const Window& w = plan.window;
  float folded[kTile];
  std::fill_n(folded, count, Pool::start());
  const Range depth = plan.ranges.depth(out[0]);
  const Range height = plan.ranges.row(out[1]);
  const Range width = plan.ranges.column_of(out[2]);
  for (int64_t kd = depth.begin; kd < depth.end; ++kd) {
    const int64_t d = out[0] * w.stride[0] - w.pad_begin[0] + kd * w.dilation[0];
    for (int64_t kh = height.begin; kh < height.end; ++kh) {
      const int64_t h = out[1] * w.stride[1] - w.pad_begin[1] + kh * w.dilation[1];
      for (int64_t kw = width.begin; kw < width.end; ++kw) {
        const int64_t column = out[2] * w.stride[2] - w.pad_begin[2] + kw * w.dilation[2];
        const float* const x = image + ((d * w.in[1] + h) * w.in[2] + column) * plan.channels;
        for (int64_t i = 0; i < count; ++i) folded[i] = Pool::fold(folded[i], x[i]);
      }
    }
  }
  float divisor = 1;
  if constexpr (Pool::kCounts) {
    for (int d = 0; d < static_cast<int>(kMaxSpatialRank); ++d) {
      divisor *= static_cast<float>(counted(w, plan.counts_padding, d, out[d]));
    }
  }
  for (int64_t i = 0; i < count; ++i) y[i] = Pool::finish(folded[i], divisor);
}

template <class Pool>
bp_status launch_pool(const bp_launch_args& args) {
  const auto& plan = *static_cast<const ChannelsPlan*>(args.plan);
  const Window& w = plan.window;
  if (plan.rows() == 0 || w.out[2] == 0) return BP_OK;
  float* const y = address_of<float>(output_of(args));
  const float* const x = address_of<const float>(input_of(args, 0));
  args.device->workers.for_ranges(
      plan.rows(), plan.row_cost(), [&](int64_t begin, int64_t end) noexcept {
        for (int64_t row = begin; row < end; ++row) {
          const int64_t in_image = row % (w.out[0] * w.out[1]);
          const float* const image = x + row / (w.out[0] * w.out[1]) * w.in_count() * plan.channels;
          for (int64_t column = 0; column < w.out[2]; ++column) {
            const int64_t out[] = {in_image / w.out[1], in_image % w.out[1], column};
            float* const to = y + (row * w.out[2] + column) * plan.channels;
            for (int64_t c = 0; c < plan.channels; c += kTile) {
              pool_position<Pool>(plan, out, image + c, std::min(kTile, plan.channels - c), to + c);
            }
          }
        }
      });
  return BP_OK;
}

std::unique_ptr<ChannelsPlan> plan_pool(const bp_kernel_query& query, const PoolShape& shape,
                                        bp_plan_info* info) {
  const bp_arg_info& x = arg_info(query, 0);
  const bp_arg_info& y = output_info(query);
  if (!is_channels_last(sizes_of(x), strides_of(x)) || !may_choose_order(y)) {
    throw Refusal{"takes and makes images whose channels lie last"};
  }
  auto plan = std::make_unique<ChannelsPlan>(shape, x.sizes[1]);
  plan->out_strides = channels_last_strides(sizes_of(y));
  info->out_strides = plan->out_strides.data();
  return plan;
}

std::unique_ptr<ChannelsPlan> plan_max(bp_device*, const bp_kernel_query& query,
                                       bp_plan_info* info) {
  const auto attrs = read_attributes(query.attributes, bp_attrs_max_pool_defaults());
  return plan_pool(query, make_pool_shape(query, "max_pool", attrs), info);
}

std::unique_ptr<ChannelsPlan> plan_average(bp_device*, const bp_kernel_query& query,
                                           bp_plan_info* info) {
  const auto attrs = read_attributes(query.attributes, bp_attrs_average_pool_defaults());
  const PoolShape shape = make_pool_shape(query, "average_pool", attrs);
  const Window& w = shape.window;
  if (sdk::saturating_product({w.kernel[0], w.kernel[1], w.kernel[2]}) > kMostSummed) {
    throw Refusal{"takes windows of up to 1024 elements"};
  }
  auto plan = plan_pool(query, shape, info);
  plan->counts_padding = attrs.count_include_pad != 0;
  return plan;
}

// The output has one element for each channel, so that its order is the same in any case.
std::unique_ptr<OrderedPlan> plan_global(bp_device*, const bp_kernel_query& query, bp_plan_info*) {
  const bp_arg_info& x = arg_info(query, 0);
  if (x.rank < 3 || !is_channels_last(sizes_of(x), strides_of(x))) {
    throw Refusal{"takes images whose channels lie last"};
  }
  return std::make_unique<OrderedPlan>();
}

// `count` channels from the first one on, summed in blocks that are summed in turn.
void average_channels(const float* x, int64_t positions, int64_t channels, int64_t count,
                      float* y) {
  constexpr int64_t kBlock = 64;
  float total[kTile] = {};
  for (int64_t first = 0; first < positions; first += kBlock) {
    const int64_t end = std::min(positions, first + kBlock);
    float sums[kTile] = {};
    for (int64_t p = first; p < end; ++p) {
      const float* const at = x + p * channels;
      for (int64_t i = 0; i < count; ++i) sums[i] += at[i];
    }
    for (int64_t i = 0; i < count; ++i) total[i] += sums[i];
  }
  for (int64_t i = 0; i < count; ++i) y[i] = total[i] / static_cast<float>(positions);
}

bp_status launch_global(const bp_launch_args& args) {
  const bp_tensor& x = input_of(args, 0);
  const int64_t channels = x.sizes[1];
  const int64_t tiles = (channels + kTile - 1) / kTile;
  int64_t positions = 1;
  for (uint32_t d = 2; d < x.rank; ++d) positions *= x.sizes[d];
  float* const y = address_of<float>(output_of(args));
  const float* const data = address_of<const float>(x);
  args.device->workers.for_ranges(
      x.sizes[0] * tiles, sdk::saturating_product({positions + 1, kTile / 8}),
      [&](int64_t begin, int64_t end) noexcept {
        for (int64_t unit = begin; unit < end; ++unit) {
          const int64_t image = unit / tiles;
          const int64_t first = unit % tiles * kTile;
          average_channels(data + image * positions * channels + first, positions, channels,
                           std::min(kTile, channels - first), y + image * channels + first);
        }
      });
  return BP_OK;
}

constexpr uint64_t kMasks[] = {sdk::dtypes({BP_DTYPE_F32})};

template <std::unique_ptr<ChannelsPlan> (*Make)(bp_device*, const bp_kernel_query&, bp_plan_info*),
          class Pool>
constexpr bp_kernel pool_kernel(std::string_view name, std::string_view op) {
  return sdk::describe({.name = name,
                        .op = op,
                        .dtypes = kMasks,
                        .arg_rules = kFirstDense,
                        .flags = BP_KERNEL_DETERMINISTIC_BIT | BP_KERNEL_CHOOSES_ORDER_BIT,
                        .priority = 30,
                        .depends_on = BP_DEPENDS_SIZES_BIT | BP_DEPENDS_STRIDES_BIT,
                        .supports = supports_slot<refused_spatial_rank>,
                        .plan = plan_slot<ChannelsPlan, Make>,
                        .plan_free = sdk::delete_plan<bp_kernel_plan>,
                        .launch = launch_slot<launch_pool<Pool>>});
}

constexpr bp_kernel kKernels[] = {
    pool_kernel<plan_max, Max>("max_pool_f32_channels", "max_pool"),
    pool_kernel<plan_average, Average>("average_pool_f32_channels", "average_pool"),
    sdk::describe({.name = "global_average_pool_f32_channels",
                   .op = "global_average_pool",
                   .dtypes = kMasks,
                   .arg_rules = kFirstDense,
                   .priority = 30,
                   .depends_on = BP_DEPENDS_SIZES_BIT | BP_DEPENDS_STRIDES_BIT,
                   .plan = plan_slot<OrderedPlan, plan_global>,
                   .plan_free = sdk::delete_plan<bp_kernel_plan>,
                   .launch = launch_slot<launch_global>})};

}  // namespace

BP_SDK_KERNELS(pool_channels_last, kKernels);

}  // namespace bp::cpu
