// SPDX-License-Identifier: Apache-2.0
//
// Epilogues: an operator that can do the work of the one reader of its output in the same call.
// What is possible is the operator's to say (OpSchema::absorb); whether it is done, a pass decides.
#ifndef BACKPLANE_CORE_OP_ABSORB_HPP
#define BACKPLANE_CORE_OP_ABSORB_HPP

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "core/op/attributes.hpp"
#include "core/op/schema.hpp"

namespace bp {

/// A call and the one reader of its output 0. Host data is there for constants.
struct AbsorbContext {
  const OpSchema& schema;
  const InferContext& call;
  const TensorType& output;
  const OpSchema& reader;
  const InferContext& reader_call;
  size_t reader_input;  // which input of the reader the output is
};

/// A call of the operator that gives what the reader gave: all its inputs, with these attributes.
struct Absorbed {
  Attributes attributes;
  /// Inputs of the reader that become inputs of the operator, and which.
  std::vector<std::pair<size_t, size_t>> inputs;
};

}  // namespace bp

#endif
