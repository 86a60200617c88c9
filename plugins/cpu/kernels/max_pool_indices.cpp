// SPDX-License-Identifier: Apache-2.0
//
// max_pool_indices on all number types: one window after the other.
#include <algorithm>

#include "backplane/ops/pooling.h"
#include "element.hpp"
#include "kernel_support.hpp"
#include "pool_shape.hpp"

namespace bp::cpu {
namespace {

struct IndicesPlan : bp_kernel_plan {
  IndicesPlan(const PoolShape& plan_shape, bool plan_column_major)
      : shape(plan_shape), ranges(plan_shape.window), column_major(plan_column_major) {}

  int64_t stored_at(int64_t d, int64_t h, int64_t w) const {
    const int64_t(&in)[kMaxSpatialRank] = shape.window.in;
    return column_major ? (w * in[1] + h) * in[0] + d : (d * in[1] + h) * in[2] + w;
  }

  PoolShape shape;
  WindowRanges ranges;
  bool column_major;
};

template <class T>
struct MaxIndices {
  using C = Compute<T>;
  struct Best {
    C value = lowest<C>();
    int64_t index = -1;
  };

  static Best window(const IndicesPlan& plan, const T* plane, int64_t out_d, int64_t out_h,
                     int64_t out_w) {
    const Window& w = plan.shape.window;
    const Range range_d = plan.ranges.depth(out_d);
    const Range range_h = plan.ranges.row(out_h);
    Best best;
    for (int64_t kd = range_d.begin; kd < range_d.end; ++kd) {
      const int64_t d = out_d * w.stride[0] - w.pad_begin[0] + kd * w.dilation[0];
      for (int64_t kh = range_h.begin; kh < range_h.end; ++kh) {
        const int64_t h = out_h * w.stride[1] - w.pad_begin[1] + kh * w.dilation[1];
        const Range range_w = plan.ranges.column_positions(out_w, 1);
        for (int64_t kw = range_w.begin; kw < range_w.end; ++kw) {
          const int64_t at = out_w * w.stride[2] - w.pad_begin[2] + kw * w.dilation[2];
          if (at < 0 || at >= w.in[2]) continue;
          const C value = load(plane[(d * w.in[1] + h) * w.in[2] + at]);
          const bool wins = value > best.value || (value != value && best.value == best.value);
          if (best.index >= 0 && !wins) continue;
          best = {value, plan.stored_at(d, h, at)};
        }
      }
    }
    return best;
  }

  static void run(const IndicesPlan& plan, void* y_data, int64_t* indices, const void* x_data,
                  int64_t begin, int64_t end) {
    const Window& w = plan.shape.window;
    for (int64_t p = begin; p < end; ++p) {
      const T* const plane = static_cast<const T*>(x_data) + p * w.in_count();
      const int64_t start = p * w.out_count();
      for (int64_t o = 0; o < w.out_count(); ++o) {
        const Best best =
            window(plan, plane, o / w.out[2] / w.out[1], o / w.out[2] % w.out[1], o % w.out[2]);
        static_cast<T*>(y_data)[start + o] = store<T>(best.value);
        indices[start + o] = best.index < 0 ? -1 : p * w.in_count() + best.index;
      }
    }
  }
};

constexpr auto kTable = number_table<MaxIndices>();

std::unique_ptr<IndicesPlan> make_plan(bp_device*, const bp_kernel_query& query, bp_plan_info*) {
  const auto attrs = read_attributes(query.attributes, bp_attrs_max_pool_indices_defaults());
  return std::make_unique<IndicesPlan>(make_pool_shape(query, "max_pool_indices", attrs),
                                       attrs.storage_order != 0);
}

bp_status launch(const bp_launch_args& args) {
  const auto& plan = *static_cast<const IndicesPlan*>(args.plan);
  if (plan.shape.window.out_count() == 0) return BP_OK;
  const bp_tensor& x = input_of(args, 0);
  std::byte* const y_data = address_of(args.tensors[1]);
  auto* const indices = address_of<int64_t>(args.tensors[2]);
  const std::byte* const x_data = address_of(x);
  const auto run = kTable[x.dtype];
  args.device->workers.for_ranges(
      plan.shape.planes, plan.shape.window.step_cost(),
      [&](int64_t begin, int64_t end) noexcept { run(plan, y_data, indices, x_data, begin, end); });
  return BP_OK;
}

constexpr uint64_t kMasks[] = {kNumberTypes};

constexpr bp_kernel kKernels[] = {sdk::describe({.name = "max_pool_indices_loop",
                                                 .op = "max_pool_indices",
                                                 .dtypes = kMasks,
                                                 .depends_on = BP_DEPENDS_SIZES_BIT,
                                                 .supports = supports_slot<refused_spatial_rank>,
                                                 .plan = plan_slot<IndicesPlan, make_plan>,
                                                 .plan_free = sdk::delete_plan<bp_kernel_plan>,
                                                 .launch = launch_slot<launch>})};

}  // namespace

BP_SDK_KERNELS(max_pool_indices, kKernels);

}  // namespace bp::cpu
