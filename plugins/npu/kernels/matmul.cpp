// SPDX-License-Identifier: Apache-2.0
//
// matmul with NumPy's rules: leading dimensions broadcast, a 1-D operand is a row (left) or a
// column (right) whose dimension is not in the result. Any strides, so that a transposed operand
// needs no copy.
#include <algorithm>
#include <vector>

#include "kernels/elements.hpp"
#include "kernels/loops.hpp"

namespace bp::npu {
namespace {

/// `tensor` with a dimension of size 1 before dimension `position`.
Tensor with_unit_dimension(Tensor tensor, uint32_t position) {
  if (tensor.rank == BP_MAX_RANK) refuse("matmul: rank ", tensor.rank, " is too high");
  const auto insert = [&](Dims& dims, int64_t value) {
    std::copy_backward(dims.begin() + position, dims.begin() + tensor.rank,
                       dims.begin() + tensor.rank + 1);
    dims[position] = value;
  };
  insert(tensor.sizes, 1);
  insert(tensor.strides, 0);
  ++tensor.rank;
  return tensor;
}

/// The dimensions before the last two.
Tensor batch_of(Tensor tensor) {
  tensor.rank -= 2;
  return tensor;
}

/// The last two dimensions of a tensor.
struct Matrix {
  explicit Matrix(const Tensor& tensor)
      : rows(tensor.sizes[tensor.rank - 2]),
        columns(tensor.sizes[tensor.rank - 1]),
        row_stride(tensor.strides[tensor.rank - 2]),
        column_stride(tensor.strides[tensor.rank - 1]) {}

  int64_t rows, columns, row_stride, column_stride;
};

/// sums[n] += factor * row[n * stride]
template <class T>
void add_row(Running<T> factor, const T* row, int64_t stride, int64_t count, Running<T>* sums) {
  if (stride == 1) {  // a loop that compilers make vectors of
    for (int64_t n = 0; n < count; ++n) sums[n] += factor * load_running(row[n]);
    return;
  }
  for (int64_t n = 0; n < count; ++n) sums[n] += factor * load_running(row[n * stride]);
}

/// Terms that are summed one behind the other. More are summed half by half, so that the error
/// grows with the logarithm of their number.
constexpr int64_t kTermsInARow = 256;

/// sums[n] = the product of `terms` elements of a row of a and of column n of b.
template <class T>
void sum_row(const T* a, int64_t a_stride, const Matrix& b_shape, const T* b, int64_t terms,
             std::vector<Running<T>>* sums) {
  if (kIsFloat<T> && terms > kTermsInARow) {
    const int64_t half = terms / 2;
    sum_row(a, a_stride, b_shape, b, half, sums);
    std::vector<Running<T>> rest(sums->size());
    sum_row(a + half * a_stride, a_stride, b_shape, b + half * b_shape.row_stride, terms - half,
            &rest);
    for (size_t n = 0; n < rest.size(); ++n) (*sums)[n] += rest[n];
    return;
  }
  std::fill(sums->begin(), sums->end(), Running<T>{0});
  for (int64_t k = 0; k < terms; ++k) {
    add_row(load_running(a[k * a_stride]), b + k * b_shape.row_stride, b_shape.column_stride,
            b_shape.columns, sums->data());
  }
}

/// y = a b
template <class T>
void multiply(const Matrix& a_shape, const T* a, const Matrix& b_shape, const T* b, T* y) {
  std::vector<Running<T>> sums(static_cast<size_t>(b_shape.columns));
  for (int64_t m = 0; m < a_shape.rows; ++m, y += b_shape.columns) {
    sum_row(a + m * a_shape.row_stride, a_shape.column_stride, b_shape, b, a_shape.columns, &sums);
    std::transform(sums.begin(), sums.end(), y, store_running<T>);
  }
}

void matmul(const Launch& launch) {
  Tensor a = launch.input(0);
  Tensor b = launch.input(1);
  Tensor y = launch.output();
  if (a.rank == 0 || b.rank == 0) refuse("matmul: an operand of rank 0");
  if (b.rank == 1) {
    b = with_unit_dimension(b, 1);
    y = with_unit_dimension(y, y.rank);
  }
  if (a.rank == 1) {
    a = with_unit_dimension(a, 0);
    y = with_unit_dimension(y, y.rank - 1);
  }
  const Matrix a_shape(a);
  const Matrix b_shape(b);
  if (a_shape.columns != b_shape.rows || y.rank < 2) {
    refuse("matmul: ", a_shape.columns, " columns times ", b_shape.rows, " rows");
  }
  if (y.element_count() == 0) return;
  Numbers::with_type(y.dtype, [&]<class T>(T) {
    for_each_element(broadcast_nest(batch_of(y), batch_of(a), batch_of(b)),
                     [&](const std::array<int64_t, 3>& offsets) {
                       multiply(a_shape, a.as<T>() + offsets[1], b_shape, b.as<T>() + offsets[2],
                                y.as<T>() + offsets[0]);
                     });
  });
}

constexpr bp_kernel kKernels[] = {describe({.name = "matmul_number",
                                            .op = "matmul",
                                            .dtypes = Numbers::kDtypes,
                                            .arg_rules = sdk::kAnyStrides,
                                            .launch = launch<matmul>})};

}  // namespace

BP_SDK_KERNELS(matmul, kKernels);

}  // namespace bp::npu
