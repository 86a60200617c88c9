// SPDX-License-Identifier: Apache-2.0
//
// Inside ops/onnx: constants that converters make, and those that they read.
#ifndef BACKPLANE_OPS_ONNX_VALUES_HPP
#define BACKPLANE_OPS_ONNX_VALUES_HPP

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dims.hpp"
#include "ops/onnx/node_import.hpp"

namespace bp::onnx {

/// A constant tensor with the bytes of `values`.
template <class T>
Result<HostTensor> tensor_of(uint32_t dtype, const Dims& sizes, std::span<const T> values) {
  void* memory = nullptr;
  BP_TRY_ASSIGN(HostTensor tensor, HostTensor::allocate(dtype, sizes, &memory));
  if (!values.empty()) std::memcpy(memory, values.data(), values.size_bytes());
  return tensor;
}

template <class T>
Result<HostTensor> list_of(uint32_t dtype, const std::vector<T>& values) {
  return tensor_of<T>(dtype, {static_cast<int64_t>(values.size())}, values);
}

/// "input 1 ('axes')"
std::string input_label(size_t index, std::string_view name);

/// The values of an input that must be a constant list of i64.
Result<std::vector<int64_t>> constant_list(const NodeImport& node, size_t index,
                                           std::string_view name);

/// The dtype of arithmetic on floats of all these dtypes: theirs if it is one, else f64 where one
/// of them is, else f32.
uint32_t widest_float(std::initializer_list<uint32_t> dtypes);

/// Input `index` as a list: a scalar is one of one value. ONNX asks for a list, but PyTorch exports
/// scalars and ONNX Runtime reads them. kNoValue if it is absent.
Result<ValueId> list_input(NodeImport* node, size_t index);

/// Input `index` as i64: what it is, or its i32 widened. kNoValue if it is absent.
Result<ValueId> index_input(NodeImport* node, size_t index);

}  // namespace bp::onnx

#endif
