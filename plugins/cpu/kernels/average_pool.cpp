// SPDX-License-Identifier: Apache-2.0
//
// average_pool on all floats; half types are summed in f32. Windows much wider than the output are
// summed along the window, all others along the output; one that is the whole plane is one sum.
#include <algorithm>
#include <vector>

#include "backplane/ops/pooling.h"
#include "element.hpp"
#include "kernel_support.hpp"
#include "pool_shape.hpp"
#include "row_sum.hpp"

namespace bp::cpu {
namespace {

// Outputs of one row that are worked on together.
constexpr int64_t kTile = 64;

struct AveragePoolPlan : bp_kernel_plan {
  AveragePoolPlan(const PoolShape& plan_shape, bool plan_counts_padding)
      : shape(plan_shape), ranges(plan_shape.window), counts_padding(plan_counts_padding) {
    const Window& w = shape.window;
    row_cost = std::max<int64_t>(
        1, sdk::saturating_product({w.out[2], w.kernel[0], w.kernel[1], w.kernel[2]}));
    along_window = w.dilation[2] == 1 && w.kernel[2] / 4 >= w.out[2];
    is_global = w.out_count() == 1 && !w.has_padding();
    for (int d = 0; d < static_cast<int>(kMaxSpatialRank); ++d) {
      is_global = is_global && w.dilation[d] == 1 && w.kernel[d] == w.in[d];
    }
    // The division that they take is slower than a sum. Sizes decide about no memory beyond this.
    constexpr int64_t kMostKept = 4096;
    for (int64_t o = 0; o < std::min(w.out[2], kMostKept); ++o) {
      kept_columns.push_back(static_cast<int32_t>(count(2, o)));
    }
  }

  // count() of outputs [first, first + number) along the last dimension.
  const int32_t* columns(int64_t first, int64_t number, int32_t* room) const {
    const auto kept = static_cast<int64_t>(kept_columns.size());
    if (first + number <= kept) return kept_columns.data() + first;
    for (int64_t i = 0; i < number; ++i) room[i] = static_cast<int32_t>(count(2, first + i));
    return room;
  }

  // Elements of the window at this output position that count, in one dimension.
  int64_t count(int dimension, int64_t out) const {
    return counted(shape.window, counts_padding, dimension, out);
  }

  PoolShape shape;
  WindowRanges ranges;
  bool counts_padding;
  bool along_window;
  bool is_global;  // one window, which is the whole plane
  int64_t row_cost;
  std::vector<int32_t> kept_columns;  // a kernel size is at most INT32_MAX
};

// Where one output row reads: the rows of its plane that its windows touch.
struct Rows {
  Range depth;
  Range height;
  int64_t first_depth;
  int64_t first_height;
};

Rows rows_of(const AveragePoolPlan& plan, int64_t out_d, int64_t out_h) {
  const Window& w = plan.shape.window;
  return {plan.ranges.depth(out_d), plan.ranges.row(out_h), out_d * w.stride[0] - w.pad_begin[0],
          out_h * w.stride[1] - w.pad_begin[1]};
}

template <class T, class Visit>
void for_each_row(const Window& w, const Rows& rows, const T* plane, const Visit& visit) {
  for (int64_t kd = rows.depth.begin; kd < rows.depth.end; ++kd) {
    const int64_t d = rows.first_depth + kd * w.dilation[0];
    for (int64_t kh = rows.height.begin; kh < rows.height.end; ++kh) {
      const int64_t h = rows.first_height + kh * w.dilation[1];
      visit(plane + (d * w.in[1] + h) * w.in[2]);
    }
  }
}

// Outputs [first, first + count) of a row, before the division.
template <class T>
void sum_tile(const AveragePoolPlan& plan, const Rows& rows, const T* plane, int64_t first,
              int64_t count, Compute<T>* sums) {
  const Window& w = plan.shape.window;
  const Range positions = plan.ranges.column_positions(first, count);
  std::fill_n(sums, count, Compute<T>{0});
  for_each_row(w, rows, plane, [&](const T* row) {
    for (int64_t kw = positions.begin; kw < positions.end; ++kw) {
      const Range valid = plan.ranges.column(kw);
      const int64_t begin = std::max(valid.begin, first);
      const int64_t end = std::min(valid.end, first + count);
      const int64_t shift = kw * w.dilation[2] - w.pad_begin[2];
      for (int64_t o = begin; o < end; ++o) sums[o - first] += load(row[o * w.stride[2] + shift]);
    }
  });
}

template <class T>
void sum_windows(const AveragePoolPlan& plan, const Rows& rows, const T* plane, int64_t first,
                 int64_t count, Compute<T>* sums) {
  const Window& w = plan.shape.window;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t start = (first + i) * w.stride[2] - w.pad_begin[2];
    const int64_t begin = std::max<int64_t>(0, start);
    const int64_t end = std::min(w.in[2], start + w.kernel[2]);
    sums[i] = 0;
    if (begin >= end) continue;
    for_each_row(w, rows, plane,
                 [&](const T* row) { sums[i] += row_sum(row + begin, end - begin); });
  }
}

template <class T>
struct AveragePool {
  using C = Compute<T>;

  // One output row of one plane.
  static void row(const AveragePoolPlan& plan, T* y, const T* plane, int64_t out_d, int64_t out_h) {
    const Window& w = plan.shape.window;
    const Rows rows = rows_of(plan, out_d, out_h);
    const auto counted_rows =
        static_cast<C>(plan.count(0, out_d)) * static_cast<C>(plan.count(1, out_h));
    for (int64_t first = 0; first < w.out[2]; first += kTile) {
      const int64_t count = std::min(kTile, w.out[2] - first);
      C sums[kTile];
      int32_t room[kTile];
      const int32_t* const counted = plan.columns(first, count, room);
      if (plan.along_window) {
        sum_windows(plan, rows, plane, first, count, sums);
      } else {
        sum_tile(plan, rows, plane, first, count, sums);
      }
      for (int64_t i = 0; i < count; ++i) {
        y[first + i] = store<T>(sums[i] / (counted_rows * static_cast<C>(counted[i])));
      }
    }
  }

  // Output rows [begin, end) of all planes.
  static void run(const AveragePoolPlan& plan, void* y_data, const void* x_data, int64_t begin,
                  int64_t end) {
    const Window& w = plan.shape.window;
    const int64_t plane_rows = w.out[0] * w.out[1];
    for (int64_t r = begin; r < end; ++r) {
      if (plan.is_global) {
        const T* const plane = static_cast<const T*>(x_data) + r * w.in_count();
        static_cast<T*>(y_data)[r] =
            store<T>(row_sum(plane, w.in_count()) / static_cast<C>(w.in_count()));
        continue;
      }
      const int64_t in_plane = r % plane_rows;
      row(plan, static_cast<T*>(y_data) + r * w.out[2],
          static_cast<const T*>(x_data) + r / plane_rows * w.in_count(), in_plane / w.out[1],
          in_plane % w.out[1]);
    }
  }
};

constexpr auto kTable = float_table<AveragePool>();

std::unique_ptr<AveragePoolPlan> make_plan(bp_device*, const bp_kernel_query& query,
                                           bp_plan_info*) {
  const auto attrs = read_attributes(query.attributes, bp_attrs_average_pool_defaults());
  return std::make_unique<AveragePoolPlan>(make_pool_shape(query, "average_pool", attrs),
                                           attrs.count_include_pad != 0);
}

bp_status launch(const bp_launch_args& args) {
  const auto& plan = *static_cast<const AveragePoolPlan*>(args.plan);
  const Window& w = plan.shape.window;
  const bp_tensor& x = input_of(args, 0);
  if (plan.shape.planes == 0 || w.out_count() == 0) return BP_OK;
  std::byte* const y_data = address_of(output_of(args));
  const std::byte* const x_data = address_of(x);
  const auto run = kTable[x.dtype];
  args.device->workers.for_ranges(
      plan.shape.planes * w.out[0] * w.out[1], plan.row_cost,
      [&](int64_t begin, int64_t end) noexcept { run(plan, y_data, x_data, begin, end); });
  return BP_OK;
}

constexpr uint64_t kMasks[] = {kFloatTypes};

constexpr bp_kernel kKernels[] = {sdk::describe({.name = "average_pool_loop",
                                                 .op = "average_pool",
                                                 .dtypes = kMasks,
                                                 .depends_on = BP_DEPENDS_SIZES_BIT,
                                                 .supports = supports_slot<refused_spatial_rank>,
                                                 .plan = plan_slot<AveragePoolPlan, make_plan>,
                                                 .plan_free = sdk::delete_plan<bp_kernel_plan>,
                                                 .launch = launch_slot<launch>})};

}  // namespace

BP_SDK_KERNELS(average_pool, kKernels);

}  // namespace bp::cpu
