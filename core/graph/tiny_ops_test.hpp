// SPDX-License-Identifier: Apache-2.0
//
// A handful of operators for the tests of graphs and passes: one of each kind that the schema can
// describe, so that these tests need no real operator.
#ifndef BACKPLANE_CORE_GRAPH_TINY_OPS_TEST_HPP
#define BACKPLANE_CORE_GRAPH_TINY_OPS_TEST_HPP

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "core/graph/graph.hpp"
#include "core/op/attributes.hpp"
#include "core/op/schema.hpp"

namespace bp::tiny {

inline constexpr uint64_t kNumbers =
    BP_DTYPE_BIT(BP_DTYPE_F32) | BP_DTYPE_BIT(BP_DTYPE_I64) | BP_DTYPE_BIT(BP_DTYPE_F16);
inline constexpr TypeVar kT[] = {{"T", kNumbers}};

constexpr ArgSchema arg(std::string_view name, bool optional = false) {
  return {name, 1, 1, 0, BP_DTYPE_NONE, -1, optional, false, HostNeed::kNone};
}
constexpr ArgSchema fixed(std::string_view name, uint32_t dtype, HostNeed host = HostNeed::kNone) {
  return {name, 1, 1, -1, dtype, -1, false, false, host};
}

/// plus(a, b): equal sizes. With c it adds that too.
inline Status infer_plus(const InferContext& context, std::span<TensorType> out) {
  if (!(context.inputs[0].sizes == context.inputs[1].sizes)) {
    return {BP_INVALID_ARGUMENT, "sizes " + to_string(context.inputs[0].sizes) + " and " +
                                     to_string(context.inputs[1].sizes) + " differ"};
  }
  out[0].sizes = context.inputs[0].sizes;
  return {};
}
inline constexpr ArgSchema kPlusIn[] = {arg("a"), arg("b"), arg("c", true)};
inline constexpr ArgSchema kOneOut[] = {arg("y")};

/// resize(x, shape): the sizes are the values of shape.
inline Status infer_resize(const InferContext& context, std::span<TensorType> out) {
  const auto* shape = static_cast<const int64_t*>(context.host_data[1]);
  const Dims& shape_sizes = context.inputs[1].sizes;  // empty: its rank is not known either
  out[0].has_rank = !shape_sizes.empty() && is_known(shape_sizes[0]);
  if (!out[0].has_rank) return {};
  const size_t rank = static_cast<size_t>(context.inputs[1].sizes[0]);
  if (shape == nullptr) {
    out[0].sizes.resize(rank, kUnknownDim);
    return {};
  }
  out[0].sizes = Dims(std::span(shape, rank));
  return {};
}
inline ViewResult view_resize(const InferContext& call, const Dims& x_strides,
                              const Dims& out_sizes) {
  if (!is_contiguous(call.inputs[0].sizes, x_strides)) return {};
  return {true, contiguous_strides(out_sizes), 0};
}
inline constexpr ArgSchema kResizeIn[] = {arg("x"), fixed("shape", BP_DTYPE_I64, HostNeed::kInfer)};

/// turn(x): a matrix transposed.
inline Status infer_turn(const InferContext& context, std::span<TensorType> out) {
  if (context.inputs[0].sizes.size() != 2) return {BP_INVALID_ARGUMENT, "expected a matrix"};
  out[0].sizes = {context.inputs[0].sizes[1], context.inputs[0].sizes[0]};
  return {};
}
inline ViewResult view_turn(const InferContext&, const Dims& x_strides, const Dims&) {
  return {true, {x_strides[1], x_strides[0]}, 0};
}
inline constexpr ArgSchema kOneIn[] = {arg("x")};

/// same(x): its input.
inline Status infer_same(const InferContext& context, std::span<TensorType> out) {
  for (TensorType& type : out) type.sizes = context.inputs[0].sizes;
  return {};
}
inline ViewResult view_same(const InferContext&, const Dims& x_strides, const Dims&) {
  return {true, x_strides, 0};
}
inline constexpr ArgSchema kTwoOut[] = {arg("y"), arg("z")};

/// find(x): at most as many numbers as x has.
inline Status infer_find(const InferContext& context, std::span<TensorType> out) {
  const int64_t size = context.inputs[0].sizes[0];
  out[0].sizes = {is_known(size) ? size : kUnknownDim};
  return {};
}
inline constexpr ArgSchema kFindOut[] = {fixed("y", BP_DTYPE_I64)};

/// literal: its attribute.
struct LiteralAttributes {
  uint32_t struct_size;
  uint32_t flags;
  const bp_tensor* value;
};
inline Status infer_literal(const InferContext& context, std::span<TensorType> out) {
  const auto* attributes = static_cast<const LiteralAttributes*>(context.attributes);
  out[0].sizes = Dims(std::span(attributes->value->sizes, attributes->value->rank));
  return {};
}
inline constexpr AttrField kLiteralFields[] = {{.name = "value",
                                                .id = 1,
                                                .since = 1,
                                                .type = AttrType::kTensor,
                                                .offset_bytes = offsetof(LiteralAttributes, value),
                                                .required = true}};
inline constexpr ArgSchema kLiteralOut[] = {
    {"y", 1, 1, -1, BP_DTYPE_NONE, 0, false, false, HostNeed::kNone}};

inline OpSchema schema(std::string_view name, uint32_t id, std::span<const ArgSchema> inputs,
                       std::span<const ArgSchema> outputs, InferFn infer, ViewFn view = nullptr) {
  OpSchema row = {};
  row.name = name;
  row.id = id;
  row.version = 1;
  row.type_vars = kT;
  row.inputs = inputs;
  row.outputs = outputs;
  row.primitive = true;
  row.infer = infer;
  row.view = view;
  return row;
}

inline const OpRegistry& registry() {
  static const OpRegistry* made = [] {
    auto* ops = new OpRegistry;
    std::vector<OpSchema> rows = {
        schema("plus", 1, kPlusIn, kOneOut, infer_plus),
        schema("resize", 2, kResizeIn, kOneOut, infer_resize, view_resize),
        schema("turn", 3, kOneIn, kOneOut, infer_turn, view_turn),
        schema("same", 4, kOneIn, kOneOut, infer_same, view_same),
        schema("twice", 5, kOneIn, kTwoOut, infer_same),
        schema("find", 6, kOneIn, kFindOut, infer_find),
        schema("literal", 7, {}, kLiteralOut, infer_literal),
        schema("noise", 8, {}, kOneOut, infer_literal),
    };
    rows[5].extents = true;
    for (size_t i : {size_t{6}, size_t{7}}) {
      rows[i].attrs = kLiteralFields;
      rows[i].attrs_bytes = sizeof(LiteralAttributes);
      rows[i].constant = i == 6;
    }
    rows[7].outputs = kLiteralOut;
    for (const OpSchema& row : rows) {
      if (!ops->add(row).ok()) std::abort();
    }
    return ops;
  }();
  return *made;
}

/// A tensor of its own with these values.
template <class T>
HostTensor host_tensor(uint32_t dtype, const Dims& sizes, const std::vector<T>& values) {
  void* memory = nullptr;
  auto tensor = HostTensor::allocate(dtype, sizes, &memory);
  if (!tensor.ok() || tensor->bytes != values.size() * sizeof(T)) std::abort();
  std::memcpy(memory, values.data(), tensor->bytes);
  return *std::move(tensor);
}
inline HostTensor floats(const Dims& sizes, const std::vector<float>& values) {
  return host_tensor(BP_DTYPE_F32, sizes, values);
}
inline HostTensor numbers(const std::vector<int64_t>& values) {
  return host_tensor(BP_DTYPE_I64, {static_cast<int64_t>(values.size())}, values);
}
template <class T>
std::vector<T> values_of(const HostTensor& tensor) {
  const auto* data = static_cast<const T*>(tensor.data);
  return {data, data + tensor.bytes / sizeof(T)};
}

inline TensorType f32(const Dims& sizes) {
  return {.dtype = BP_DTYPE_F32, .has_rank = true, .sizes = sizes};
}

}  // namespace bp::tiny

#endif
