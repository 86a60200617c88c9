// SPDX-License-Identifier: Apache-2.0
//
// Adds the several nodes that one ONNX node becomes, with the first error kept: after one, every
// call answers kNoValue and finish() tells. What ops/decompose/builder.hpp is for decompositions.
#ifndef BACKPLANE_OPS_ONNX_STEPS_HPP
#define BACKPLANE_OPS_ONNX_STEPS_HPP

#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/onnx/node_import.hpp"

namespace bp::onnx {

class Steps {
 public:
  explicit Steps(NodeImport* node) : node_(node) {}

  ValueId op(std::string_view name, std::initializer_list<ValueId> inputs);
  ValueId op(std::string_view name, std::initializer_list<ValueId> inputs, Attributes attributes);
  /// Defaults of our operator, to be set and passed to op().
  Attributes attributes(std::string_view op);
  /// Defaults with what the node's rule copies.
  Attributes fields(std::string_view op);

  ValueId scalar(uint32_t dtype, double value);
  ValueId i64_list(std::span<const int64_t> values);
  /// The value itself if it has the dtype.
  ValueId cast(ValueId value, uint32_t dtype);
  ValueId reshape(ValueId value, std::span<const int64_t> shape);
  ValueId transpose(ValueId value, std::span<const int64_t> perm);

  /// Keeps the first error.
  void check(const Status& status) {
    if (status_.ok()) status_ = status;
  }
  const Status& status() const { return status_; }
  /// Makes them the node's outputs, in its order; kNoValue where it leaves one out.
  Status finish(std::vector<ValueId> outputs);

 private:
  ValueId keep(const Result<ValueId>& result);

  NodeImport* node_;
  Status status_;
};

}  // namespace bp::onnx

#endif
