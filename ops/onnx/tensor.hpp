// SPDX-License-Identifier: Apache-2.0
//
// From ONNX tensors to ours: dtype codes and values. Raw values are used where they lie in the
// file; everything about them is checked first.
#ifndef BACKPLANE_OPS_ONNX_TENSOR_HPP
#define BACKPLANE_OPS_ONNX_TENSOR_HPP

#include <cstdint>
#include <memory>
#include <span>

#include "core/base/status.hpp"
#include "core/graph/graph.hpp"
#include "ops/onnx/model.hpp"

namespace bp::onnx {

class ExternalData;

/// Where the values of a model's tensors are.
struct TensorSource {
  std::shared_ptr<const void> owner;                 // keeps the model's bytes
  std::shared_ptr<ExternalData> external_data = {};  // nullptr: other files cannot be had
  const MappedFile* file = nullptr;                  // the file that `owner` is, if it is one
};

/// BP_DTYPE_* of a TensorProto.DataType. UNSUPPORTED, naming it, for one we do not have;
/// INVALID_ARGUMENT for UNDEFINED.
Result<uint32_t> dtype_from_onnx(int64_t data_type);

/// Rank, signs and byte count of foreign sizes. INVALID_ARGUMENT, UNSUPPORTED for rank over
/// BP_MAX_RANK.
Result<Dims> checked_sizes(std::span<const int64_t> sizes, uint32_t dtype);

/// The values. They point into the file if they lie there raw and aligned for their dtype; else
/// they are a copy. Errors name the tensor: INVALID_ARGUMENT for sizes or values that do not fit
/// each other or the dtype, UNSUPPORTED for dtypes that we do not have, and external data without
/// a source of it; ExternalData's.
Result<HostTensor> tensor_values(const TensorProto& tensor, const TensorSource& source);
/// The same, but large floats stay where they are at any address.
Result<HostTensor> initializer_values(const TensorProto& tensor, const TensorSource& source);

}  // namespace bp::onnx

#endif
