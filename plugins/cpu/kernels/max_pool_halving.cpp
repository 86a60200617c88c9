// SPDX-License-Identifier: Apache-2.0
//
// max_pool in f32 with windows of 2 x 2 side by side and no padding: the usual case in small
// networks, where finding out what lies on padding costs more than the maximum. Vector code by
// Highway, compiled for each instruction set and chosen when it runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/max_pool_halving.cpp"
// clang-format off: this file includes itself once per instruction set, before anything else.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backplane/ops/pooling.h"
#include "element.hpp"
#include "kernel_support.hpp"
#include "pool_shape.hpp"

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// NaN wins over numbers.
template <class V>
V larger_of(V a, V b) {
  return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
}

// Writes y[begin], y[begin + 1], ... while whole vectors fit; returns where it stopped.
template <class D>
int64_t halve_vectors(D d, const float* upper, const float* lower, int64_t begin, int64_t count,
                      float* y) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = begin;
  for (; i + lanes <= count; i += lanes) {
    hn::Vec<D> even0;
    hn::Vec<D> odd0;
    hn::Vec<D> even1;
    hn::Vec<D> odd1;
    hn::LoadInterleaved2(d, upper + 2 * i, even0, odd0);
    hn::LoadInterleaved2(d, lower + 2 * i, even1, odd1);
    hn::StoreU(larger_of(larger_of(odd1, even1), larger_of(odd0, even0)), d, y + i);
  }
  return i;
}

// `count` values of y from each pair of rows.
void halve_rows(const float* x, int64_t x_row, int64_t rows, int64_t count, float* y) {
  for (int64_t row = 0; row < rows; ++row, x += 2 * x_row, y += count) {
    const float* const lower = x + x_row;
    int64_t i = halve_vectors(hn::ScalableTag<float>(), x, lower, 0, count, y);
    i = halve_vectors(hn::CappedTag<float, 4>(), x, lower, i, count, y);
    for (; i < count; ++i) {
      y[i] = larger(larger(lower[2 * i + 1], lower[2 * i]), larger(x[2 * i + 1], x[2 * i]));
    }
  }
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bp::cpu {
namespace {

HWY_EXPORT(halve_rows);

struct HalvingPlan : bp_kernel_plan {
  PoolShape shape;
};

void refuse_unfit(const Window& w) {
  if (w.spatial_rank != 2) throw Refusal{"takes two spatial dimensions"};
  for (uint32_t d = 0; d < kMaxSpatialRank; ++d) {
    const int64_t size = d == 0 ? 1 : 2;
    if (w.kernel[d] != size || w.stride[d] != size || w.dilation[d] != 1) {
      throw Refusal{"takes windows of 2 x 2 side by side"};
    }
    if (w.pad_begin[d] != 0 || w.pad_end[d] != 0 || w.in[d] / size < w.out[d]) {
      throw Refusal{"takes no padding"};
    }
  }
}

std::unique_ptr<HalvingPlan> make_plan(bp_device*, const bp_kernel_query& query, bp_plan_info*) {
  auto plan = std::make_unique<HalvingPlan>();
  const auto attrs = read_attributes(query.attributes, bp_attrs_max_pool_defaults());
  plan->shape = make_pool_shape(query, "max_pool", attrs);
  refuse_unfit(plan->shape.window);
  return plan;
}

bp_status launch(const bp_launch_args& args) {
  const auto& plan = *static_cast<const HalvingPlan*>(args.plan);
  const Window& w = plan.shape.window;
  const float* const x = address_of<const float>(input_of(args, 0));
  float* const y = address_of<float>(output_of(args));
  args.device->workers.for_ranges(plan.shape.planes, std::max<int64_t>(1, w.out_count()),
                                  [&](int64_t begin, int64_t end) noexcept {
                                    for (int64_t p = begin; p < end; ++p) {
                                      HWY_DYNAMIC_DISPATCH(halve_rows)
                                      (x + p * w.in_count(), w.in[2], w.out[1], w.out[2],
                                       y + p * w.out_count());
                                    }
                                  });
  return BP_OK;
}

constexpr uint64_t kMasks[] = {sdk::dtypes({BP_DTYPE_F32})};

constexpr bp_kernel kKernels[] = {sdk::describe({.name = "max_pool_f32_halving",
                                                 .op = "max_pool",
                                                 .dtypes = kMasks,
                                                 .priority = 20,
                                                 .depends_on = BP_DEPENDS_SIZES_BIT,
                                                 .supports = supports_slot<refused_spatial_rank>,
                                                 .plan = plan_slot<HalvingPlan, make_plan>,
                                                 .plan_free = sdk::delete_plan<bp_kernel_plan>,
                                                 .launch = launch_slot<launch>})};

}  // namespace

BP_SDK_KERNELS(max_pool_halving, kKernels);

}  // namespace bp::cpu
#endif
