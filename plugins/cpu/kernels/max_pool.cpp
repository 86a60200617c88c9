// SPDX-License-Identifier: Apache-2.0
//
// max_pool on all number types. oneDNN is not used here: for row-major tensors it has only generic
// code, and that starts its maximum at the lowest finite value and drops NaN, so that a window of
// -inf gives -3.4e38.
#include <algorithm>

#include "backplane/ops/pooling.h"
#include "element.hpp"
#include "kernel_support.hpp"
#include "pool_shape.hpp"

namespace bp::cpu {
namespace {

// Outputs of one row that are worked on together.
constexpr int64_t kTile = 64;

struct MaxPoolPlan : bp_kernel_plan {
  explicit MaxPoolPlan(const PoolShape& plan_shape)
      : shape(plan_shape), ranges(plan_shape.window), plane_cost(plan_shape.window.step_cost()) {}

  PoolShape shape;
  WindowRanges ranges;
  int64_t plane_cost;
};

// One tile of one output row: the maximum of the rows of the input under the window.
template <class T>
void pool_tile(const MaxPoolPlan& plan, T* y, const T* plane, int64_t out_d, int64_t out_h,
               int64_t first, int64_t count) {
  const Window& w = plan.shape.window;
  using C = Compute<T>;
  C best[kTile];
  std::fill_n(best, count, lowest<C>());
  const Range range_d = plan.ranges.depth(out_d);
  const Range range_h = plan.ranges.row(out_h);
  const Range range_w = plan.ranges.column_positions(first, count);
  for (int64_t kd = range_d.begin; kd < range_d.end; ++kd) {
    const int64_t d = out_d * w.stride[0] - w.pad_begin[0] + kd * w.dilation[0];
    for (int64_t kh = range_h.begin; kh < range_h.end; ++kh) {
      const int64_t h = out_h * w.stride[1] - w.pad_begin[1] + kh * w.dilation[1];
      const T* const row = plane + (d * w.in[1] + h) * w.in[2];
      for (int64_t kw = range_w.begin; kw < range_w.end; ++kw) {
        const Range valid = plan.ranges.column(kw);
        const int64_t begin = std::max(valid.begin, first);
        const int64_t end = std::min(valid.end, first + count);
        const int64_t shift = kw * w.dilation[2] - w.pad_begin[2];
        for (int64_t o = begin; o < end; ++o) {
          best[o - first] = larger(load(row[o * w.stride[2] + shift]), best[o - first]);
        }
      }
    }
  }
  for (int64_t i = 0; i < count; ++i) y[i] = store<T>(best[i]);
}

template <class T>
struct MaxPool {
  static void run(const MaxPoolPlan& plan, void* y_data, const void* x_data, int64_t begin,
                  int64_t end) {
    const Window& w = plan.shape.window;
    for (int64_t p = begin; p < end; ++p) {
      const T* const plane = static_cast<const T*>(x_data) + p * w.in_count();
      T* const y = static_cast<T*>(y_data) + p * w.out_count();
      for (int64_t row = 0; row < w.out[0] * w.out[1]; ++row) {
        for (int64_t o = 0; o < w.out[2]; o += kTile) {
          pool_tile(plan, y + row * w.out[2] + o, plane, row / w.out[1], row % w.out[1], o,
                    std::min(kTile, w.out[2] - o));
        }
      }
    }
  }
};

constexpr auto kTable = number_table<MaxPool>();

std::unique_ptr<MaxPoolPlan> make_plan(bp_device*, const bp_kernel_query& query, bp_plan_info*) {
  const auto attrs = read_attributes(query.attributes, bp_attrs_max_pool_defaults());
  return std::make_unique<MaxPoolPlan>(make_pool_shape(query, "max_pool", attrs));
}

bp_status launch(const bp_launch_args& args) {
  const auto& plan = *static_cast<const MaxPoolPlan*>(args.plan);
  const bp_tensor& x = input_of(args, 0);
  std::byte* const y_data = address_of(output_of(args));
  const std::byte* const x_data = address_of(x);
  const auto run = kTable[x.dtype];
  args.device->workers.for_ranges(
      plan.shape.planes, plan.plane_cost,
      [&](int64_t begin, int64_t end) noexcept { run(plan, y_data, x_data, begin, end); });
  return BP_OK;
}

constexpr uint64_t kMasks[] = {kNumberTypes};

constexpr bp_kernel kKernels[] = {sdk::describe({.name = "max_pool_loop",
                                                 .op = "max_pool",
                                                 .dtypes = kMasks,
                                                 .depends_on = BP_DEPENDS_SIZES_BIT,
                                                 .supports = supports_slot<refused_spatial_rank>,
                                                 .plan = plan_slot<MaxPoolPlan, make_plan>,
                                                 .plan_free = sdk::delete_plan<bp_kernel_plan>,
                                                 .launch = launch_slot<launch>})};

}  // namespace

BP_SDK_KERNELS(max_pool, kKernels);

}  // namespace bp::cpu
