// SPDX-License-Identifier: Apache-2.0
//
// Operators of the oracle that move elements: they copy bytes, so every bit arrives.
#include <cstring>

#include "backplane/ops/movement.h"
#include "ops/oracle/evaluators.hpp"

namespace bp::ops {

void evaluate_copy(const OracleCall& call) { call.outputs[0].bytes = call.inputs[0].bytes; }

void evaluate_constant(const OracleCall& call) {
  const bp_tensor& value = *attrs<bp_attrs_constant>(call.attributes).value;
  std::vector<std::byte>& bytes = call.outputs[0].bytes;
  const auto address = static_cast<uintptr_t>(value.handle + value.offset_bytes);
  if (!bytes.empty()) {
    std::memcpy(bytes.data(), reinterpret_cast<const std::byte*>(address), bytes.size());
  }
}

void evaluate_transpose(const OracleCall& call) {
  const OracleTensor& x = call.inputs[0];
  OracleTensor& y = call.outputs[0];
  const auto perm = values(attrs<bp_attrs_transpose>(call.attributes).perm);
  const size_t rank = x.sizes.size();
  int64_t index = 0;
  for (Positions at(y.sizes); !at.done(); at.next(), ++index) {
    Dims from;
    from.resize(rank, 0);
    for (size_t i = 0; i < rank; ++i) {
      from[perm.empty() ? rank - 1 - i : static_cast<size_t>(perm[i])] = at.at()[i];
    }
    copy_element(x, broadcast_index(x.sizes, from), &y, index);
  }
}

}  // namespace bp::ops
