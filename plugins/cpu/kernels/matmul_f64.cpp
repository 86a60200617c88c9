// SPDX-License-Identifier: Apache-2.0
//
// matmul and gemm in f64. The columns of b are copied into strips as wide as three vectors, in the
// workspace, so that what a step reads lies side by side; four rows of y then take a step over a
// strip in registers. Vector code by Highway, compiled for each instruction set and chosen when it
// runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul_f64.cpp"
// clang-format off: this file includes itself once per instruction set, before anything else.
#include "backplane/ops/linalg.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include <algorithm>

#include "kernel_support.hpp"
#include "math/lanes-inl.hpp"
#include "matmul_shape.hpp"

#ifndef BACKPLANE_PLUGINS_CPU_KERNELS_MATMUL_F64_ONCE
#define BACKPLANE_PLUGINS_CPU_KERNELS_MATMUL_F64_ONCE
namespace bp::cpu {

// Rows of y and columns of one strip, and the terms that are summed in one step.
struct F64Block {
  const double* a;  // its first row, at the first term
  int64_t a_row;
  int64_t a_col;
  const double* strip;  // at the first term
  double* y;
  int64_t y_row;
  int64_t rows;
  int64_t columns;
  int64_t terms;
  bool is_first;  // y holds nothing yet
};

}  // namespace bp::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

int64_t strip_columns() { return 3 * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<double>())); }

// Columns [first, first + count) of b, term by term, and zeros up to the strip's width.
void fill_strip(const MatmulShape& shape, const double* b, int64_t first, int64_t count,
                double* strip) {
  const int64_t width = strip_columns();
  for (int64_t l = 0; l < shape.k; ++l, strip += width) {
    const double* const row = b + l * shape.b_row + first * shape.b_col;
    if (shape.b_col == 1) {
      std::copy_n(row, count, strip);
    } else {
      for (int64_t j = 0; j < count; ++j) strip[j] = row[j * shape.b_col];
    }
    std::fill(strip + count, strip + width, 0.0);
  }
}

// Up to three vectors of one row of y.
template <class V>
void store_row(V sum0, V sum1, V sum2, const F64Block& block, int64_t row) {
  if (row >= block.rows) return;
  const hn::DFromV<V> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V sums[] = {sum0, sum1, sum2};
  double* y = block.y + row * block.y_row;
  for (int64_t i = 0, left = block.columns; i < 3 && left > 0; ++i, left -= lanes, y += lanes) {
    V sum = sums[i];
    const auto part = static_cast<size_t>(std::min(left, lanes));
    if (!block.is_first) sum = hn::Add(sum, load_part(d, y, part));
    store_part(sum, d, y, part);
  }
}

// Four rows of y and a strip. Rows that there are not repeat the last one.
void add_products(const F64Block& block) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto row_of_a = [&](int64_t row) {
    return block.a + std::min(row, block.rows - 1) * block.a_row;
  };
  const double* const a0 = row_of_a(0);
  const double* const a1 = row_of_a(1);
  const double* const a2 = row_of_a(2);
  const double* const a3 = row_of_a(3);
  auto s00 = hn::Zero(d), s01 = s00, s02 = s00;
  auto s10 = s00, s11 = s00, s12 = s00;
  auto s20 = s00, s21 = s00, s22 = s00;
  auto s30 = s00, s31 = s00, s32 = s00;
  const double* strip = block.strip;
  for (int64_t l = 0; l < block.terms; ++l, strip += 3 * lanes) {
    const auto b0 = hn::LoadU(d, strip);
    const auto b1 = hn::LoadU(d, strip + lanes);
    const auto b2 = hn::LoadU(d, strip + 2 * lanes);
    auto a = hn::Set(d, a0[l * block.a_col]);
    s00 = hn::MulAdd(a, b0, s00);
    s01 = hn::MulAdd(a, b1, s01);
    s02 = hn::MulAdd(a, b2, s02);
    a = hn::Set(d, a1[l * block.a_col]);
    s10 = hn::MulAdd(a, b0, s10);
    s11 = hn::MulAdd(a, b1, s11);
    s12 = hn::MulAdd(a, b2, s12);
    a = hn::Set(d, a2[l * block.a_col]);
    s20 = hn::MulAdd(a, b0, s20);
    s21 = hn::MulAdd(a, b1, s21);
    s22 = hn::MulAdd(a, b2, s22);
    a = hn::Set(d, a3[l * block.a_col]);
    s30 = hn::MulAdd(a, b0, s30);
    s31 = hn::MulAdd(a, b1, s31);
    s32 = hn::MulAdd(a, b2, s32);
  }
  store_row(s00, s01, s02, block, 0);
  store_row(s10, s11, s12, block, 1);
  store_row(s20, s21, s22, block, 2);
  store_row(s30, s31, s32, block, 3);
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bp::cpu {
namespace {

HWY_EXPORT(strip_columns);
HWY_EXPORT(fill_strip);
HWY_EXPORT(add_products);

// Where filling strips costs more than the loops.
constexpr double kSmallProduct = 2048;
constexpr int64_t kFewRows = 3;
constexpr int64_t kMostStripElements = int64_t{1} << 27;  // a gigabyte
// A part of a strip stays in the first cache while the rows of a chunk, which stay in the second,
// pass by.
constexpr int64_t kTerms = 256;
constexpr int64_t kChunkRows = 64;
// Vectors make a multiply-add a fraction of the unit that regions are counted in.
constexpr int64_t kMultiplyAddsPerUnit = 8;

struct F64Plan : bp_kernel_plan {
  MatmulShape shape;
  Epilogue epilogue;
  int64_t strip_width = 0;
  int64_t strip_count = 0;
};

std::unique_ptr<F64Plan> make_plan(const MatmulShape& shape, const Epilogue& epilogue,
                                   bp_plan_info* info) {
  if (shape.is_empty()) throw Refusal{"empty tensors need no vectors"};
  if (shape.m <= kFewRows) throw Refusal{"too few rows to pay for its strips"};
  if (shape.multiply_add_count() < kSmallProduct) throw Refusal{"too small to pay for its strips"};
  auto plan = std::make_unique<F64Plan>();
  plan->shape = shape;
  plan->epilogue = epilogue;
  plan->strip_width = HWY_DYNAMIC_DISPATCH(strip_columns)();
  plan->strip_count = (shape.n - 1) / plan->strip_width + 1;
  const int64_t elements = sdk::saturating_product({plan->strip_count, plan->strip_width, shape.k});
  if (elements > kMostStripElements) throw Refusal{"has no room for as large a matrix"};
  info->workspace_bytes = static_cast<uint64_t>(elements) * sizeof(double);
  info->workspace_alignment_bytes = 64;
  return plan;
}

std::unique_ptr<F64Plan> make_matmul_plan(bp_device*, const bp_kernel_query& query,
                                          bp_plan_info* info) {
  return make_plan(make_matmul_shape(query), {}, info);
}

std::unique_ptr<F64Plan> make_gemm_plan(bp_device*, const bp_kernel_query& query,
                                        bp_plan_info* info) {
  const auto attrs = read_attributes(query.attributes, bp_attrs_gemm_defaults());
  const MatmulShape shape = make_gemm_shape(query, attrs);
  return make_plan(shape, make_epilogue(query, attrs, shape), info);
}

// One product.
struct Operands {
  const double* a;
  const double* b;
  double* y;
  double* strips;
};

void fill_strips(const F64Plan& plan, Workers& workers, const Operands& operands) {
  const MatmulShape& s = plan.shape;
  const int64_t strip_elements = plan.strip_width * s.k;
  workers.for_ranges(plan.strip_count, strip_elements, [&](int64_t begin, int64_t end) noexcept {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i * plan.strip_width;
      HWY_DYNAMIC_DISPATCH(fill_strip)
      (s, operands.b, first, std::min(plan.strip_width, s.n - first),
       operands.strips + i * strip_elements);
    }
  });
}

// Rows [first, last) of y, the columns of one strip.
void multiply_chunk(const F64Plan& plan, const Operands& operands, int64_t strip, int64_t first,
                    int64_t last) {
  const MatmulShape& s = plan.shape;
  const int64_t column = strip * plan.strip_width;
  for (int64_t term = 0; term < s.k; term += kTerms) {
    for (int64_t row = first; row < last; row += 4) {
      HWY_DYNAMIC_DISPATCH(add_products)
      ({.a = operands.a + row * s.a_row + term * s.a_col,
        .a_row = s.a_row,
        .a_col = s.a_col,
        .strip = operands.strips + (strip * s.k + term) * plan.strip_width,
        .y = operands.y + row * s.n + column,
        .y_row = s.n,
        .rows = std::min<int64_t>(4, last - row),
        .columns = std::min(plan.strip_width, s.n - column),
        .terms = std::min(kTerms, s.k - term),
        .is_first = term == 0});
    }
  }
}

void multiply(const F64Plan& plan, Workers& workers, const Operands& operands) {
  const MatmulShape& s = plan.shape;
  const int64_t chunks = (s.m - 1) / kChunkRows + 1;
  const int64_t unit_cost =
      std::min(s.m, kChunkRows) * plan.strip_width * s.k / kMultiplyAddsPerUnit;
  workers.for_ranges(
      plan.strip_count * chunks, unit_cost, [&](int64_t begin, int64_t end) noexcept {
        for (int64_t unit = begin; unit < end; ++unit) {
          const int64_t first = unit % chunks * kChunkRows;
          multiply_chunk(plan, operands, unit / chunks, first, std::min(first + kChunkRows, s.m));
        }
      });
}

void finish(const F64Plan& plan, Workers& workers, const double* c, double* y) {
  const Epilogue& e = plan.epilogue;
  const int64_t n = plan.shape.n;
  workers.for_ranges(plan.shape.m, n, [&](int64_t begin, int64_t end) noexcept {
    for (int64_t i = begin; i < end; ++i) {
      double* const row = y + i * n;
      for (int64_t j = 0; j < n; ++j) {
        row[j] = e.alpha * row[j];
        if (e.has_c) row[j] += e.beta * c[i * e.c_row + j * e.c_col];
      }
    }
  });
}

// Where the operands of a batch begin.
Operands operands_of(const Nest& batches, Operands operands, int64_t batch) {
  for (int d = batches.rank - 1; d >= 0; --d) {
    const int64_t position = batch % batches.sizes[d];
    batch /= batches.sizes[d];
    operands.a += position * batches.strides[0][d];
    operands.b += position * batches.strides[1][d];
  }
  return operands;
}

bp_status launch(const bp_launch_args& args) {
  const auto& plan = *static_cast<const F64Plan*>(args.plan);
  const MatmulShape& s = plan.shape;
  Workers& workers = args.device->workers;
  const Operands first{.a = address_of<const double>(input_of(args, 0)),
                       .b = address_of<const double>(input_of(args, 1)),
                       .y = address_of<double>(output_of(args)),
                       .strips = address_of<double>(args.workspace)};
  for (int64_t batch = 0; batch < s.batches.count; ++batch) {
    Operands operands = operands_of(s.batches, first, batch);
    operands.y = first.y + batch * s.m * s.n;
    fill_strips(plan, workers, operands);
    multiply(plan, workers, operands);
  }
  if (!plan.epilogue.is_nothing()) {
    const bool has_c = plan.epilogue.has_c;
    finish(plan, workers, has_c ? address_of<const double>(input_of(args, 2)) : nullptr, first.y);
  }
  return BP_OK;
}

constexpr uint64_t kMasks[] = {sdk::dtypes({BP_DTYPE_F64})};

constexpr bp_kernel f64_kernel(std::string_view name, std::string_view op, PlanSlot plan) {
  return sdk::describe({.name = name,
                        .op = op,
                        .dtypes = kMasks,
                        .arg_rules = sdk::kAnyStrides,
                        .priority = 10,
                        .depends_on = BP_DEPENDS_SIZES_BIT | BP_DEPENDS_STRIDES_BIT,
                        .plan = plan,
                        .plan_free = sdk::delete_plan<bp_kernel_plan>,
                        .launch = launch_slot<launch>});
}

constexpr bp_kernel kKernels[] = {
    f64_kernel("matmul_f64_strips", "matmul", plan_slot<F64Plan, make_matmul_plan>),
    f64_kernel("gemm_f64_strips", "gemm", plan_slot<F64Plan, make_gemm_plan>)};

}  // namespace

BP_SDK_KERNELS(matmul_f64, kKernels);

}  // namespace bp::cpu
#endif
