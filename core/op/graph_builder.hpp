// SPDX-License-Identifier: Apache-2.0
//
// What builds a graph needs of one: decompositions belong to operators, which stand below graphs.
#ifndef BACKPLANE_CORE_OP_GRAPH_BUILDER_HPP
#define BACKPLANE_CORE_OP_GRAPH_BUILDER_HPP

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/status.hpp"
#include "core/op/attributes.hpp"
#include "core/op/host_tensor.hpp"
#include "core/op/schema.hpp"

namespace bp {

using ValueId = uint32_t;
inline constexpr ValueId kNoValue = UINT32_MAX;  // an absent optional input

/// A graph while it is built: single assignment, in the order in which nodes can run. A call that
/// fails leaves it as it was.
class GraphBuilder {
 public:
  virtual const OpRegistry& registry() const = 0;
  /// The type of a value that one of the functions below gave.
  virtual const TensorType& type(ValueId id) const = 0;

  /// Errors: INVALID_ARGUMENT for a name that is taken, sizes that overflow, or a constant whose
  /// bytes do not match its sizes.
  virtual Result<ValueId> add_input(std::string_view name, TensorType type) = 0;
  virtual Result<ValueId> add_constant(std::string_view name, HostTensor tensor) = 0;
  /// An unnamed constant of rank 0. Float dtypes round to nearest even; integers truncate and
  /// saturate; bool is value != 0. UNSUPPORTED for dtypes below 8 bits, and of 8-bit floats.
  virtual Result<ValueId> add_scalar(uint32_t dtype, double value) = 0;
  /// Adds an operator behind all others, and infers its outputs, which it gives in order.
  /// Errors: INVALID_ARGUMENT for a name that is not registered, arity, dtypes, inference.
  virtual Result<std::vector<ValueId>> op_outputs(std::string_view op_name,
                                                  std::span<const ValueId> inputs,
                                                  Attributes attributes) = 0;
  /// The first of them: most operators have one.
  Result<ValueId> op(std::string_view op_name, std::span<const ValueId> inputs,
                     Attributes attributes) {
    BP_TRY_ASSIGN(const std::vector<ValueId> outputs,
                  op_outputs(op_name, inputs, std::move(attributes)));
    return outputs[0];
  }
  /// One name for each output; a value may be an output under several names.
  /// Errors: INVALID_ARGUMENT for a value that is not there, or a name given twice.
  virtual Status set_outputs(std::vector<ValueId> outputs, std::vector<std::string> names) = 0;

 protected:
  GraphBuilder() = default;
  GraphBuilder(const GraphBuilder&) = default;
  GraphBuilder& operator=(const GraphBuilder&) = default;
  GraphBuilder(GraphBuilder&&) = default;
  GraphBuilder& operator=(GraphBuilder&&) = default;
  ~GraphBuilder() = default;
};

}  // namespace bp

#endif
