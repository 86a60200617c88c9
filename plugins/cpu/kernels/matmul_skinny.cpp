// SPDX-License-Identifier: Apache-2.0
//
// matmul and gemm in f32 where y has few rows, as in a model run for one input: memory is read once
// and a library call would cost more than the product. Threads share the columns. Vector code by
// Highway, compiled for each instruction set and chosen when it runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul_skinny.cpp"
// clang-format off: this file includes itself once per instruction set, before anything else.
#include "backplane/ops/linalg.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include <algorithm>

#include "activation.hpp"
#include "kernel_support.hpp"
#include "matmul_shape.hpp"

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// sums[j] = the sum of a[i] * b[i * b_row + j]: rows of b are contiguous.
void sum_rows(const float* a, const float* b, size_t k, size_t n, size_t b_row, float* sums) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t j = 0;
  for (; j + 4 * lanes <= n; j += 4 * lanes) {
    auto sum0 = hn::Zero(d);
    auto sum1 = hn::Zero(d);
    auto sum2 = hn::Zero(d);
    auto sum3 = hn::Zero(d);
    for (size_t i = 0; i < k; ++i) {
      const auto factor = hn::Set(d, a[i]);
      const float* const row = b + i * b_row + j;
      sum0 = hn::MulAdd(factor, hn::LoadU(d, row), sum0);
      sum1 = hn::MulAdd(factor, hn::LoadU(d, row + lanes), sum1);
      sum2 = hn::MulAdd(factor, hn::LoadU(d, row + 2 * lanes), sum2);
      sum3 = hn::MulAdd(factor, hn::LoadU(d, row + 3 * lanes), sum3);
    }
    hn::StoreU(sum0, d, sums + j);
    hn::StoreU(sum1, d, sums + j + lanes);
    hn::StoreU(sum2, d, sums + j + 2 * lanes);
    hn::StoreU(sum3, d, sums + j + 3 * lanes);
  }
  for (; j + lanes <= n; j += lanes) {
    auto sum = hn::Zero(d);
    for (size_t i = 0; i < k; ++i) {
      sum = hn::MulAdd(hn::Set(d, a[i]), hn::LoadU(d, b + i * b_row + j), sum);
    }
    hn::StoreU(sum, d, sums + j);
  }
  for (; j < n; ++j) {
    float sum = 0;
    for (size_t i = 0; i < k; ++i) sum += a[i] * b[i * b_row + j];
    sums[j] = sum;
  }
}

// The sum of a[i] * b[i].
float dot(const float* a, const float* b, size_t k) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  auto sum = hn::Zero(d);
  size_t i = 0;
  for (; i + lanes <= k; i += lanes) {
    sum = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum);
  }
  float total = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; i < k; ++i) total += a[i] * b[i];
  return total;
}

// sums[j] = the product of a and column j of b, which is contiguous. Four columns at once share the
// loads of a and keep the units busy where one chain of sums would wait for itself.
void sum_columns(const float* a, const float* b, size_t k, size_t n, size_t b_col, float* sums) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t j = 0;
  for (; j + 4 <= n; j += 4) {
    const float* const column0 = b + j * b_col;
    const float* const column1 = column0 + b_col;
    const float* const column2 = column1 + b_col;
    const float* const column3 = column2 + b_col;
    auto sum0 = hn::Zero(d);
    auto sum1 = hn::Zero(d);
    auto sum2 = hn::Zero(d);
    auto sum3 = hn::Zero(d);
    size_t i = 0;
    for (; i + lanes <= k; i += lanes) {
      const auto factor = hn::LoadU(d, a + i);
      sum0 = hn::MulAdd(factor, hn::LoadU(d, column0 + i), sum0);
      sum1 = hn::MulAdd(factor, hn::LoadU(d, column1 + i), sum1);
      sum2 = hn::MulAdd(factor, hn::LoadU(d, column2 + i), sum2);
      sum3 = hn::MulAdd(factor, hn::LoadU(d, column3 + i), sum3);
    }
    float total0 = hn::GetLane(hn::SumOfLanes(d, sum0));
    float total1 = hn::GetLane(hn::SumOfLanes(d, sum1));
    float total2 = hn::GetLane(hn::SumOfLanes(d, sum2));
    float total3 = hn::GetLane(hn::SumOfLanes(d, sum3));
    for (; i < k; ++i) {
      total0 += a[i] * column0[i];
      total1 += a[i] * column1[i];
      total2 += a[i] * column2[i];
      total3 += a[i] * column3[i];
    }
    sums[j] = total0;
    sums[j + 1] = total1;
    sums[j + 2] = total2;
    sums[j + 3] = total3;
  }
  for (; j < n; ++j) sums[j] = dot(a, b + j * b_col, k);
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bp::cpu {
namespace {

HWY_EXPORT(sum_rows);
HWY_EXPORT(sum_columns);

constexpr int64_t kMostRows = 4;
// Above this, packed weights pay.
constexpr double kMostMultiplyAdds = 1 << 20;
// What no call that refuse_unfit() takes goes beyond: each of a, b and y has a part in the product
// of m, n and k.
constexpr int64_t kMostElements = 1 << 20;
constexpr bp_size_range kRanges[] = {{0, BP_RANGE_ELEMENTS, 1, kMostElements},
                                     {1, BP_RANGE_ELEMENTS, 1, kMostElements}};

sdk::Support support(bp_device*, const bp_kernel_query&) {
  return {.ranges = kRanges, .answer_within = BP_SUPPORT_DEPENDS};
}

struct SkinnyPlan : bp_kernel_plan {
  MatmulShape shape;
  Epilogue epilogue;
  Activation activation;
};

void refuse_unfit(const MatmulShape& s) {
  if (s.batches.count != 1) throw Refusal{"takes one product, not batches"};
  if (s.m > kMostRows) throw Refusal{"takes up to 4 rows"};
  if (s.multiply_add_count() > kMostMultiplyAdds) throw Refusal{"too large for plain weights"};
  if (s.a_col != 1 && s.k != 1) throw Refusal{"takes rows of the first operand without gaps"};
  const bool by_rows = s.b_col == 1 && s.b_row >= 0;
  const bool by_columns = s.b_row == 1 && s.b_col >= 0;
  if (!by_rows && !by_columns) throw Refusal{"takes matrices with dense rows or columns"};
}

std::unique_ptr<SkinnyPlan> make_matmul_plan(bp_device* device, const bp_kernel_query& query,
                                             bp_plan_info*) {
  sdk::refuse_outside(query, kRanges);
  const auto attrs = read_attributes(query.attributes, bp_attrs_matmul_defaults());
  auto plan = std::make_unique<SkinnyPlan>();
  plan->shape = make_matmul_shape(query);
  refuse_unfit(plan->shape);
  plan->epilogue = make_epilogue(query, plan->shape);
  plan->activation = Activation(*device, attrs);
  return plan;
}

std::unique_ptr<SkinnyPlan> make_gemm_plan(bp_device* device, const bp_kernel_query& query,
                                           bp_plan_info*) {
  sdk::refuse_outside(query, kRanges);
  const auto attrs = read_attributes(query.attributes, bp_attrs_gemm_defaults());
  auto plan = std::make_unique<SkinnyPlan>();
  plan->shape = make_gemm_shape(query, attrs);
  plan->epilogue = make_epilogue(query, attrs, plan->shape);
  plan->activation = Activation(*device, attrs);
  refuse_unfit(plan->shape);
  return plan;
}

void finish(const Epilogue& e, const float* c, int64_t n, float* sums) {
  if (e.is_nothing()) return;
  const auto alpha = static_cast<float>(e.alpha);
  const auto beta = static_cast<float>(e.beta);
  if (!e.has_c) {
    for (int64_t j = 0; j < n; ++j) sums[j] = alpha * sums[j];
  } else if (e.c_col == 1) {  // apart, so that it becomes vector code
    for (int64_t j = 0; j < n; ++j) sums[j] = alpha * sums[j] + beta * c[j];
  } else {
    for (int64_t j = 0; j < n; ++j) sums[j] = alpha * sums[j] + beta * c[j * e.c_col];
  }
}

// Columns that one thread computes by itself: some vectors of any width.
constexpr int64_t kColumns = 64;
// Weights come from memory: a multiply-add costs about a quarter of the unit that regions are
// counted in.
constexpr int64_t kMultiplyAddsPerUnit = 4;

// Columns [first, last) of all rows.
void multiply(const SkinnyPlan& plan, const bp_launch_args& args, int64_t first, int64_t last) {
  const MatmulShape& s = plan.shape;
  const Epilogue& e = plan.epilogue;
  const float* const a = address_of<const float>(input_of(args, 0));
  const float* const b = address_of<const float>(input_of(args, 1)) + first * s.b_col;
  const float* const c =
      e.has_c ? address_of<const float>(input_of(args, 2)) + first * e.c_col : nullptr;
  float* const y = address_of<float>(output_of(args)) + first;
  const auto k = static_cast<size_t>(s.k);
  const auto n = static_cast<size_t>(last - first);
  for (int64_t i = 0; i < s.m; ++i) {
    float* const sums = y + i * s.n;
    if (s.b_col == 1) {
      HWY_DYNAMIC_DISPATCH(sum_rows)
      (a + i * s.a_row, b, k, n, static_cast<size_t>(s.b_row), sums);
    } else {
      HWY_DYNAMIC_DISPATCH(sum_columns)
      (a + i * s.a_row, b, k, n, static_cast<size_t>(s.b_col), sums);
    }
    finish(e, c == nullptr ? nullptr : c + i * e.c_row, last - first, sums);
  }
}

bp_status launch(const bp_launch_args& args) {
  const auto& plan = *static_cast<const SkinnyPlan*>(args.plan);
  const MatmulShape& s = plan.shape;
  const int64_t block_cost = kColumns * s.m * s.k / kMultiplyAddsPerUnit;
  args.device->workers.for_ranges(
      (s.n + kColumns - 1) / kColumns, block_cost, [&](int64_t begin, int64_t end) noexcept {
        multiply(plan, args, begin * kColumns, std::min(end * kColumns, s.n));
      });
  return plan.activation.apply(args);
}

constexpr uint64_t kMasks[] = {sdk::dtypes({BP_DTYPE_F32})};

template <std::unique_ptr<SkinnyPlan> (*MakePlan)(bp_device*, const bp_kernel_query&,
                                                  bp_plan_info*)>
constexpr bp_kernel skinny_kernel(std::string_view name, std::string_view op, uint32_t version) {
  return sdk::describe({.name = name,
                        .op = op,
                        .dtypes = kMasks,
                        .arg_rules = sdk::kAnyStrides,
                        .priority = 20,
                        .depends_on = BP_DEPENDS_SIZES_BIT | BP_DEPENDS_STRIDES_BIT,
                        .version_max = version,
                        .op_since = version,
                        .supports = sdk::support_slot<support>,
                        .plan = plan_slot<SkinnyPlan, MakePlan>,
                        .plan_free = sdk::delete_plan<bp_kernel_plan>,
                        .launch = launch_slot<launch>});
}

constexpr bp_kernel kKernels[] = {skinny_kernel<make_matmul_plan>("matmul_f32_skinny", "matmul", 2),
                                  skinny_kernel<make_gemm_plan>("gemm_f32_skinny", "gemm", 2)};

}  // namespace

BP_SDK_KERNELS(matmul_skinny, kKernels);

}  // namespace bp::cpu
#endif
