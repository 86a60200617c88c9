// SPDX-License-Identifier: Apache-2.0
//
// See reduce_rows.hpp. Vector code by Highway, compiled for each instruction set and chosen when it
// runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "math/reduce_rows.cpp"
// clang-format off: this file includes itself once per instruction set, before anything else.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include <limits>

#include "math/reduce_rows.hpp"

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D64 = hn::ScalableTag<double>;
using V64 = hn::Vec<D64>;

// As many f32 as a vector of f64 has lanes.
V64 load_as_f64(const float* x) {
  const hn::Rebind<float, D64> narrow;
  return hn::PromoteTo(D64(), hn::LoadU(narrow, x));
}

// Several chains, since one would wait for itself at every vector.
double sum_row(const float* x, int64_t count) {
  const D64 d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V64 sum0 = hn::Zero(d);
  V64 sum1 = hn::Zero(d);
  V64 sum2 = hn::Zero(d);
  V64 sum3 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    sum0 = hn::Add(sum0, load_as_f64(x + i));
    sum1 = hn::Add(sum1, load_as_f64(x + i + lanes));
    sum2 = hn::Add(sum2, load_as_f64(x + i + 2 * lanes));
    sum3 = hn::Add(sum3, load_as_f64(x + i + 3 * lanes));
  }
  for (; i + lanes <= count; i += lanes) sum0 = hn::Add(sum0, load_as_f64(x + i));
  double total = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3))));
  for (; i < count; ++i) total += static_cast<double>(x[i]);
  return total;
}

using D32 = hn::ScalableTag<float>;
using V32 = hn::Vec<D32>;

V32 larger_of(V32 a, V32 b) { return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b); }
float larger_of(float a, float b) { return (a > b || a != a) ? a : b; }

float largest_row(const float* x, int64_t count) {
  const D32 d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr float kLeast = -std::numeric_limits<float>::infinity();
  V32 best0 = hn::Set(d, kLeast);
  V32 best1 = best0;
  V32 best2 = best0;
  V32 best3 = best0;
  // NaN is looked for apart from the maximum: together they take twice the instructions.
  auto is_nan = hn::IsNaN(best0);
  const auto take = [&](const float* from, V32* best) HWY_ATTR {
    const V32 value = hn::LoadU(d, from);
    is_nan = hn::Or(is_nan, hn::IsNaN(value));
    *best = hn::Max(value, *best);
  };
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    take(x + i, &best0);
    take(x + i + lanes, &best1);
    take(x + i + 2 * lanes, &best2);
    take(x + i + 3 * lanes, &best3);
  }
  for (; i + lanes <= count; i += lanes) take(x + i, &best0);
  float best = kLeast;
  if (!hn::AllFalse(d, is_nan)) {
    i = 0;
  } else if (i > 0) {
    best = hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(best0, best1), hn::Max(best2, best3))));
  }
  for (; i < count; ++i) best = larger_of(x[i], best);
  return best;
}

int64_t first_in_row(const float* x, int64_t count, float value) {
  const D32 d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V32 wanted = hn::Set(d, value);
  const bool wants_nan = value != value;
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const V32 found = hn::LoadU(d, x + i);
    const auto is_it = wants_nan ? hn::IsNaN(found) : hn::Eq(found, wanted);
    const intptr_t lane = hn::FindFirstTrue(d, is_it);
    if (lane >= 0) return i + lane;
  }
  for (; i < count; ++i) {
    if (wants_nan ? x[i] != x[i] : x[i] == value) return i;
  }
  return count;
}

template <bool kLargest>
int64_t count_beaten_by(const float* x, int64_t count, float threshold) {
  const D32 d;
  constexpr auto kVector = static_cast<int64_t>(hn::MaxLanes(D32()));
  const V32 bound = hn::Set(d, threshold);
  int64_t i = 0;
  for (; i + kBeatenBlock <= count; i += kBeatenBlock) {
    auto is_beaten = hn::FirstN(d, kVector);
    for (int64_t k = i; k < i + kBeatenBlock; k += kVector) {
      const V32 value = hn::LoadU(d, x + k);
      is_beaten = hn::And(is_beaten, kLargest ? hn::Le(value, bound) : hn::Ge(value, bound));
    }
    if (!hn::AllTrue(d, is_beaten)) break;
  }
  return i;
}

int64_t count_beaten_of_row(const float* x, int64_t count, float threshold, bool largest) {
  return largest ? count_beaten_by<true>(x, count, threshold)
                 : count_beaten_by<false>(x, count, threshold);
}

void sum_rows(double* sums, int64_t count, const float* x, int64_t row_count, int64_t row_stride) {
  const D64 d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t r = 0;
  // Four rows at a time: the sums are loaded and stored a quarter as often.
  for (; r + 4 <= row_count; r += 4, x += 4 * row_stride) {
    const float* const second = x + row_stride;
    const float* const third = second + row_stride;
    const float* const fourth = third + row_stride;
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      const V64 upper = hn::Add(load_as_f64(x + i), load_as_f64(second + i));
      const V64 lower = hn::Add(load_as_f64(third + i), load_as_f64(fourth + i));
      hn::StoreU(hn::Add(hn::LoadU(d, sums + i), hn::Add(upper, lower)), d, sums + i);
    }
    for (; i < count; ++i) {
      const double upper = static_cast<double>(x[i]) + static_cast<double>(second[i]);
      sums[i] += upper + (static_cast<double>(third[i]) + static_cast<double>(fourth[i]));
    }
  }
  for (; r < row_count; ++r, x += row_stride) {
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      hn::StoreU(hn::Add(hn::LoadU(d, sums + i), load_as_f64(x + i)), d, sums + i);
    }
    for (; i < count; ++i) sums[i] += static_cast<double>(x[i]);
  }
}

void largest_rows(float* best, int64_t count, const float* x, int64_t row_count,
                  int64_t row_stride) {
  const D32 d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t r = 0; r < row_count; ++r, x += row_stride) {
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      hn::StoreU(larger_of(hn::LoadU(d, x + i), hn::LoadU(d, best + i)), d, best + i);
    }
    for (; i < count; ++i) best[i] = larger_of(x[i], best[i]);
  }
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bp::cpu {

HWY_EXPORT(sum_row);
HWY_EXPORT(largest_row);
HWY_EXPORT(first_in_row);
HWY_EXPORT(count_beaten_of_row);
HWY_EXPORT(sum_rows);
HWY_EXPORT(largest_rows);

double sum_of_row(const float* x, int64_t count) { return HWY_DYNAMIC_DISPATCH(sum_row)(x, count); }
float largest_of_row(const float* x, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(largest_row)(x, count);
}
int64_t first_of_row(const float* x, int64_t count, float value) {
  return HWY_DYNAMIC_DISPATCH(first_in_row)(x, count, value);
}
int64_t count_beaten(const float* x, int64_t count, float threshold, bool largest) {
  return HWY_DYNAMIC_DISPATCH(count_beaten_of_row)(x, count, threshold, largest);
}
void add_rows(double* sums, int64_t count, const float* x, int64_t row_count, int64_t row_stride) {
  HWY_DYNAMIC_DISPATCH(sum_rows)(sums, count, x, row_count, row_stride);
}
void keep_largest_of_rows(float* best, int64_t count, const float* x, int64_t row_count,
                          int64_t row_stride) {
  HWY_DYNAMIC_DISPATCH(largest_rows)(best, count, x, row_count, row_stride);
}

}  // namespace bp::cpu
#endif
