// SPDX-License-Identifier: Apache-2.0
//
// Inference as one line of text, so that a test is a list of calls and what they say. It goes
// through infer_types, as every caller does.
#ifndef BACKPLANE_OPS_INFER_INFER_TEST_SUPPORT_HPP
#define BACKPLANE_OPS_INFER_INFER_TEST_SUPPORT_HPP

#include <string>
#include <string_view>
#include <vector>

#include "backplane/ops/attributes.h"
#include "core/base/dtype.hpp"
#include "core/op/schema.hpp"
#include "ops/register.hpp"

namespace bp::ops {

inline constexpr int64_t kU = kUnknownDim;
inline constexpr int64_t kN = symbol_dim(0);
inline constexpr int64_t kM = symbol_dim(1);

inline const OpSchema& schema_of(std::string_view name) {
  for (const OpSchema& schema : all_schemas()) {
    if (schema.name == name) return schema;
  }
  return all_schemas().front();
}

inline TensorType typed(uint32_t dtype, Dims sizes) {
  return {.dtype = dtype, .has_rank = true, .sizes = sizes};
}
inline TensorType f32(Dims sizes) { return typed(BP_DTYPE_F32, sizes); }
inline TensorType no_rank(uint32_t dtype = BP_DTYPE_F32) {
  return {.dtype = dtype, .has_rank = false, .sizes = {}};
}

/// Views a vector that outlives the use.
inline bp_i64_span list(const std::vector<int64_t>& values) {
  return {values.data(), values.size()};
}

/// "f32[2, ?]" of the first output, "f32[...]" without rank, or the error's words.
inline std::string inferred(std::string_view op, const std::vector<TensorType>& inputs,
                            const void* attributes = nullptr,
                            std::vector<const void*> host_data = {}) {
  host_data.resize(inputs.size(), nullptr);
  std::vector<TensorType> outputs;
  const Status status =
      infer_types(schema_of(op),
                  {.inputs = inputs, .host_data = host_data, .attributes = attributes}, &outputs);
  if (!status.ok()) return status.message();
  const std::string dtype(dtype_name(outputs[0].dtype));
  return dtype + (outputs[0].has_rank ? to_string(outputs[0].sizes) : "[...]");
}

}  // namespace bp::ops

#endif
