// SPDX-License-Identifier: Apache-2.0
//
// Epilogues: a call that does the work of an operator and of the one reader of its output.
// What is possible is the operator's to say (OpSchema::absorb); whether it is done, a pass decides.
#ifndef BACKPLANE_CORE_OP_ABSORB_HPP
#define BACKPLANE_CORE_OP_ABSORB_HPP

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/op/attributes.hpp"
#include "core/op/graph_builder.hpp"
#include "core/op/schema.hpp"

namespace bp {

/// A call and the one reader of its output 0. Host data is there for constants.
struct AbsorbContext {
  const OpRegistry& registry;
  const OpSchema& schema;
  const InferContext& call;
  const TensorType& output;
  const OpSchema& reader;
  const InferContext& reader_call;
  size_t reader_input;  // which input of the reader the output is
  /// Inputs with the same number are the same value.
  std::span<const ValueId> call_values;
  std::span<const ValueId> reader_values;
};

/// A call that gives what the reader gave: all inputs of the operator, with these attributes.
struct Absorbed {
  Attributes attributes;
  /// Inputs of the reader that become inputs of the call, and which.
  std::vector<std::pair<size_t, size_t>> inputs;
  std::optional<OpId> op = {};  // of that call; nullopt: the operator that absorbs
};

}  // namespace bp

#endif
