// SPDX-License-Identifier: Apache-2.0
//
// Reading and checking matrix products. See matmul_shape.hpp.
#include "matmul_shape.hpp"

#include <cmath>
#include <string>

#include "order.hpp"

namespace bp::cpu {
namespace {

constexpr double kMaxWhole = 0x1p53;

[[noreturn]] void fail(const std::string& message) {
  throw sdk::Failure{BP_INVALID_ARGUMENT, message};
}

void require_equal(const char* what, int64_t left, int64_t right) {
  if (left == right) return;
  fail(std::string(what) + ": " + std::to_string(left) + " and " + std::to_string(right) +
       " do not fit");
}

// Batch dimensions of an operand, aligned at the right; `matrix_rank` dimensions are not batches.
void read_batches(const bp_arg_info& info, uint32_t matrix_rank, int operand, Nest* batches) {
  const int own = static_cast<int>(info.rank - std::min(info.rank, matrix_rank));
  const int missing = batches->rank - own;
  if (missing < 0) fail("matmul: the output has fewer dimensions than an input");
  for (int d = 0; d < own; ++d) {
    const int64_t size = info.sizes[d];
    const int to = missing + d;
    if (size != 1) require_equal("matmul: batch sizes", size, batches->sizes[to]);
    batches->strides[operand][to] = size == 1 ? 0 : info.strides[d];
  }
}

// Rows of a that follow each other over all batches are one taller matrix, if b is the same for
// all.
void merge_batches_into_rows(MatmulShape* shape) {
  Nest& batches = shape->batches;
  const bool b_is_shared = batches.rank == 1 && batches.strides[1][0] == 0;
  if (!b_is_shared || batches.count <= 1) return;
  if (shape->m == 1) shape->a_row = batches.strides[0][0];
  if (batches.strides[0][0] != shape->m * shape->a_row) return;
  shape->m *= batches.count;
  batches = Nest{};
  simplify(&batches, 2);
}

bool is_float(uint32_t dtype) { return dtype < 64 && (kFloatTypes & BP_DTYPE_BIT(dtype)) != 0; }

}  // namespace

MatmulShape make_matmul_shape(const bp_kernel_query& query) {
  const bp_arg_info& a = arg_info(query, 0);
  const bp_arg_info& b = arg_info(query, 1);
  const bp_arg_info& y = output_info(query);
  if (a.rank == 0 || b.rank == 0) fail("matmul: an operand of rank 0");
  MatmulShape shape;
  shape.k = a.sizes[a.rank - 1];
  shape.a_col = a.strides[a.rank - 1];
  if (a.rank > 1) {
    shape.m = a.sizes[a.rank - 2];
    shape.a_row = a.strides[a.rank - 2];
  }
  // A 1-D b is one column.
  const uint32_t b_row_dimension = b.rank > 1 ? b.rank - 2 : 0;
  require_equal("matmul: inner sizes", shape.k, b.sizes[b_row_dimension]);
  shape.b_row = b.strides[b_row_dimension];
  if (b.rank > 1) {
    shape.n = b.sizes[b.rank - 1];
    shape.b_col = b.strides[b.rank - 1];
  }
  const uint32_t y_matrix_rank = (a.rank > 1 ? 1u : 0u) + (b.rank > 1 ? 1u : 0u);
  if (y.rank < y_matrix_rank) fail("matmul: the output has too few dimensions");
  for (uint32_t d = 0; d + y_matrix_rank < y.rank; ++d) shape.batches.add_dimension(y.sizes[d]);
  read_batches(a, 2, 0, &shape.batches);
  read_batches(b, 2, 1, &shape.batches);
  simplify(&shape.batches, 2);
  merge_batches_into_rows(&shape);
  return shape;
}

MatmulShape make_gemm_shape(const bp_kernel_query& query, const bp_attrs_gemm& attrs) {
  const bp_arg_info& a = arg_info(query, 0);
  const bp_arg_info& b = arg_info(query, 1);
  if (a.rank != 2 || b.rank != 2) fail("gemm: a and b must have rank 2");
  const uint32_t a_row = attrs.trans_a != 0 ? 1 : 0;
  const uint32_t b_row = attrs.trans_b != 0 ? 1 : 0;
  require_equal("gemm: inner sizes", a.sizes[1 - a_row], b.sizes[b_row]);
  MatmulShape shape{.m = a.sizes[a_row],
                    .n = b.sizes[1 - b_row],
                    .k = b.sizes[b_row],
                    .a_row = a.strides[a_row],
                    .a_col = a.strides[1 - a_row],
                    .b_row = b.strides[b_row],
                    .b_col = b.strides[1 - b_row],
                    .batches = {}};
  simplify(&shape.batches, 2);
  return shape;
}

Epilogue make_epilogue(const bp_kernel_query& query, const bp_attrs_gemm& attrs,
                       const MatmulShape& shape) {
  Epilogue epilogue{.alpha = attrs.alpha, .beta = attrs.beta};
  epilogue.has_c = has_input(query, 2) && attrs.beta != 0.0;
  for (const double factor : {attrs.alpha, attrs.beta}) {
    const bool is_whole = std::trunc(factor) == factor && std::fabs(factor) <= kMaxWhole;
    if (!is_float(arg_info(query, 0).dtype) && !is_whole) {
      throw Refusal{"alpha and beta of an integer gemm must be whole numbers"};
    }
  }
  if (!epilogue.has_c) return epilogue;
  const bp_arg_info& c = arg_info(query, 2);
  if (c.rank > 2) fail("gemm: c must have rank 0 to 2");
  const int64_t wanted[] = {shape.m, shape.n};
  int64_t* const strides[] = {&epilogue.c_row, &epilogue.c_col};
  for (uint32_t d = 0; d < c.rank; ++d) {
    if (c.sizes[d] == 1) continue;
    const uint32_t to = 2 - c.rank + d;
    require_equal("gemm: sizes of c and y", c.sizes[d], wanted[to]);
    *strides[to] = c.strides[d];
  }
  return epilogue;
}

Epilogue make_epilogue(const bp_kernel_query& query, const MatmulShape& shape) {
  Epilogue epilogue{.has_c = has_input(query, 2)};
  if (!epilogue.has_c) return epilogue;
  const bp_arg_info& addend = arg_info(query, 2);
  int64_t count = 1;
  for (const int64_t size : sizes_of(addend)) count *= size;
  if (count == 1) return epilogue;
  if (count == shape.batches.count * shape.m * shape.n && is_row_major(addend)) {
    epilogue.c_row = shape.n;
    epilogue.c_col = 1;
    return epilogue;
  }
  const bool is_row =
      arg_info(query, 1).rank > 1 && count == shape.n && addend.sizes[addend.rank - 1] == shape.n;
  if (!is_row) throw Refusal{"takes an addend that is whole, or one row"};
  epilogue.c_col = addend.strides[addend.rank - 1];
  return epilogue;
}

}  // namespace bp::cpu
