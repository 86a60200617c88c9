// SPDX-License-Identifier: Apache-2.0
//
// Builds a decomposition with the first error kept: after one, every call answers kNoValue and
// finish() tells. So a decomposition reads like the formula that it is.
#ifndef BACKPLANE_OPS_DECOMPOSE_BUILDER_HPP
#define BACKPLANE_OPS_DECOMPOSE_BUILDER_HPP

#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "core/op/graph_builder.hpp"

namespace bp::ops {

class Builder {
 public:
  /// Makes one graph input per input that is present, in order, under the schema's names.
  /// A variadic input's name is for the first of its values.
  Builder(const InferContext& context, std::initializer_list<std::string_view> input_names,
          GraphBuilder* graph);

  /// kNoValue for an absent optional input.
  ValueId input(size_t i) const { return i < inputs_.size() ? inputs_[i] : kNoValue; }
  uint32_t dtype(size_t i) const { return context_.inputs[i].dtype; }

  ValueId op(std::string_view name, std::initializer_list<ValueId> inputs);
  ValueId op(std::string_view name, std::initializer_list<ValueId> inputs, Attributes attributes);
  ValueId op(std::string_view name, std::span<const ValueId> inputs, Attributes attributes);
  /// An operator of all inputs, as they are.
  ValueId op_of_inputs(std::string_view name, Attributes attributes);
  /// All outputs of an operator that has several; after an error as many kNoValue.
  std::vector<ValueId> op_outputs(std::string_view name, std::initializer_list<ValueId> inputs,
                                  Attributes attributes);
  ValueId scalar(uint32_t dtype, double value);
  ValueId constant(HostTensor tensor);
  /// Constants of i64: of rank 0, of rank 1, and of any sizes.
  ValueId integer(int64_t value);
  ValueId list(std::span<const int64_t> values);
  ValueId integers(const Dims& sizes, std::span<const int64_t> values);
  /// 0, 1, ... for a constant; UNSUPPORTED, and none, for more numbers than a constant should hold:
  /// it lies on the host, and goes to a device whole.
  std::vector<int64_t> counted(int64_t count);
  /// The value itself if it has the dtype.
  ValueId cast(ValueId value, uint32_t dtype);
  ValueId reshape(ValueId value, std::span<const int64_t> shape);
  /// A reduction of one axis, which stays with size 1.
  ValueId reduce_axis(std::string_view name, ValueId value, int64_t axis);
  /// Of an operator that is there.
  const OpSchema& schema(std::string_view op_name) const {
    return graph_->registry().schema(*graph_->registry().find(op_name));
  }
  /// Defaults of another operator, to be set and passed to op().
  Attributes attributes(std::string_view op_name);
  /// Keeps the first error.
  void check(const Status& status) {
    if (status_.ok()) status_ = status;
  }

  /// Makes `output` the graph's one output, "y"; or several ones, in the schema's order.
  Status finish(ValueId output);
  Status finish(std::vector<ValueId> outputs);

 private:
  ValueId keep(const Result<ValueId>& result);

  const InferContext& context_;
  GraphBuilder* graph_;
  std::vector<ValueId> inputs_;
  Status status_;
};

/// What a formula of several steps is computed in: half types would round, and overflow, at each
/// step where the operator itself rounds once.
inline uint32_t working_dtype(uint32_t dtype) {
  return dtype == BP_DTYPE_F16 || dtype == BP_DTYPE_BF16 ? BP_DTYPE_F32 : dtype;
}

}  // namespace bp::ops

#endif
