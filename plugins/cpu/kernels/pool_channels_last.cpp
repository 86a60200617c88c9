// SPDX-License-Identifier: Apache-2.0
//
// max_pool, average_pool and global_average_pool in f32 of images whose channels lie last: a window
// meets whole rows of channels, so that they are worked on side by side. Vector code by Highway,
// compiled for each instruction set and chosen when it runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pool_channels_last.cpp"
// clang-format off: this file includes itself once per instruction set, before anything else.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include <algorithm>

#include "backplane/ops/pooling.h"
#include "element.hpp"
#include "kernel_support.hpp"
#include "kernels/pool_folds-inl.hpp"
#include "order.hpp"
#include "pool_shape.hpp"

#ifndef BACKPLANE_PLUGINS_CPU_KERNELS_POOL_CHANNELS_LAST_ONCE
#define BACKPLANE_PLUGINS_CPU_KERNELS_POOL_CHANNELS_LAST_ONCE
namespace bp::cpu {

// Sums of more terms, one after another, would be far from exact.
inline constexpr int64_t kMostSummed = 1024;
// Elements of a window whose places are listed once.
inline constexpr int64_t kMostListed = 64;

struct ChannelsPlan : OrderedPlan {
  explicit ChannelsPlan(const PoolShape& pool, int64_t pool_channels)
      : window(pool.window),
        ranges(pool.window),
        images(pool_channels == 0 ? 0 : pool.planes / pool_channels),
        channels(pool_channels) {}

  int64_t rows() const { return images * window.out[0] * window.out[1]; }
  /// Of one output row: a place costs something besides its channels.
  int64_t row_cost() const {
    const Window& w = window;
    const int64_t taps = sdk::saturating_product({w.kernel[0], w.kernel[1], w.kernel[2], channels});
    return sdk::saturating_product({std::max<int64_t>(1, w.out[2]), taps / 4 + 32});
  }

  Window window;
  WindowRanges ranges;
  int64_t images;
  int64_t channels;
  bool counts_padding = false;
  // Of a window that lies wholly in the image, from its first element on; empty if there are many
  // or no window does.
  std::vector<int64_t> offsets = window_offsets();

 private:
  std::vector<int64_t> window_offsets() const;
};

// An image as a global average sees it.
struct Positions {
  int64_t count;
  int64_t step;  // floats from one to the next
};

}  // namespace bp::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The elements of one channel that one output is made of: all of a window.
struct WholeWindow {
  const std::vector<int64_t>& offsets;

  template <class Visit>
  HWY_INLINE void for_each(const float* first, const Visit& visit) const {
    for (const int64_t offset : offsets) visit(first + offset);
  }
};

// ... or a part of one, as steps from one element to the next.
struct WindowPart {
  struct Side {
    int64_t count;
    int64_t step;
  };
  Side depth, row, column;

  // Calls visit with the place of each, the first one being at `first`.
  template <class Visit>
  void for_each(const float* first, const Visit& visit) const {
    for (int64_t d = 0; d < depth.count; ++d, first += depth.step) {
      const float* line = first;
      for (int64_t r = 0; r < row.count; ++r, line += row.step) {
        const float* at = line;
        for (int64_t c = 0; c < column.count; ++c, at += column.step) visit(at);
      }
    }
  }
};

// Channels from the one at `begin` on while vectors, two at a time and then one, fit below `end`;
// returns where it stopped.
template <class Pool, class D, class Taps>
HWY_INLINE int64_t pool_vectors(D d, const Taps& taps, float count, const float* x, int64_t begin,
                                int64_t end, float* y) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto divisor = hn::Set(d, count);
  int64_t i = begin;
  for (; i + 2 * lanes <= end; i += 2 * lanes) {
    auto folded = hn::Set(d, Pool::start());
    auto next = folded;
    taps.for_each(x + i, [&](const float* at) {
      folded = Pool::fold(folded, hn::LoadU(d, at));
      next = Pool::fold(next, hn::LoadU(d, at + lanes));
    });
    hn::StoreU(Pool::finish(folded, divisor), d, y + i);
    hn::StoreU(Pool::finish(next, divisor), d, y + i + lanes);
  }
  for (; i + lanes <= end; i += lanes) {
    auto folded = hn::Set(d, Pool::start());
    taps.for_each(x + i, [&](const float* at) { folded = Pool::fold(folded, hn::LoadU(d, at)); });
    hn::StoreU(Pool::finish(folded, divisor), d, y + i);
  }
  return i;
}

// One place; an average divides by `count`.
template <class Pool, class Taps>
void pool_channels(const Taps& taps, float count, const float* x, int64_t channels, float* y) {
  int64_t i = pool_vectors<Pool>(hn::ScalableTag<float>(), taps, count, x, 0, channels, y);
  if (i == channels) return;
  i = pool_vectors<Pool>(hn::CappedTag<float, 4>(), taps, count, x, i, channels, y);
  pool_vectors<Pool>(hn::CappedTag<float, 1>(), taps, count, x, i, channels, y);
}

// What one dimension adds to the taps of an output: the first position, how many, and the step.
struct Reach {
  Reach(const Window& w, int dimension, int64_t out, Range valid) {
    if (valid.begin >= valid.end) return;  // nothing but padding
    count = valid.end - valid.begin;
    const int64_t dilation = w.dilation[dimension];
    first = out * w.stride[dimension] - w.pad_begin[dimension] + valid.begin * dilation;
    if (count > 1) step = dilation;  // of one element it may be anything
  }
  int64_t first = 0;
  int64_t count = 0;
  int64_t step = 0;
};

// One row of outputs: `row` counts those of all images.
template <class Pool>
void pool_row(const ChannelsPlan& plan, int64_t row, const float* x, float* y) {
  const Window& w = plan.window;
  const int64_t rows = w.out[0] * w.out[1];
  const int64_t out_depth = row % rows / w.out[1];
  const int64_t out_row = row % w.out[1];
  const Reach depth(w, 0, out_depth, plan.ranges.depth(out_depth));
  const Reach line(w, 1, out_row, plan.ranges.row(out_row));
  const int64_t line_floats = w.in[2] * plan.channels;
  const float* const lines = x + row / rows * w.in_count() * plan.channels +
                             (depth.first * w.in[1] + line.first) * line_floats;
  const auto counted_taps = [&](int dimension, int64_t out) {
    return Pool::kCounts ? static_cast<float>(counted(w, plan.counts_padding, dimension, out)) : 1;
  };
  const float counted_lines = counted_taps(0, out_depth) * counted_taps(1, out_row);
  const auto listed = static_cast<int64_t>(plan.offsets.size());
  for (int64_t column = 0; column < w.out[2]; ++column, y += plan.channels) {
    const Reach across(w, 2, column, plan.ranges.column_of(column));
    const float* const first = lines + across.first * plan.channels;
    const float count = counted_lines * counted_taps(2, column);
    if (depth.count * line.count * across.count == listed) {
      pool_channels<Pool>(WholeWindow{plan.offsets}, count, first, plan.channels, y);
      continue;
    }
    const WindowPart part{.depth = {depth.count, depth.step * w.in[1] * line_floats},
                          .row = {line.count, line.step * line_floats},
                          .column = {across.count, across.step * plan.channels}};
    pool_channels<Pool>(part, count, first, plan.channels, y);
  }
}

void max_row(const ChannelsPlan& plan, int64_t row, const float* x, float* y) {
  pool_row<Max>(plan, row, x, y);
}

void average_row(const ChannelsPlan& plan, int64_t row, const float* x, float* y) {
  pool_row<Average>(plan, row, x, y);
}

// Sums of more positions are summed in turn.
constexpr int64_t kSummedBlock = 64;

// The averages of four vectors of channels, whose loads share cache lines, from x on.
template <class D>
void average_four(D d, const float* x, const Positions& positions, float* y) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto total0 = hn::Zero(d), total1 = total0, total2 = total0, total3 = total0;
  for (int64_t first = 0; first < positions.count; first += kSummedBlock) {
    const int64_t last = std::min(positions.count, first + kSummedBlock);
    auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
    for (int64_t p = first; p < last; ++p) {
      const float* const at = x + p * positions.step;
      sum0 = hn::Add(sum0, hn::LoadU(d, at));
      sum1 = hn::Add(sum1, hn::LoadU(d, at + lanes));
      sum2 = hn::Add(sum2, hn::LoadU(d, at + 2 * lanes));
      sum3 = hn::Add(sum3, hn::LoadU(d, at + 3 * lanes));
    }
    total0 = hn::Add(total0, sum0);
    total1 = hn::Add(total1, sum1);
    total2 = hn::Add(total2, sum2);
    total3 = hn::Add(total3, sum3);
  }
  const auto count = hn::Set(d, static_cast<float>(positions.count));
  hn::StoreU(hn::Div(total0, count), d, y);
  hn::StoreU(hn::Div(total1, count), d, y + lanes);
  hn::StoreU(hn::Div(total2, count), d, y + 2 * lanes);
  hn::StoreU(hn::Div(total3, count), d, y + 3 * lanes);
}

// ... of one vector.
template <class D>
void average_one(D d, const float* x, const Positions& positions, float* y) {
  auto total = hn::Zero(d);
  for (int64_t first = 0; first < positions.count; first += kSummedBlock) {
    const int64_t last = std::min(positions.count, first + kSummedBlock);
    auto sum = hn::Zero(d);
    for (int64_t p = first; p < last; ++p) {
      sum = hn::Add(sum, hn::LoadU(d, x + p * positions.step));
    }
    total = hn::Add(total, sum);
  }
  hn::StoreU(hn::Div(total, hn::Set(d, static_cast<float>(positions.count))), d, y);
}

// The averages of `channels` channels.
void average_image(const float* x, const Positions& positions, int64_t channels, float* y) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + 4 * lanes <= channels; i += 4 * lanes) average_four(d, x + i, positions, y + i);
  for (; i + lanes <= channels; i += lanes) average_one(d, x + i, positions, y + i);
  for (; i < channels; ++i) average_one(one, x + i, positions, y + i);
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bp::cpu {

std::vector<int64_t> ChannelsPlan::window_offsets() const {
  const Window& w = window;
  std::vector<int64_t> found;
  if (sdk::saturating_product({w.kernel[0], w.kernel[1], w.kernel[2]}) > kMostListed) return found;
  for (uint32_t d = 0; d < kMaxSpatialRank; ++d) {
    if (sdk::saturating_product({w.kernel[d] - 1, w.dilation[d]}) >= w.in[d]) return found;
  }
  for (int64_t kd = 0; kd < w.kernel[0]; ++kd) {
    for (int64_t kh = 0; kh < w.kernel[1]; ++kh) {
      for (int64_t kw = 0; kw < w.kernel[2]; ++kw) {
        const int64_t line = kd * w.dilation[0] * w.in[1] + kh * w.dilation[1];
        found.push_back((line * w.in[2] + kw * w.dilation[2]) * channels);
      }
    }
  }
  return found;
}

namespace {

HWY_EXPORT(max_row);
HWY_EXPORT(average_row);
HWY_EXPORT(average_image);

// Channels of a global average that one thread works on.
constexpr int64_t kTile = 64;

using RowFunction = void (*)(const ChannelsPlan&, int64_t row, const float* x, float* y);

bp_status launch_rows(const bp_launch_args& args, RowFunction pool_row) {
  const auto& plan = *static_cast<const ChannelsPlan*>(args.plan);
  if (plan.rows() == 0 || plan.window.out[2] == 0) return BP_OK;
  float* const y = address_of<float>(output_of(args));
  const float* const x = address_of<const float>(input_of(args, 0));
  const int64_t row_floats = plan.window.out[2] * plan.channels;
  args.device->workers.for_ranges(plan.rows(), plan.row_cost(),
                                  [&](int64_t begin, int64_t end) noexcept {
                                    for (int64_t row = begin; row < end; ++row) {
                                      pool_row(plan, row, x, y + row * row_floats);
                                    }
                                  });
  return BP_OK;
}

bp_status launch_max(const bp_launch_args& args) {
  return launch_rows(args, [](const ChannelsPlan& plan, int64_t row, const float* x, float* y) {
    HWY_DYNAMIC_DISPATCH(max_row)(plan, row, x, y);
  });
}

bp_status launch_average(const bp_launch_args& args) {
  return launch_rows(args, [](const ChannelsPlan& plan, int64_t row, const float* x, float* y) {
    HWY_DYNAMIC_DISPATCH(average_row)(plan, row, x, y);
  });
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

bp_status launch_global(const bp_launch_args& args) {
  const bp_tensor& x = input_of(args, 0);
  const int64_t channels = x.sizes[1];
  const int64_t tiles = (channels + kTile - 1) / kTile;
  int64_t count = 1;
  for (uint32_t d = 2; d < x.rank; ++d) count *= x.sizes[d];
  const Positions positions{.count = count, .step = channels};
  float* const y = address_of<float>(output_of(args));
  const float* const data = address_of<const float>(x);
  args.device->workers.for_ranges(
      x.sizes[0] * tiles, sdk::saturating_product({count + 1, kTile / 8}),
      [&](int64_t begin, int64_t end) noexcept {
        for (int64_t unit = begin; unit < end; ++unit) {
          const int64_t image = unit / tiles;
          const int64_t first = unit % tiles * kTile;
          HWY_DYNAMIC_DISPATCH(average_image)
          (data + image * count * channels + first, positions, std::min(kTile, channels - first),
           y + image * channels + first);
        }
      });
  return BP_OK;
}

constexpr uint64_t kMasks[] = {sdk::dtypes({BP_DTYPE_F32})};

template <std::unique_ptr<ChannelsPlan> (*Make)(bp_device*, const bp_kernel_query&, bp_plan_info*),
          bp_status (*Launch)(const bp_launch_args&)>
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
                        .launch = launch_slot<Launch>});
}

constexpr bp_kernel kKernels[] = {
    pool_kernel<plan_max, launch_max>("max_pool_f32_channels", "max_pool"),
    pool_kernel<plan_average, launch_average>("average_pool_f32_channels", "average_pool"),
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
#endif
