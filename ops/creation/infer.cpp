// SPDX-License-Identifier: Apache-2.0
//
// Inference of operators that make tensors; see range.hpp.
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "backplane/ops/creation.h"
#include "core/base/dtype.hpp"
#include "ops/creation/range.hpp"

namespace bp::ops {
namespace {

constexpr std::string_view kNames[] = {"start", "limit", "delta"};
// check_sizes() refuses more, with words of its own.
constexpr int64_t kMostValues = std::numeric_limits<int64_t>::max();

Status check_scalar(const InferContext& context, size_t index) {
  const TensorType& type = context.inputs[index];
  const bool is_one = !type.has_rank || type.sizes.empty() ||
                      (type.sizes.size() == 1 && (!is_known(type.sizes[0]) || type.sizes[0] == 1));
  return is_one ? Status() : input_error(kNames[index], expected_found("one number", type.sizes));
}

double half_value(uint16_t bits, int mantissa_bits, int exponent_bias) {
  const int exponent = (bits & 0x7fff) >> mantissa_bits;
  const int fraction = bits & ((1 << mantissa_bits) - 1);
  const int last = (0x7fff >> mantissa_bits);
  double value = 0;
  if (exponent == last) {
    value = fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                          : std::numeric_limits<double>::infinity();
  } else if (exponent == 0) {
    value = std::ldexp(fraction, 1 - exponent_bias - mantissa_bits);
  } else {
    value = std::ldexp((1 << mantissa_bits) + fraction, exponent - exponent_bias - mantissa_bits);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

template <class T>
T read_as(const void* data) {
  T value{};
  std::memcpy(&value, data, sizeof(value));
  return value;
}

double read_float(uint32_t dtype, const void* data) {
  switch (dtype) {
    case BP_DTYPE_F16:
      return half_value(read_as<uint16_t>(data), 10, 15);
    case BP_DTYPE_BF16:
      return half_value(read_as<uint16_t>(data), 7, 127);
    case BP_DTYPE_F32:
      return double{read_as<float>(data)};
    default:
      return read_as<double>(data);
  }
}

WideInt read_integer(uint32_t dtype, const void* data) {
  switch (dtype) {
    case BP_DTYPE_I8:
      return read_as<int8_t>(data);
    case BP_DTYPE_I16:
      return read_as<int16_t>(data);
    case BP_DTYPE_I32:
      return read_as<int32_t>(data);
    case BP_DTYPE_I64:
      return read_as<int64_t>(data);
    case BP_DTYPE_U8:
      return read_as<uint8_t>(data);
    case BP_DTYPE_U16:
      return read_as<uint16_t>(data);
    case BP_DTYPE_U32:
      return read_as<uint32_t>(data);
    default:
      return read_as<uint64_t>(data);
  }
}

Result<int64_t> count_of(const RangeOf<double>& range) {
  for (const auto& [name, value] :
       {std::pair(kNames[0], range.start), std::pair(kNames[1], range.limit),
        std::pair(kNames[2], range.delta)}) {
    if (!std::isfinite(value)) {
      return input_error(name, expected_found("a finite number", std::to_string(value)));
    }
  }
  const double count = std::ceil((range.limit - range.start) / range.delta);
  if (!(count > 0)) return 0;
  return count < 0x1p62 ? static_cast<int64_t>(count) : kMostValues;
}

Result<int64_t> count_of(const RangeOf<WideInt>& range) {
  const WideInt step = range.delta < 0 ? -range.delta : range.delta;
  const WideInt distance = range.delta < 0 ? range.start - range.limit : range.limit - range.start;
  if (distance <= 0) return 0;
  const WideInt count = (distance - 1) / step + 1;
  return count < kMostValues ? static_cast<int64_t>(count) : kMostValues;
}

}  // namespace

Result<std::optional<RangeValues>> read_range(const InferContext& context) {
  for (size_t i = 0; i < 3; ++i) BP_TRY(check_scalar(context, i));
  for (size_t i = 0; i < 3; ++i) {
    if (i >= context.host_data.size() || context.host_data[i] == nullptr) {
      return std::optional<RangeValues>();
    }
  }
  const uint32_t dtype = context.inputs[0].dtype;
  const auto values = context.host_data;
  if (is_float_dtype(dtype)) {
    return std::optional<RangeValues>(RangeOf<double>{
        read_float(dtype, values[0]), read_float(dtype, values[1]), read_float(dtype, values[2])});
  }
  return std::optional<RangeValues>(RangeOf<WideInt>{read_integer(dtype, values[0]),
                                                     read_integer(dtype, values[1]),
                                                     read_integer(dtype, values[2])});
}

Result<int64_t> range_count(const RangeValues& values) {
  const bool stands_still = std::visit([](const auto& range) { return range.delta == 0; }, values);
  if (stands_still) return input_error("delta", "expected a number other than 0, found 0");
  return std::visit([](const auto& range) { return count_of(range); }, values);
}

Status infer_range(const InferContext& context, std::span<TensorType> out_types) {
  BP_TRY_ASSIGN(const auto values, read_range(context));
  int64_t count = kUnknownDim;
  if (values) {
    BP_TRY_ASSIGN(count, range_count(*values));
  }
  out_types[0].sizes = Dims{count};
  return {};
}

Status infer_eye_like(const InferContext& context, std::span<TensorType> out_types) {
  BP_TRY_ASSIGN(out_types[0].sizes, sizes_of_rank("x", context.inputs[0], 2));
  return {};
}

}  // namespace bp::ops
