// SPDX-License-Identifier: Apache-2.0
//
// Elementwise operators that one operator with a name of its own stands for.
#include "core/op/absorb.hpp"

namespace bp::ops {

// x sigmoid(x), which most exporters write for SiLU, is swish: one walk, and a product's
// activation.
std::optional<Absorbed> absorb_sigmoid(const AbsorbContext& context) {
  if (context.reader.name != "mul") return std::nullopt;
  const size_t other = 1 - context.reader_input;
  if (context.reader_values[other] != context.call_values[0]) return std::nullopt;
  const OpId swish = *context.registry.find("swish");
  return Absorbed{
      .attributes = Attributes(context.registry.schema(swish)), .inputs = {}, .op = swish};
}

}  // namespace bp::ops
