// SPDX-License-Identifier: Apache-2.0
//
// Matrix products as their kernels see them: matmul with its broadcast batches and 1-D operands,
// and gemm with its transpositions, become one description with strides.
#ifndef BACKPLANE_PLUGINS_CPU_MATMUL_SHAPE_HPP
#define BACKPLANE_PLUGINS_CPU_MATMUL_SHAPE_HPP

#include "backplane/ops/linalg.h"
#include "kernel_support.hpp"
#include "nest.hpp"

namespace bp::cpu {

/// y [m, n] = a [m, k] * b [k, n] for each batch. Strides in elements, any sign. y is contiguous.
struct MatmulShape {
  int64_t m = 1;
  int64_t n = 1;
  int64_t k = 1;
  int64_t a_row = 0;
  int64_t a_col = 0;
  int64_t b_row = 0;
  int64_t b_col = 0;
  Nest batches;  // operands: a, b; stride 0 where one repeats

  bool is_empty() const { return batches.count == 0 || m == 0 || n == 0 || k == 0; }
  double multiply_add_count() const {
    return static_cast<double>(batches.count) * static_cast<double>(m) * static_cast<double>(n) *
           static_cast<double>(k);
  }
};

/// What gemm does with a product: y = alpha * product + beta * c. matmul's addend is such a c, for
/// the rows of all batches.
struct Epilogue {
  double alpha = 1.0;
  double beta = 1.0;
  bool has_c = false;  // c is read: it is there and beta is not 0
  int64_t c_row = 0;   // strides in elements, 0 where c is broadcast
  int64_t c_col = 0;

  bool is_nothing() const { return alpha == 1.0 && !has_c; }
};

/// Both throw Failure (INVALID_ARGUMENT) for sizes that contradict each other.
MatmulShape make_matmul_shape(const bp_kernel_query& query);
MatmulShape make_gemm_shape(const bp_kernel_query& query, const bp_attrs_gemm& attrs);

/// Of matmul. Refuses an addend that neither is one number, nor one row, nor whole without gaps.
Epilogue make_epilogue(const bp_kernel_query& query, const MatmulShape& shape);
/// Of gemm. Throws Failure (INVALID_ARGUMENT) for a c that does not broadcast to [m, n], Refusal
/// for factors of an integer product that are not whole numbers.
Epilogue make_epilogue(const bp_kernel_query& query, const bp_attrs_gemm& attrs,
                       const MatmulShape& shape);

}  // namespace bp::cpu

#endif
