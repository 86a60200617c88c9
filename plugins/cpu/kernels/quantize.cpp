// SPDX-License-Identifier: Apache-2.0
//
// quantize_linear and dequantize_linear, row by row: along a row a parameter is one element, or
// lies as x does. Written so that a compiler for any x86-64 makes vectors of the loops.
#include <algorithm>
#include <limits>
#include <span>

#include "backplane/ops/quantization.h"
#include "element.hpp"
#include "indices.hpp"
#include "math/quantize_rows.hpp"

namespace bp::cpu {
namespace {

constexpr int64_t kRowOfOne = 4096;  // elements of a row where one parameter is for all of x
constexpr int64_t kItemCost = 2;

// Where an element of a parameter is for row (outer, k) of x.
struct Parameter {
  const std::byte* data = nullptr;  // nullptr: there is none
  int64_t outer = 0;                // elements from one outer index to the next
  int64_t row = 0;                  // ... of one row to the next, after `rows` of them
  int64_t rows = 1;
  int64_t stride = 0;  // along a row

  int64_t offset(int64_t outer_index, int64_t row_index) const {
    return outer_index * outer + row_index / rows * row;
  }
};

// x as outer * rows rows.
struct Rows {
  int64_t rows = 1;
  int64_t length = 0;       // of a row
  int64_t last_length = 0;  // of the last one of each outer index
  int64_t per_outer = 0;    // elements
  Parameter scale;
  Parameter zero;
};

template <class T, class Q>
void quantize_row(const T* x, const T* scale, int64_t scale_stride, const Q* zero,
                  int64_t zero_stride, int64_t count, Q* y) {
  if constexpr (std::is_same_v<T, float>) {
    if (scale_stride == 0 && zero_stride == 0) {
      constexpr bool kIsSigned = std::is_signed_v<Q>;
      constexpr uint32_t kTo = sizeof(Q) == 1 ? (kIsSigned ? BP_DTYPE_I8 : BP_DTYPE_U8)
                                              : (kIsSigned ? BP_DTYPE_I16 : BP_DTYPE_U16);
      return quantize_row_of(kTo)(x, *scale, static_cast<float>(*zero), count, y);
    }
  }
  for (int64_t i = 0; i < count; ++i) {
    y[i] = quantized<Q>(load(x[i]), load(scale[i * scale_stride]),
                        static_cast<Compute<T>>(zero[i * zero_stride]));
  }
}

template <class T, class Q>
void dequantize_row(const Q* x, const T* scale, int64_t scale_stride, const Q* zero,
                    int64_t zero_stride, int64_t count, T* y) {
  using C = Compute<T>;
  // The difference of two i32 may need 33 bits.
  using Difference = std::conditional_t<sizeof(Q) == 4, int64_t, int32_t>;
  for (int64_t i = 0; i < count; ++i) {
    const Difference taken = zero == nullptr ? 0 : Difference{zero[i * zero_stride]};
    const C difference = static_cast<C>(Difference{x[i]} - taken);
    y[i] = store<T>(difference * load(scale[i * scale_stride]));
  }
}

// row(element of x, element of scale, element of zero_point, count) for rows [begin, end).
template <class Row>
void walk(const Rows& rows, int64_t begin, int64_t end, const Row& row) {
  for (int64_t at = begin; at < end; ++at) {
    const int64_t outer = at / rows.rows;
    const int64_t k = at % rows.rows;
    row(outer * rows.per_outer + k * rows.length, rows.scale.offset(outer, k),
        rows.zero.offset(outer, k), k + 1 < rows.rows ? rows.length : rows.last_length);
  }
}

using RunRows = void (*)(const Rows& rows, const void* x, void* y, int64_t begin, int64_t end);

template <class T, class Q>
void quantize(const Rows& rows, const void* x, void* y, int64_t begin, int64_t end) {
  const auto* const scale = reinterpret_cast<const T*>(rows.scale.data);
  const auto* const zero = reinterpret_cast<const Q*>(rows.zero.data);
  walk(rows, begin, end, [&](int64_t at, int64_t scale_at, int64_t zero_at, int64_t count) {
    quantize_row(static_cast<const T*>(x) + at, scale + scale_at, rows.scale.stride, zero + zero_at,
                 rows.zero.stride, count, static_cast<Q*>(y) + at);
  });
}

template <class T, class Q>
void dequantize(const Rows& rows, const void* x, void* y, int64_t begin, int64_t end) {
  const auto* const scale = reinterpret_cast<const T*>(rows.scale.data);
  const auto* const zero = reinterpret_cast<const Q*>(rows.zero.data);
  walk(rows, begin, end, [&](int64_t at, int64_t scale_at, int64_t zero_at, int64_t count) {
    dequantize_row(static_cast<const Q*>(x) + at, scale + scale_at, rows.scale.stride,
                   zero == nullptr ? nullptr : zero + zero_at, rows.zero.stride, count,
                   static_cast<T*>(y) + at);
  });
}

// Calls fn.operator()<T, Q>() for two dtypes.
template <class T, class Fn>
RunRows of_whole(uint32_t q, const Fn& fn) {
  if (q == BP_DTYPE_U8) return fn.template operator()<T, uint8_t>();
  if (q == BP_DTYPE_I8) return fn.template operator()<T, int8_t>();
  if (q == BP_DTYPE_U16) return fn.template operator()<T, uint16_t>();
  if (q == BP_DTYPE_I16) return fn.template operator()<T, int16_t>();
  return fn.template operator()<T, int32_t>();
}

template <class Fn>
RunRows of_types(uint32_t t, uint32_t q, const Fn& fn) {
  if (t == BP_DTYPE_F16) return of_whole<F16>(q, fn);
  if (t == BP_DTYPE_BF16) return of_whole<Bf16>(q, fn);
  if (t == BP_DTYPE_F32) return of_whole<float>(q, fn);
  return of_whole<double>(q, fn);
}

struct Call {
  const char* op;
  int64_t axis;
  int64_t block_size;
};

/// How a parameter lies; inference has checked its sizes.
Parameter parameter(const bp_tensor& tensor, const Rows& rows, int64_t inner, int64_t block) {
  Parameter result{.data = address_of(tensor)};
  if (sdk::element_count(tensor) == 1) return result;
  if (block == 0) {
    result.row = inner == 1 ? 0 : 1;
    result.stride = inner == 1 ? 1 : 0;
    return result;
  }
  // Rows are blocks where nothing lies behind the axis.
  const int64_t rows_of_block = inner == 1 ? 1 : block;
  result.rows = rows_of_block;
  result.row = inner;
  result.outer = ((rows.rows - 1) / rows_of_block + 1) * inner;
  result.stride = inner == 1 ? 0 : 1;
  return result;
}

bp_status run(const bp_launch_args& args, const Call& call, RunRows run_rows) {
  const bp_tensor& x = input_of(args, 0);
  const bp_tensor& scale = input_of(args, 1);
  const bp_tensor* const zero = args.input_count > 2 && input_of(args, 2).dtype != BP_DTYPE_NONE
                                    ? &input_of(args, 2)
                                    : nullptr;
  const int64_t count = sdk::element_count(x);
  if (count == 0) return BP_OK;
  const bool is_one =
      sdk::element_count(scale) == 1 && (zero == nullptr || sdk::element_count(*zero) == 1);
  Rows rows;
  int64_t outer = 1;
  int64_t inner = 1;
  if (is_one) {
    rows.rows = (count - 1) / kRowOfOne + 1;
    rows.length = std::min(count, kRowOfOne);
    rows.last_length = count - (rows.rows - 1) * kRowOfOne;
  } else {
    const uint32_t axis = axis_from_front(call.op, call.axis, x.rank);
    for (uint32_t d = 0; d < x.rank; ++d) {
      if (d < axis) outer *= x.sizes[d];
      if (d > axis) inner *= x.sizes[d];
    }
    const int64_t size = x.sizes[axis];
    const int64_t part = inner > 1             ? 1
                         : call.block_size > 0 ? std::min(call.block_size, size)
                                               : size;
    rows.rows = (size - 1) / part + 1;
    rows.length = part * inner;
    rows.last_length = (size - (rows.rows - 1) * part) * inner;
  }
  rows.per_outer = count / outer;
  rows.scale = parameter(scale, rows, inner, call.block_size);
  if (zero != nullptr) rows.zero = parameter(*zero, rows, inner, call.block_size);
  const int64_t cost = sdk::saturating_product({rows.length, kItemCost});
  std::byte* const y_data = address_of(output_of(args));
  const std::byte* const x_data = address_of(x);
  args.device->workers.for_ranges(
      outer * rows.rows, cost,
      [&](int64_t begin, int64_t end) noexcept { run_rows(rows, x_data, y_data, begin, end); });
  return BP_OK;
}

bp_status launch_quantize(const bp_launch_args& args) {
  const auto attrs = read_attributes(args.attributes, bp_attrs_quantize_linear_defaults());
  const RunRows rows =
      of_types(input_of(args, 0).dtype, output_of(args).dtype, []<class T, class Q>() -> RunRows {
        if constexpr (sizeof(Q) <= 2) return quantize<T, Q>;
        return nullptr;  // no such dtype in kQuantizeMasks
      });
  return run(args, {"quantize_linear", attrs.axis, attrs.block_size}, rows);
}

bp_status launch_dequantize(const bp_launch_args& args) {
  const auto attrs = read_attributes(args.attributes, bp_attrs_dequantize_linear_defaults());
  const RunRows rows = of_types(output_of(args).dtype, input_of(args, 0).dtype,
                                []<class T, class Q>() -> RunRows { return dequantize<T, Q>; });
  return run(args, {"dequantize_linear", attrs.axis, attrs.block_size}, rows);
}

constexpr uint64_t kShort = sdk::dtypes({BP_DTYPE_U8, BP_DTYPE_I8, BP_DTYPE_U16, BP_DTYPE_I16});
constexpr uint64_t kQuantizeMasks[] = {kFloatTypes, kShort};
constexpr uint64_t kDequantizeMasks[] = {kShort | sdk::dtypes({BP_DTYPE_I32}), kFloatTypes};

constexpr bp_kernel kKernels[] = {sdk::describe({.name = "quantize_rows",
                                                 .op = "quantize_linear",
                                                 .dtypes = kQuantizeMasks,
                                                 .launch = launch_slot<launch_quantize>}),
                                  sdk::describe({.name = "dequantize_rows",
                                                 .op = "dequantize_linear",
                                                 .dtypes = kDequantizeMasks,
                                                 .launch = launch_slot<launch_dequantize>})};

}  // namespace

BP_SDK_KERNELS(quantize, kKernels);

}  // namespace bp::cpu
