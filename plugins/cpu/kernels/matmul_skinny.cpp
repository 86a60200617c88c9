// SPDX-License-Identifier: Apache-2.0
//
// matmul and gemm in f32 where y has few rows, as in a model run for one input: the weights are
// read once, as they lie, from one end to the other, at the speed of memory. Threads share the
// columns. Vector code by Highway, compiled for each instruction set and chosen when it runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul_skinny.cpp"
// clang-format off: this file includes itself once per instruction set, before anything else.
#include "backplane/ops/linalg.h"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include <algorithm>

#include "activation.hpp"
#include "kernel_support.hpp"
#include "matmul_shape.hpp"

#ifndef BACKPLANE_PLUGINS_CPU_KERNELS_MATMUL_SKINNY_ONCE
#define BACKPLANE_PLUGINS_CPU_KERNELS_MATMUL_SKINNY_ONCE
namespace bp::cpu {

// Rows of a matrix, each contiguous.
template <class T>
struct RowsOf {
  T* first;
  int64_t distance;  // from one to the next, of any sign
};

}  // namespace bp::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Rows of b that are read side by side: few enough for their factors to stay in registers.
constexpr size_t kRows = 8;

// The rows of b that some columns of y take a step by.
struct Step {
  const float* a;  // their factors
  const float* b;
  size_t b_row;
  bool is_first;  // y holds nothing yet
};

// y[j] += the sum of a[i] * b[i * b_row + j] over eight rows, for the columns from `begin` on that
// whole vectors hold; returns where it stopped. The eight are summed apart, so that y is rounded an
// eighth as often.
template <class D>
size_t add_eight_rows(D d, const Step& step, size_t begin, size_t n, float* y) {
  const size_t lanes = hn::Lanes(d);
  const auto a0 = hn::Set(d, step.a[0]);
  const auto a1 = hn::Set(d, step.a[1]);
  const auto a2 = hn::Set(d, step.a[2]);
  const auto a3 = hn::Set(d, step.a[3]);
  const auto a4 = hn::Set(d, step.a[4]);
  const auto a5 = hn::Set(d, step.a[5]);
  const auto a6 = hn::Set(d, step.a[6]);
  const auto a7 = hn::Set(d, step.a[7]);
  size_t j = begin;
  for (; j + lanes <= n; j += lanes) {
    const float* row = step.b + j;
    const auto next = [&] {
      const float* const at = row;
      row += step.b_row;
      return hn::LoadU(d, at);
    };
    auto sum = hn::MulAdd(a0, next(), hn::Zero(d));
    sum = hn::MulAdd(a1, next(), sum);
    sum = hn::MulAdd(a2, next(), sum);
    sum = hn::MulAdd(a3, next(), sum);
    sum = hn::MulAdd(a4, next(), sum);
    sum = hn::MulAdd(a5, next(), sum);
    sum = hn::MulAdd(a6, next(), sum);
    sum = hn::MulAdd(a7, next(), sum);
    if (!step.is_first) sum = hn::Add(sum, hn::LoadU(d, y + j));
    hn::StoreU(sum, d, y + j);
  }
  return j;
}

// ... over one row.
template <class D>
size_t add_row(D d, const Step& step, size_t begin, size_t n, float* y) {
  const size_t lanes = hn::Lanes(d);
  const auto a = hn::Set(d, step.a[0]);
  size_t j = begin;
  for (; j + lanes <= n; j += lanes) {
    const auto sum = step.is_first ? hn::Zero(d) : hn::LoadU(d, y + j);
    hn::StoreU(hn::MulAdd(a, hn::LoadU(d, step.b + j), sum), d, y + j);
  }
  return j;
}

// Four rows of y, which share what is read of b. Rows that there are not repeat the last one.
struct FourRows {
  const float* a[4];
  float* y[4];
};

FourRows four_rows(const RowsOf<const float>& a, int64_t m, const RowsOf<float>& y) {
  FourRows rows{};
  for (int64_t i = 0; i < 4; ++i) {
    rows.a[i] = a.first + std::min(i, m - 1) * a.distance;
    rows.y[i] = y.first + std::min(i, m - 1) * y.distance;
  }
  return rows;
}

// ... over eight rows of b, for the columns that pairs of vectors hold; returns where it stopped.
size_t add_eight_rows_to_four(const FourRows& rows, const Step& step, size_t n) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const auto with_y = [&](hn::Vec<decltype(d)> sum, int row, size_t j) {
    return step.is_first ? sum : hn::Add(sum, hn::LoadU(d, rows.y[row] + j));
  };
  size_t j = 0;
  for (; j + 2 * lanes <= n; j += 2 * lanes) {
    auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
    auto next0 = sum0, next1 = sum0, next2 = sum0, next3 = sum0;
    const float* b = step.b + j;
    for (size_t l = 0; l < kRows; ++l, b += step.b_row) {
      hwy::Prefetch(b + kRows * step.b_row);
      const auto values = hn::LoadU(d, b);
      const auto next = hn::LoadU(d, b + lanes);
      const auto factor0 = hn::Set(d, rows.a[0][l]);
      const auto factor1 = hn::Set(d, rows.a[1][l]);
      const auto factor2 = hn::Set(d, rows.a[2][l]);
      const auto factor3 = hn::Set(d, rows.a[3][l]);
      sum0 = hn::MulAdd(factor0, values, sum0);
      next0 = hn::MulAdd(factor0, next, next0);
      sum1 = hn::MulAdd(factor1, values, sum1);
      next1 = hn::MulAdd(factor1, next, next1);
      sum2 = hn::MulAdd(factor2, values, sum2);
      next2 = hn::MulAdd(factor2, next, next2);
      sum3 = hn::MulAdd(factor3, values, sum3);
      next3 = hn::MulAdd(factor3, next, next3);
    }
    // All of y is read before any is written, since a row that repeats is written again.
    sum0 = with_y(sum0, 0, j);
    next0 = with_y(next0, 0, j + lanes);
    sum1 = with_y(sum1, 1, j);
    next1 = with_y(next1, 1, j + lanes);
    sum2 = with_y(sum2, 2, j);
    next2 = with_y(next2, 2, j + lanes);
    sum3 = with_y(sum3, 3, j);
    next3 = with_y(next3, 3, j + lanes);
    hn::StoreU(sum0, d, rows.y[0] + j);
    hn::StoreU(next0, d, rows.y[0] + j + lanes);
    hn::StoreU(sum1, d, rows.y[1] + j);
    hn::StoreU(next1, d, rows.y[1] + j + lanes);
    hn::StoreU(sum2, d, rows.y[2] + j);
    hn::StoreU(next2, d, rows.y[2] + j + lanes);
    hn::StoreU(sum3, d, rows.y[3] + j);
    hn::StoreU(next3, d, rows.y[3] + j + lanes);
  }
  return j;
}

// All rows of y [m, n] take a step over eight rows of b; the rows of a begin with its factors.
void take_step(const Step& step, const RowsOf<const float>& a, int64_t m, size_t n,
               const RowsOf<float>& y) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  size_t done = 0;
  if (m > 1) done = add_eight_rows_to_four(four_rows(a, m, y), step, n);
  for (int64_t i = 0; i < m; ++i) {
    const Step own{a.first + i * a.distance, step.b, step.b_row, step.is_first};
    float* const to = y.first + i * y.distance;
    add_eight_rows(one, own, add_eight_rows(d, own, done, n, to), n, to);
  }
}

// y[i, j] = the sum of a[i, l] * b[l, j]: rows of b are contiguous, and each is read from end to
// end, as memory is read fastest, and for all rows of y at once.
void sum_rows(const RowsOf<const float>& a, int64_t m, const float* b, size_t b_row, size_t k,
              size_t n, const RowsOf<float>& y) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  size_t l = 0;
  for (; l + kRows <= k; l += kRows) {
    take_step({nullptr, b + l * b_row, b_row, l == 0}, {a.first + l, a.distance}, m, n, y);
  }
  for (; l < k; ++l) {
    for (int64_t i = 0; i < m; ++i) {
      const Step step{a.first + i * a.distance + l, b + l * b_row, b_row, l == 0};
      float* const to = y.first + i * y.distance;
      add_row(one, step, add_row(d, step, 0, n, to), n, to);
    }
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
void sum_columns_of_one(const float* a, const float* b, size_t k, size_t n, size_t b_col,
                        float* sums) {
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

// Two columns of b, each contiguous, and what they give with four rows of a.
void sum_two_columns(const FourRows& rows, const float* column0, const float* column1, size_t k,
                     size_t j) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  auto next0 = sum0, next1 = sum0, next2 = sum0, next3 = sum0;
  size_t i = 0;
  for (; i + lanes <= k; i += lanes) {
    const auto values = hn::LoadU(d, column0 + i);
    const auto next = hn::LoadU(d, column1 + i);
    const auto factor0 = hn::LoadU(d, rows.a[0] + i);
    const auto factor1 = hn::LoadU(d, rows.a[1] + i);
    const auto factor2 = hn::LoadU(d, rows.a[2] + i);
    const auto factor3 = hn::LoadU(d, rows.a[3] + i);
    sum0 = hn::MulAdd(factor0, values, sum0);
    next0 = hn::MulAdd(factor0, next, next0);
    sum1 = hn::MulAdd(factor1, values, sum1);
    next1 = hn::MulAdd(factor1, next, next1);
    sum2 = hn::MulAdd(factor2, values, sum2);
    next2 = hn::MulAdd(factor2, next, next2);
    sum3 = hn::MulAdd(factor3, values, sum3);
    next3 = hn::MulAdd(factor3, next, next3);
  }
  const auto finish = [&](int row, decltype(sum0) of_column0, decltype(sum0) of_column1) {
    float total0 = hn::GetLane(hn::SumOfLanes(d, of_column0));
    float total1 = hn::GetLane(hn::SumOfLanes(d, of_column1));
    for (size_t rest = i; rest < k; ++rest) {
      total0 += rows.a[row][rest] * column0[rest];
      total1 += rows.a[row][rest] * column1[rest];
    }
    rows.y[row][j] = total0;
    rows.y[row][j + 1] = total1;
  };
  finish(0, sum0, next0);
  finish(1, sum1, next1);
  finish(2, sum2, next2);
  finish(3, sum3, next3);
}

// y[i, j] = the product of row i of a and column j of b, which is contiguous.
void sum_columns(const RowsOf<const float>& a, int64_t m, const float* b, size_t b_col, size_t k,
                 size_t n, const RowsOf<float>& y) {
  size_t done = 0;
  if (m > 1) {
    const FourRows rows = four_rows(a, m, y);
    for (; done + 2 <= n; done += 2) {
      sum_two_columns(rows, b + done * b_col, b + (done + 1) * b_col, k, done);
    }
  }
  for (int64_t i = 0; i < m; ++i) {
    sum_columns_of_one(a.first + i * a.distance, b + done * b_col, k, n - done, b_col,
                       y.first + i * y.distance + done);
  }
}

int64_t lane_count() { return static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>())); }

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bp::cpu {
namespace {

HWY_EXPORT(sum_rows);
HWY_EXPORT(sum_columns);
HWY_EXPORT(lane_count);

constexpr int64_t kMostRows = 4;
// Threads share the columns in multiples of this: some vectors of any width.
constexpr int64_t kColumns = 64;
// Elements of y that stay in the first-level cache while the rows of the weights pass by.
constexpr int64_t kBlock = 4096;
// Numbers that are added in f32, one behind the other. Where there are more terms, such sums are
// added in f64, so that the error does not grow.
constexpr int64_t kInARow = 256;
// Columns that sum_columns() takes at once.
constexpr int64_t kColumnsToTheEnd = 4;
// Terms of a run, of which each is a task of its own where the columns are too few to share out.
constexpr int64_t kRun = 1 << 16;

struct SkinnyPlan : bp_kernel_plan {
  MatmulShape shape;
  Epilogue epilogue;
  Activation activation;
  uint32_t left = 0;  // the input whose rows are few

  int64_t run_count() const { return shape.n <= kColumns ? (shape.k - 1) / kRun + 1 : 1; }
  int64_t y_elements() const { return shape.m * shape.n; }
};

void refuse_unfit(const MatmulShape& s) {
  if (s.is_empty()) throw Refusal{"empty tensors need no vectors"};
  if (s.batches.count != 1) throw Refusal{"takes one product, not batches"};
  if (s.m > kMostRows) throw Refusal{"takes up to 4 rows"};
  if (s.a_col != 1 && s.k != 1) throw Refusal{"takes rows of the first operand without gaps"};
  const bool by_rows = s.b_col == 1 && s.b_row >= 0;
  const bool by_columns = s.b_row == 1 && s.b_col >= 0;
  if (!by_rows && !by_columns) throw Refusal{"takes matrices with dense rows or columns"};
}

// One column of many rows is one row of many columns, with the operands the other way round.
void transpose_column(SkinnyPlan* plan) {
  MatmulShape& s = plan->shape;
  if (s.n != 1 || s.m <= kMostRows) return;
  plan->left = 1;
  std::swap(s.m, s.n);
  const MatmulShape given = s;
  s.a_row = given.b_col;
  s.a_col = given.b_row;
  s.b_row = given.a_col;
  s.b_col = given.a_row;
  std::swap(plan->epilogue.c_row, plan->epilogue.c_col);
}

std::unique_ptr<SkinnyPlan> make_plan(const MatmulShape& shape, const Epilogue& epilogue,
                                      const Activation& activation, bp_plan_info* info) {
  auto plan = std::make_unique<SkinnyPlan>();
  plan->shape = shape;
  plan->epilogue = epilogue;
  plan->activation = activation;
  transpose_column(plan.get());
  refuse_unfit(plan->shape);
  if (plan->run_count() > 1) {
    info->workspace_bytes =
        static_cast<uint64_t>(plan->run_count() * plan->y_elements()) * sizeof(double);
  }
  return plan;
}

std::unique_ptr<SkinnyPlan> make_matmul_plan(bp_device* device, const bp_kernel_query& query,
                                             bp_plan_info* info) {
  const auto attrs = read_attributes(query.attributes, bp_attrs_matmul_defaults());
  const MatmulShape shape = make_matmul_shape(query);
  return make_plan(shape, make_epilogue(query, shape), Activation(*device, attrs), info);
}

std::unique_ptr<SkinnyPlan> make_gemm_plan(bp_device* device, const bp_kernel_query& query,
                                           bp_plan_info* info) {
  const auto attrs = read_attributes(query.attributes, bp_attrs_gemm_defaults());
  const MatmulShape shape = make_gemm_shape(query, attrs);
  return make_plan(shape, make_epilogue(query, attrs, shape), Activation(*device, attrs), info);
}

void finish_row(const Epilogue& e, const float* c, int64_t n, float* sums) {
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

// Columns [first, last) of all rows of y, which hold the product.
void finish(const SkinnyPlan& plan, const bp_launch_args& args, int64_t first, int64_t last) {
  const Epilogue& e = plan.epilogue;
  if (e.is_nothing()) return;
  const float* const c =
      e.has_c ? address_of<const float>(input_of(args, 2)) + first * e.c_col : nullptr;
  float* const y = address_of<float>(output_of(args)) + first;
  for (int64_t i = 0; i < plan.shape.m; ++i) {
    finish_row(e, c == nullptr ? nullptr : c + i * e.c_row, last - first, y + i * plan.shape.n);
  }
}

// Weights come from memory: a multiply-add costs about a quarter of the unit that regions are
// counted in.
constexpr int64_t kMultiplyAddsPerUnit = 4;

// A part of all rows of y, and of the terms of their sums.
struct Part {
  int64_t first;  // column
  int64_t last;
  int64_t begin;  // term
  int64_t end;
};

// y[i, j] = the sum over the terms of `part`.
void sum_part(const SkinnyPlan& plan, const bp_launch_args& args, const Part& part,
              const RowsOf<float>& y) {
  const MatmulShape& s = plan.shape;
  const RowsOf<const float> a{address_of<const float>(input_of(args, plan.left)) + part.begin,
                              s.a_row};
  const float* const b = address_of<const float>(input_of(args, 1 - plan.left)) +
                         part.first * s.b_col + part.begin * s.b_row;
  const auto k = static_cast<size_t>(part.end - part.begin);
  const auto n = static_cast<size_t>(part.last - part.first);
  if (s.b_col == 1) {
    HWY_DYNAMIC_DISPATCH(sum_rows)(a, s.m, b, static_cast<size_t>(s.b_row), k, n, y);
  } else {
    HWY_DYNAMIC_DISPATCH(sum_columns)(a, s.m, b, static_cast<size_t>(s.b_col), k, n, y);
  }
}

// Terms that are summed in f32: rows are added in groups of eight, columns in each lane.
int64_t terms_in_f32(const MatmulShape& s) {
  return kInARow * (s.b_col == 1 ? 8 : HWY_DYNAMIC_DISPATCH(lane_count)());
}

// totals[i, j] = the sum over the terms of `part`, which has up to kBlock elements of y.
void sum_long_part(const SkinnyPlan& plan, const bp_launch_args& args, const Part& part,
                   double* totals) {
  float sums[kBlock];
  const MatmulShape& s = plan.shape;
  const int64_t columns = part.last - part.first;
  std::fill_n(totals, s.m * columns, 0.0);
  const int64_t most = terms_in_f32(s);
  // Columns that are contiguous are read to their ends, a few at a time, as memory is read fastest.
  const int64_t group = s.b_col == 1 ? columns : kColumnsToTheEnd;
  for (int64_t first = part.first; first < part.last; first += group) {
    const int64_t last = std::min(first + group, part.last);
    for (int64_t term = part.begin; term < part.end; term += most) {
      const int64_t end = std::min(term + most, part.end);
      sum_part(plan, args, {first, last, term, end}, {sums, last - first});
      for (int64_t i = 0; i < s.m; ++i) {
        double* const row = totals + i * columns + (first - part.first);
        const float* const own = sums + i * (last - first);
        for (int64_t j = 0; j < last - first; ++j) row[j] += own[j];
      }
    }
  }
}

// Columns [first, last) of all rows.
void multiply(const SkinnyPlan& plan, const bp_launch_args& args, int64_t first, int64_t last) {
  const MatmulShape& s = plan.shape;
  const Part part{first, last, 0, s.k};
  const RowsOf<float> y{address_of<float>(output_of(args)) + first, s.n};
  if (s.k <= terms_in_f32(s)) {
    sum_part(plan, args, part, y);
    return;
  }
  double totals[kBlock];
  sum_long_part(plan, args, part, totals);
  for (int64_t i = 0; i < s.m; ++i) {
    std::copy_n(totals + i * (last - first), last - first, y.first + i * s.n);
  }
}

void share_columns(const SkinnyPlan& plan, const bp_launch_args& args) {
  const MatmulShape& s = plan.shape;
  const int64_t threads = args.device->workers.thread_count();
  const int64_t share = (s.n / threads + kColumns - 1) / kColumns * kColumns;
  const int64_t unit = std::max(kColumns, share);
  const int64_t block = kBlock / s.m;
  const int64_t unit_cost = unit * s.m * s.k / kMultiplyAddsPerUnit;
  args.device->workers.for_ranges(
      (s.n + unit - 1) / unit, unit_cost, [&](int64_t begin, int64_t end) noexcept {
        const int64_t last = std::min(end * unit, s.n);
        for (int64_t first = begin * unit; first < last; first += block) {
          const int64_t stop = std::min(first + block, last);
          multiply(plan, args, first, stop);
          finish(plan, args, first, stop);
        }
      });
}

// Runs, since the columns are few. What they give is added in their order, by one thread.
void share_runs(const SkinnyPlan& plan, const bp_launch_args& args) {
  const MatmulShape& s = plan.shape;
  double* const totals = address_of<double>(args.workspace);
  const int64_t run_cost = plan.y_elements() * kRun / kMultiplyAddsPerUnit;
  args.device->workers.for_ranges(
      plan.run_count(), run_cost, [&](int64_t begin, int64_t end) noexcept {
        for (int64_t run = begin; run < end; ++run) {
          const Part part{0, s.n, run * kRun, std::min((run + 1) * kRun, s.k)};
          sum_long_part(plan, args, part, totals + run * plan.y_elements());
        }
      });
  float* const y = address_of<float>(output_of(args));
  for (int64_t i = 0; i < plan.y_elements(); ++i) {
    double total = 0;
    for (int64_t run = 0; run < plan.run_count(); ++run) {
      total += totals[run * plan.y_elements() + i];
    }
    y[i] = static_cast<float>(total);
  }
  finish(plan, args, 0, s.n);
}

bp_status launch(const bp_launch_args& args) {
  const auto& plan = *static_cast<const SkinnyPlan*>(args.plan);
  if (plan.run_count() > 1) {
    share_runs(plan, args);
  } else {
    share_columns(plan, args);
  }
  return plan.activation.apply(args);
}

constexpr uint64_t kMasks[] = {sdk::dtypes({BP_DTYPE_F32})};

constexpr bp_kernel skinny_kernel(std::string_view name, std::string_view op, PlanSlot plan) {
  return sdk::describe({.name = name,
                        .op = op,
                        .dtypes = kMasks,
                        .arg_rules = sdk::kAnyStrides,
                        .priority = 20,
                        .depends_on = BP_DEPENDS_SIZES_BIT | BP_DEPENDS_STRIDES_BIT,
                        .version_max = 2,
                        .op_since = 2,
                        .plan = plan,
                        .plan_free = sdk::delete_plan<bp_kernel_plan>,
                        .launch = launch_slot<launch>});
}

constexpr bp_kernel kKernels[] = {
    skinny_kernel("matmul_f32_skinny", "matmul", plan_slot<SkinnyPlan, make_matmul_plan>),
    skinny_kernel("gemm_f32_skinny", "gemm", plan_slot<SkinnyPlan, make_gemm_plan>)};

}  // namespace

BP_SDK_KERNELS(matmul_skinny, kKernels);

}  // namespace bp::cpu
#endif
