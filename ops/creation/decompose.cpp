// SPDX-License-Identifier: Apache-2.0
//
// Values that follow from types and host arguments, as constants.
#include <cstring>
#include <utility>

#include "backplane/ops/creation.h"
#include "core/base/dtype.hpp"
#include "core/op/scalar.hpp"
#include "ops/creation/range.hpp"
#include "ops/decompose/builder.hpp"

namespace bp::ops {
namespace {

// Beyond that a constant is no way to make values: it lies on the host, and goes to a device whole.
constexpr uint64_t kMostBytes = 64 << 20;

Result<HostTensor> constant_of(uint32_t dtype, const Dims& sizes, void** out_data) {
  const uint64_t bytes = dtype_storage_bytes(dtype, element_count({sizes.data(), sizes.size()}));
  if (bytes > kMostBytes) {
    return Status(BP_UNSUPPORTED, "more values than a constant holds");
  }
  return HostTensor::allocate(dtype, sizes, out_data);
}

/// The value number `index`, as an element.
Status write_value(const RangeOf<double>& range, uint32_t dtype, int64_t index, void* out) {
  return write_scalar(dtype, range.start + static_cast<double>(index) * range.delta, out);
}

/// The low bytes of an integer are those of its dtype.
Status write_value(const RangeOf<WideInt>& range, uint32_t dtype, int64_t index, void* out) {
  const WideInt value = range.start + index * range.delta;
  std::memcpy(out, &value, dtype_storage_bytes(dtype, 1));
  return {};
}

}  // namespace

Status decompose_range(const InferContext& context, GraphBuilder* graph) {
  BP_TRY_ASSIGN(const auto values, read_range(context));
  if (!values) return {BP_UNSUPPORTED, "start, limit and delta are not known"};
  BP_TRY_ASSIGN(const int64_t count, range_count(*values));
  const uint32_t dtype = context.inputs[0].dtype;
  void* data = nullptr;
  BP_TRY_ASSIGN(HostTensor tensor, constant_of(dtype, {count}, &data));
  const uint64_t bytes = dtype_storage_bytes(dtype, 1);
  auto* next = static_cast<std::byte*>(data);
  for (int64_t i = 0; i < count; ++i) {
    BP_TRY(
        std::visit([&](const auto& range) { return write_value(range, dtype, i, next); }, *values));
    next += bytes;
  }
  Builder builder(context, {"start", "limit", "delta"}, graph);
  return builder.finish(builder.constant(std::move(tensor)));
}

Status decompose_eye_like(const InferContext& context, GraphBuilder* graph) {
  const TensorType& x = context.inputs[0];
  if (!x.has_rank || !all_known(x.sizes)) return {BP_UNSUPPORTED, "the sizes of x are not known"};
  const auto& attributes = attrs<bp_attrs_eye_like>(context.attributes);
  const auto dtype = static_cast<uint32_t>(attributes.dtype);
  void* data = nullptr;
  BP_TRY_ASSIGN(HostTensor tensor, constant_of(dtype, x.sizes, &data));
  const uint64_t bytes = dtype_storage_bytes(dtype, 1);
  const int64_t rows = x.sizes[0];
  const int64_t columns = x.sizes[1];
  for (int64_t row = 0; row < rows; ++row) {
    // No sum with k: it may be any number.
    const bool is_there = attributes.k < columns - row && attributes.k >= -row;
    if (!is_there) continue;
    auto* place = static_cast<std::byte*>(data) +
                  static_cast<uint64_t>(row * columns + row + attributes.k) * bytes;
    BP_TRY(write_scalar(dtype, 1, place));
  }
  Builder builder(context, {"x"}, graph);
  return builder.finish(builder.constant(std::move(tensor)));
}

}  // namespace bp::ops
