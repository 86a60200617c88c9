// SPDX-License-Identifier: Apache-2.0
//
// Inference of matrix products.
#include <cmath>

#include "backplane/ops/linalg.h"
#include "core/base/dtype.hpp"
#include "ops/infer/common.hpp"
#include "ops/infer/epilogue.hpp"

namespace bp::ops {
namespace {

Status check_inner(std::string_view first, const Dims& a, int64_t inner_a, std::string_view second,
                   const Dims& b, int64_t inner_b) {
  if (unify(inner_b, &inner_a)) return {};
  return {BP_INVALID_ARGUMENT, "inputs '" + std::string(first) + "' and '" + std::string(second) +
                                   "': expected equal inner sizes, found " +
                                   std::to_string(inner_a) + " of " + to_string(a) + " and " +
                                   std::to_string(inner_b) + " of " + to_string(b)};
}

/// An integer result cannot take a fraction of itself.
Status check_factor(std::string_view attribute, double value, uint32_t dtype) {
  constexpr double kMaxExact = 9007199254740992.0;  // 2^53
  if (is_float_dtype(dtype) || (std::nearbyint(value) == value && std::fabs(value) <= kMaxExact)) {
    return {};
  }
  return attribute_error(attribute, expected_found("a whole number up to 2^53, as the dtype is " +
                                                       std::string(dtype_name(dtype)),
                                                   std::to_string(value)));
}

}  // namespace

Status infer_matmul(const InferContext& context, std::span<TensorType> out_types) {
  const TensorType& a = context.inputs[0];
  const TensorType& b = context.inputs[1];
  BP_TRY(check_activation(activation_of(attrs<bp_attrs_matmul>(context.attributes)),
                          out_types[0].dtype));
  if (a.has_rank && a.sizes.empty()) return input_error("a", "expected rank 1 or more, found 0");
  if (b.has_rank && b.sizes.empty()) return input_error("b", "expected rank 1 or more, found 0");
  if (!a.has_rank || !b.has_rank) {
    unknown_rank(&out_types[0]);
    return {};
  }
  const size_t rank_a = a.sizes.size();
  const size_t rank_b = b.sizes.size();
  const int64_t inner_b = b.sizes[rank_b == 1 ? 0 : rank_b - 2];
  BP_TRY(check_inner("a", a.sizes, a.sizes.back(), "b", b.sizes, inner_b));
  const std::span all_a(a.sizes.data(), rank_a);
  const std::span all_b(b.sizes.data(), rank_b);
  const Dims batch_a(all_a.first(rank_a < 2 ? 0 : rank_a - 2));
  const Dims batch_b(all_b.first(rank_b < 2 ? 0 : rank_b - 2));
  BP_TRY_ASSIGN(Dims sizes,
                broadcast(batch_a, batch_b, "inputs 'a' and 'b', all but the last two dimensions"));
  if (rank_a > 1) sizes.push_back(a.sizes[rank_a - 2]);
  if (rank_b > 1) sizes.push_back(b.sizes[rank_b - 1]);
  out_types[0].sizes = sizes;
  if (context.inputs.size() > 2) {
    return check_broadcast_addend("addend", context.inputs[2], sizes);
  }
  return {};
}

Status infer_gemm(const InferContext& context, std::span<TensorType> out_types) {
  const auto& attributes = attrs<bp_attrs_gemm>(context.attributes);
  BP_TRY_ASSIGN(const Dims a, sizes_of_rank("a", context.inputs[0], 2));
  BP_TRY_ASSIGN(const Dims b, sizes_of_rank("b", context.inputs[1], 2));
  const bool trans_a = attributes.trans_a != 0;
  const bool trans_b = attributes.trans_b != 0;
  BP_TRY(check_inner("a", a, a[trans_a ? 0 : 1], "b", b, b[trans_b ? 1 : 0]));
  BP_TRY(check_factor("alpha", attributes.alpha, out_types[0].dtype));
  BP_TRY(check_factor("beta", attributes.beta, out_types[0].dtype));
  out_types[0].sizes = Dims{a[trans_a ? 1 : 0], b[trans_b ? 0 : 1]};
  BP_TRY(check_activation(activation_of(attributes), out_types[0].dtype));
  if (context.inputs.size() > 2) {
    return check_broadcast_addend("c", context.inputs[2], out_types[0].sizes);
  }
  return {};
}

}  // namespace bp::ops
