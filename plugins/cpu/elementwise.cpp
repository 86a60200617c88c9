// SPDX-License-Identifier: Apache-2.0
//
// Row finding for elementwise kernels. See elementwise.hpp.
#include "elementwise.hpp"

#include <cstddef>

#include "kernel_support.hpp"
#include "nest.hpp"

namespace bp::cpu {
namespace {

constexpr int64_t kNoStride = -1;

// The stride of an input that needs no nest: 1 if it runs along the whole output, 0 if it is one
// element, else kNoStride. A contiguous input with as many elements as the output has its shape.
int64_t simple_stride(const bp_tensor& input, int64_t output_count) {
  const int64_t count = sdk::element_count(input);
  if (count == 1) return 0;
  return count == output_count && is_contiguous(input) ? 1 : kNoStride;
}

int64_t bytes_of(const bp_tensor& tensor) {
  return static_cast<int64_t>(sdk::dtype_bytes(tensor.dtype));
}

}  // namespace

bp_status run_unary(const bp_launch_args& args, UnaryRow row, int64_t item_cost) {
  const bp_tensor& x = input_of(args, 0);
  const bp_tensor& y = output_of(args);
  const int64_t count = sdk::element_count(y);
  if (count == 0) return BP_OK;
  std::byte* const y_data = address_of(y);
  const std::byte* const x_data = address_of(x);
  const int64_t y_bytes = bytes_of(y);
  const int64_t x_bytes = bytes_of(x);
  Workers& workers = args.device->workers;

  const int64_t x_simple = simple_stride(x, count);
  if (x_simple != kNoStride) {
    workers.for_ranges(count, item_cost, [&](int64_t begin, int64_t end) noexcept {
      row(y_data + begin * y_bytes, x_data + begin * x_simple * x_bytes, x_simple, end - begin);
    });
    return BP_OK;
  }
  const bp_tensor* const inputs[] = {&x};
  const Nest nest = broadcast_nest(y, inputs, 1);
  const int64_t x_stride = nest.strides[1][nest.rank - 1];
  workers.for_ranges(count, item_cost, [&](int64_t begin, int64_t end) noexcept {
    walk_rows(nest, 2, begin, end, [&](const int64_t* offsets, int64_t row_count) {
      row(y_data + offsets[0] * y_bytes, x_data + offsets[1] * x_bytes, x_stride, row_count);
    });
  });
  return BP_OK;
}

bp_status run_binary(const bp_launch_args& args, BinaryRow row, int64_t item_cost) {
  const bp_tensor& a = input_of(args, 0);
  const bp_tensor& b = input_of(args, 1);
  const bp_tensor& y = output_of(args);
  const int64_t count = sdk::element_count(y);
  if (count == 0) return BP_OK;
  std::byte* const y_data = address_of(y);
  const std::byte* const a_data = address_of(a);
  const std::byte* const b_data = address_of(b);
  const int64_t bytes = bytes_of(y);
  Workers& workers = args.device->workers;

  const int64_t a_simple = simple_stride(a, count);
  const int64_t b_simple = simple_stride(b, count);
  if (a_simple != kNoStride && b_simple != kNoStride) {
    workers.for_ranges(count, item_cost, [&](int64_t begin, int64_t end) noexcept {
      row(y_data + begin * bytes, a_data + begin * a_simple * bytes, a_simple,
          b_data + begin * b_simple * bytes, b_simple, end - begin);
    });
    return BP_OK;
  }
  const bp_tensor* const inputs[] = {&a, &b};
  const Nest nest = broadcast_nest(y, inputs, 2);
  const int64_t a_stride = nest.strides[1][nest.rank - 1];
  const int64_t b_stride = nest.strides[2][nest.rank - 1];
  workers.for_ranges(count, item_cost, [&](int64_t begin, int64_t end) noexcept {
    walk_rows(nest, 3, begin, end, [&](const int64_t* offsets, int64_t row_count) {
      row(y_data + offsets[0] * bytes, a_data + offsets[1] * bytes, a_stride,
          b_data + offsets[2] * bytes, b_stride, row_count);
    });
  });
  return BP_OK;
}

}  // namespace bp::cpu
