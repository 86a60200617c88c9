// SPDX-License-Identifier: Apache-2.0
//
// matmul and gemm in plain loops, for all number types and strides: what the oneDNN kernel leaves,
// among that the products so small that a library call would cost more than they do. Half types are
// summed in f32, integers wrap.
#include <algorithm>

#include "backplane/ops/linalg.h"
#include "element.hpp"
#include "kernel_support.hpp"
#include "matmul_shape.hpp"

namespace bp::cpu {
namespace {

// Columns of y that are worked on together.
constexpr int64_t kTile = 64;
// Terms that are summed one behind the other. More are summed half by half, so that the error grows
// with the logarithm of their number.
constexpr int64_t kTermsInARow = 256;

struct MatmulPlan : bp_kernel_plan {
  explicit MatmulPlan(const MatmulShape& plan_shape)
      : shape(plan_shape),
        row_cost(sdk::saturating_product(
            {std::max<int64_t>(1, shape.n), std::max<int64_t>(1, shape.k)})) {}

  MatmulShape shape;
  Epilogue epilogue;
  int64_t row_cost;
};

struct Data {
  const void* a;
  const void* b;
  const void* c;
  void* y;
};

template <class T>
struct MatmulLoop {
  using W = Wrapping<T>;

  static W wide(const T& element) { return static_cast<W>(load(element)); }

  // sums[j] = the product of `terms` elements of a row of a and of column j of b.
  static void outer_products(const MatmulShape& s, const T* a, const T* b, int64_t terms,
                             int64_t count, W* sums) {
    std::fill_n(sums, count, W{0});
    for (int64_t k = 0; k < terms; ++k) {
      const W factor = wide(a[k * s.a_col]);
      const T* const row = b + k * s.b_row;
      if (s.b_col == 1) {
        for (int64_t j = 0; j < count; ++j) sums[j] += factor * wide(row[j]);
      } else {
        for (int64_t j = 0; j < count; ++j) sums[j] += factor * wide(row[j * s.b_col]);
      }
    }
  }

  // The same where columns of b are contiguous. Eight chains, since one would wait for itself.
  static void dot_products(const MatmulShape& s, const T* a, const T* b, int64_t terms,
                           int64_t count, W* sums) {
    for (int64_t j = 0; j < count; ++j) {
      const T* const column = b + j * s.b_col;
      W chains[8] = {};
      int64_t k = 0;
      for (; k + 8 <= terms; k += 8) {
        for (int64_t c = 0; c < 8; ++c) {
          chains[c] += wide(a[(k + c) * s.a_col]) * wide(column[k + c]);
        }
      }
      for (int64_t c = 0; k < terms; ++k, ++c) {
        chains[c] += wide(a[k * s.a_col]) * wide(column[k]);
      }
      sums[j] = ((chains[0] + chains[4]) + (chains[1] + chains[5])) +
                ((chains[2] + chains[6]) + (chains[3] + chains[7]));
    }
  }

  // ... whichever way columns of b lie.
  static void products(const MatmulShape& s, const T* a, const T* b, int64_t terms, int64_t count,
                       W* sums) {
    if (std::is_floating_point_v<W> && terms > kTermsInARow) {
      const int64_t half = terms / 2;
      W rest[kTile];
      products(s, a, b, half, count, sums);
      products(s, a + half * s.a_col, b + half * s.b_row, terms - half, count, rest);
      for (int64_t j = 0; j < count; ++j) sums[j] += rest[j];
    } else if (s.b_row == 1 && s.b_col != 1) {
      dot_products(s, a, b, terms, count, sums);
    } else {
      outer_products(s, a, b, terms, count, sums);
    }
  }

  static W factor_of(double value) {
    if constexpr (std::is_floating_point_v<W>) {
      return static_cast<W>(value);
    } else {
      return static_cast<W>(static_cast<int64_t>(value));
    }
  }

  static void finish(const Epilogue& e, const T* c, int64_t count, W* sums) {
    if (e.is_nothing()) return;
    const W alpha = factor_of(e.alpha);
    const W beta = factor_of(e.beta);
    for (int64_t j = 0; j < count; ++j) {
      sums[j] = alpha * sums[j];
      if (e.has_c) sums[j] += beta * wide(c[j * e.c_col]);
    }
  }

  static void row(const MatmulPlan& plan, const T* a, const T* b, const T* c, T* y) {
    const MatmulShape& s = plan.shape;
    const Epilogue& e = plan.epilogue;
    W sums[kTile];
    for (int64_t j = 0; j < s.n; j += kTile) {
      const int64_t count = std::min(kTile, s.n - j);
      products(s, a, b + j * s.b_col, s.k, count, sums);
      finish(e, e.has_c ? c + j * e.c_col : nullptr, count, sums);
      for (int64_t i = 0; i < count; ++i) y[j + i] = store<T>(static_cast<Compute<T>>(sums[i]));
    }
  }

  // Rows [begin, end) of y over all batches.
  static void run(const MatmulPlan& plan, const Data& data, int64_t begin, int64_t end) {
    const MatmulShape& s = plan.shape;
    const Nest& batches = s.batches;
    for (int64_t at = begin; at < end; ++at) {
      const int64_t i = at % s.m;
      int64_t a_offset = i * s.a_row;
      int64_t b_offset = 0;
      int64_t rest = at / s.m;
      for (int d = batches.rank - 1; d >= 0; --d) {
        const int64_t position = rest % batches.sizes[d];
        rest /= batches.sizes[d];
        a_offset += position * batches.strides[0][d];
        b_offset += position * batches.strides[1][d];
      }
      const T* const c = static_cast<const T*>(data.c);
      row(plan, static_cast<const T*>(data.a) + a_offset, static_cast<const T*>(data.b) + b_offset,
          c == nullptr ? nullptr : c + i * plan.epilogue.c_row, static_cast<T*>(data.y) + at * s.n);
    }
  }
};

constexpr auto kTable = wrapping_table<MatmulLoop>();

std::unique_ptr<MatmulPlan> make_matmul_plan(bp_device*, const bp_kernel_query& query,
                                             bp_plan_info*) {
  return std::make_unique<MatmulPlan>(make_matmul_shape(query));
}

std::unique_ptr<MatmulPlan> make_gemm_plan(bp_device*, const bp_kernel_query& query,
                                           bp_plan_info*) {
  const auto attrs = read_attributes(query.attributes, bp_attrs_gemm_defaults());
  auto plan = std::make_unique<MatmulPlan>(make_gemm_shape(query, attrs));
  plan->epilogue = make_epilogue(query, attrs, plan->shape);
  return plan;
}

bp_status launch(const bp_launch_args& args) {
  const auto& plan = *static_cast<const MatmulPlan*>(args.plan);
  const MatmulShape& s = plan.shape;
  const bp_tensor& y = output_of(args);
  if (s.n == 0) return BP_OK;
  const Data data{.a = address_of(input_of(args, 0)),
                  .b = address_of(input_of(args, 1)),
                  .c = plan.epilogue.has_c ? address_of(input_of(args, 2)) : nullptr,
                  .y = address_of(y)};
  const auto run = kTable[y.dtype];
  args.device->workers.for_ranges(
      s.batches.count * s.m, plan.row_cost,
      [&](int64_t begin, int64_t end) noexcept { run(plan, data, begin, end); });
  return BP_OK;
}

constexpr uint64_t kMasks[] = {kNumberTypes};

constexpr bp_kernel loop_kernel(std::string_view name, std::string_view op, PlanSlot plan) {
  return sdk::describe({.name = name,
                        .op = op,
                        .dtypes = kMasks,
                        .arg_rules = sdk::kAnyStrides,
                        .depends_on = BP_DEPENDS_SIZES_BIT | BP_DEPENDS_STRIDES_BIT,
                        .plan = plan,
                        .plan_free = sdk::delete_plan<bp_kernel_plan>,
                        .launch = launch_slot<launch>});
}

constexpr bp_kernel kKernels[] = {
    loop_kernel("matmul_loop", "matmul", plan_slot<MatmulPlan, make_matmul_plan>),
    loop_kernel("gemm_loop", "gemm", plan_slot<MatmulPlan, make_gemm_plan>)};

}  // namespace

BP_SDK_KERNELS(matmul_loop, kKernels);

}  // namespace bp::cpu
