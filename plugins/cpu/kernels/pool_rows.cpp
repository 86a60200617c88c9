// SPDX-License-Identifier: Apache-2.0
//
// max_pool and average_pool in f32 of row-major images, for windows that move by one or two
// columns: neighbouring outputs of a row are worked on side by side. A window is folded along its
// rows first, once for all outputs that share a row, and then across them. Vector code by Highway,
// compiled for each instruction set and chosen when it runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pool_rows.cpp"
// clang-format off: this file includes itself once per instruction set, before anything else.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include <algorithm>

#include "backplane/ops/pooling.h"
#include "element.hpp"
#include "kernel_support.hpp"
#include "kernels/pool_folds-inl.hpp"
#include "pool_shape.hpp"

#ifndef BACKPLANE_PLUGINS_CPU_KERNELS_POOL_ROWS_ONCE
#define BACKPLANE_PLUGINS_CPU_KERNELS_POOL_ROWS_ONCE
namespace bp::cpu {

inline constexpr int64_t kFoldedColumns = 64;  // outputs of a row that are worked on together
inline constexpr int64_t kFoldedRows = 64;     // rows of the input, folded, that are kept at once
inline constexpr int64_t kMostReach = 32;      // from the first element of a window to its last
inline constexpr int64_t kMostRowStep = 16;

struct PoolRowsPlan : bp_kernel_plan {
  PoolRowsPlan(const PoolShape& pool, bool pool_counts_padding)
      : window(pool.window),
        ranges(pool.window),
        planes(pool.planes * pool.window.in[0]),
        counts_padding(pool_counts_padding),
        block_rows((kFoldedRows - 1 - reach(1)) / pool.window.stride[1] + 1) {}

  int64_t reach(int dimension) const {
    return (window.kernel[dimension] - 1) * window.dilation[dimension];
  }
  int64_t blocks() const { return (window.out[1] - 1) / block_rows + 1; }

  Window window;
  WindowRanges ranges;
  int64_t planes;
  bool counts_padding;
  int64_t block_rows;  // outputs whose windows meet at most kFoldedRows rows
};

}  // namespace bp::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Columns of a row of x as far as a tile of outputs reaches, and what a vector load reads behind.
constexpr int64_t kLine = 2 * (kFoldedColumns + hn::MaxLanes(D())) + kMostReach;

// Elements kStep apart.
template <int kStep>
V load_columns(const float* from) {
  const D d;
  if constexpr (kStep == 1) return hn::LoadU(d, from);
  V even;
  V odd;
  hn::LoadInterleaved2(d, from, even, odd);
  return even;
}

// One row of the input: folds[o] is what the part of output o's window on it folds to.
template <class Pool, int kStep>
void fold_columns(const Window& w, const float* line, int64_t count, float* folds) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t o = 0; o < count; o += lanes) {
    V so_far = hn::Set(d, Pool::start());
    for (int64_t k = 0; k < w.kernel[2]; ++k) {
      const float* const from = line + o * kStep + (k == 0 ? 0 : k * w.dilation[2]);
      so_far = Pool::fold(so_far, load_columns<kStep>(from));
    }
    hn::StoreU(so_far, d, folds + o);
  }
}

// Columns [first, ...) of a row of x; what a fold begins with lies before and behind it.
void copy_line(const float* row, int64_t width, int64_t first, int64_t count, float start,
               float* line) {
  const int64_t begin = std::clamp<int64_t>(-first, 0, count);
  const int64_t end = std::clamp<int64_t>(width - first, begin, count);
  std::fill_n(line, begin, start);
  if (begin < end) std::copy_n(row + (first + begin), end - begin, line + begin);
  std::fill(line + end, line + count, start);
}

struct Folds {
  static constexpr int64_t kStride = kFoldedColumns + hn::MaxLanes(D());
  float rows[kFoldedRows][kStride];
};

template <class Pool>
void finish_row(const PoolRowsPlan& plan, const Folds& folds, int64_t first_row, int64_t out_row,
                const float* columns, int64_t count, float* y) {
  const D d;
  const Window& w = plan.window;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const Range taps = plan.ranges.row(out_row);
  const int64_t top = out_row * w.stride[1] - w.pad_begin[1] - first_row;
  const V rows = hn::Set(
      d, Pool::kCounts ? static_cast<float>(counted(w, plan.counts_padding, 1, out_row)) : 1);
  for (int64_t o = 0; o < count; o += lanes) {
    V so_far = hn::Set(d, Pool::start());
    for (int64_t k = taps.begin; k < taps.end; ++k) {
      const int64_t row = top + (k == 0 ? 0 : k * w.dilation[1]);
      so_far = Pool::fold(so_far, hn::LoadU(d, folds.rows[row] + o));
    }
    so_far = Pool::finish(so_far, hn::Mul(rows, hn::LoadU(d, columns + o)));
    if (o + lanes <= count) {
      hn::StoreU(so_far, d, y + o);
    } else {
      HWY_ALIGN float last[hn::MaxLanes(D())];
      hn::Store(so_far, d, last);
      std::copy_n(last, count - o, y + o);
    }
  }
}

// Output rows [begin, end) of a plane, no more than the plan's block.
template <class Pool>
void pool_block(const PoolRowsPlan& plan, const float* x, int64_t begin, int64_t end, float* y) {
  const Window& w = plan.window;
  const int64_t first_row = std::max<int64_t>(0, begin * w.stride[1] - w.pad_begin[1]);
  const int64_t end_row =
      std::min(w.in[1], (end - 1) * w.stride[1] - w.pad_begin[1] + plan.reach(1) + 1);
  Folds folds;
  HWY_ALIGN float line[kLine];
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  HWY_ALIGN float columns[Folds::kStride];
  for (int64_t first = 0; first < w.out[2]; first += kFoldedColumns) {
    const int64_t count = std::min(kFoldedColumns, w.out[2] - first);
    const int64_t column = first * w.stride[2] - w.pad_begin[2];
    const int64_t read = w.stride[2] * (count + 2 * lanes) + plan.reach(2);
    for (int64_t row = first_row; row < end_row; ++row) {
      copy_line(x + row * w.in[2], w.in[2], column, std::min(kLine, read), Pool::start(), line);
      const auto fold = w.stride[2] == 1 ? fold_columns<Pool, 1> : fold_columns<Pool, 2>;
      fold(w, line, count, folds.rows[row - first_row]);
    }
    std::fill_n(columns, Folds::kStride, 1.0F);
    for (int64_t o = 0; Pool::kCounts && o < count; ++o) {
      columns[o] = static_cast<float>(counted(w, plan.counts_padding, 2, first + o));
    }
    for (int64_t row = begin; row < end; ++row) {
      finish_row<Pool>(plan, folds, first_row, row, columns, count, y + row * w.out[2] + first);
    }
  }
}

void max_block(const PoolRowsPlan& plan, const float* x, int64_t begin, int64_t end, float* y) {
  pool_block<Max>(plan, x, begin, end, y);
}
void average_block(const PoolRowsPlan& plan, const float* x, int64_t begin, int64_t end, float* y) {
  pool_block<Average>(plan, x, begin, end, y);
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bp::cpu {
namespace {

HWY_EXPORT(max_block);
HWY_EXPORT(average_block);

using BlockFunction = void (*)(const PoolRowsPlan&, const float*, int64_t, int64_t, float*);

bp_status launch_blocks(const bp_launch_args& args, BlockFunction pool_block) {
  const auto& plan = *static_cast<const PoolRowsPlan*>(args.plan);
  const Window& w = plan.window;
  if (plan.planes == 0 || w.out_count() == 0) return BP_OK;
  const float* const x = address_of<const float>(input_of(args, 0));
  float* const y = address_of<float>(output_of(args));
  const int64_t blocks = plan.blocks();
  const int64_t cost = sdk::saturating_product(
      {std::min(plan.block_rows, w.out[1]), w.out[2], w.kernel[1] + w.kernel[2]});
  args.device->workers.for_ranges(
      plan.planes * blocks, cost / 4 + 32, [&](int64_t begin, int64_t end) noexcept {
        for (int64_t unit = begin; unit < end; ++unit) {
          const int64_t plane = unit / blocks;
          const int64_t row = unit % blocks * plan.block_rows;
          pool_block(plan, x + plane * w.in[1] * w.in[2], row,
                     std::min(row + plan.block_rows, w.out[1]), y + plane * w.out[1] * w.out[2]);
        }
      });
  return BP_OK;
}

bp_status launch_max(const bp_launch_args& args) {
  return launch_blocks(
      args, [](const PoolRowsPlan& plan, const float* x, int64_t begin, int64_t end, float* y) {
        HWY_DYNAMIC_DISPATCH(max_block)(plan, x, begin, end, y);
      });
}

bp_status launch_average(const bp_launch_args& args) {
  return launch_blocks(
      args, [](const PoolRowsPlan& plan, const float* x, int64_t begin, int64_t end, float* y) {
        HWY_DYNAMIC_DISPATCH(average_block)(plan, x, begin, end, y);
      });
}

// Fewer neighbouring outputs leave most of a vector idle.
constexpr int64_t kFewestColumns = 4;

void refuse_unfit(const Window& w) {
  const bool is_flat = w.kernel[0] == 1 && w.stride[0] == 1 && w.pad_begin[0] == 0 &&
                       w.pad_end[0] == 0 && w.in[0] == w.out[0];
  if (!is_flat) throw Refusal{"takes windows of one or two dimensions"};
  if (w.stride[2] > 2 || w.stride[1] > kMostRowStep) throw Refusal{"takes small steps"};
  if (w.out[2] < kFewestColumns) throw Refusal{"takes rows of at least four outputs"};
  for (const int d : {1, 2}) {
    if (sdk::saturating_product({w.kernel[d] - 1, w.dilation[d]}) > kMostReach) {
      throw Refusal{"takes windows of up to 33 rows and columns"};
    }
    const auto [least, most] = std::minmax(w.pad_begin[d], w.pad_end[d]);
    if (least < 0 || most > kMostReach) throw Refusal{"takes pads from 0 to 32"};
  }
}

std::unique_ptr<PoolRowsPlan> plan_max(bp_device*, const bp_kernel_query& query, bp_plan_info*) {
  const auto attrs = read_attributes(query.attributes, bp_attrs_max_pool_defaults());
  const PoolShape shape = make_pool_shape(query, "max_pool", attrs);
  refuse_unfit(shape.window);
  return std::make_unique<PoolRowsPlan>(shape, false);
}

std::unique_ptr<PoolRowsPlan> plan_average(bp_device*, const bp_kernel_query& query,
                                           bp_plan_info*) {
  const auto attrs = read_attributes(query.attributes, bp_attrs_average_pool_defaults());
  const PoolShape shape = make_pool_shape(query, "average_pool", attrs);
  refuse_unfit(shape.window);
  return std::make_unique<PoolRowsPlan>(shape, attrs.count_include_pad != 0);
}

constexpr uint64_t kMasks[] = {sdk::dtypes({BP_DTYPE_F32})};

constexpr bp_kernel rows_kernel(std::string_view name, std::string_view op, PlanSlot plan,
                                decltype(bp_kernel::launch) launch) {
  return sdk::describe({.name = name,
                        .op = op,
                        .dtypes = kMasks,
                        .priority = 10,
                        .depends_on = BP_DEPENDS_SIZES_BIT,
                        .supports = supports_slot<refused_spatial_rank>,
                        .plan = plan,
                        .plan_free = sdk::delete_plan<bp_kernel_plan>,
                        .launch = launch});
}

constexpr bp_kernel kKernels[] = {
    rows_kernel("max_pool_f32_rows", "max_pool", plan_slot<PoolRowsPlan, plan_max>,
                launch_slot<launch_max>),
    rows_kernel("average_pool_f32_rows", "average_pool", plan_slot<PoolRowsPlan, plan_average>,
                launch_slot<launch_average>)};

}  // namespace

BP_SDK_KERNELS(pool_rows, kKernels);

}  // namespace bp::cpu
#endif
