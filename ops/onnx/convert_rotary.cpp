// SPDX-License-Identifier: Apache-2.0
//
// RotaryEmbedding, which takes heads side by side in one dimension too.
#include <array>
#include <string>
#include <vector>

#include "core/base/dims.hpp"
#include "ops/onnx/steps.hpp"

namespace bp::onnx {

Status convert_rotary_embedding(NodeImport* node) {
  const TensorType x = node->input_type(0);
  const bool has_rank = x.has_rank && (x.sizes.size() == 3 || x.sizes.size() == 4);
  if (!has_rank) {
    return node->error(BP_INVALID_ARGUMENT,
                       "input 0 ('X'): expected a known rank of 3 or 4, found " +
                           (x.has_rank ? to_string(x.sizes) : std::string("none")));
  }
  Steps steps(node);
  const bool is_flat = x.sizes.size() == 3;
  const int64_t heads = node->i64("num_heads", 0);
  if (is_flat && (heads < 1 || (is_known(x.sizes[2]) && x.sizes[2] % heads != 0))) {
    return node->error(BP_INVALID_ARGUMENT,
                       "attribute 'num_heads': expected a divisor of the last size of " +
                           to_string(x.sizes) + ", found " + std::to_string(heads));
  }
  constexpr std::array<int64_t, 4> kSwap{0, 2, 1, 3};
  ValueId value = node->input(0);
  if (is_flat) {
    value = steps.transpose(steps.reshape(value, std::array<int64_t, 4>{0, 0, heads, -1}), kSwap);
  }
  ValueId y = steps.op("rotary_embedding", {value, node->input(1), node->input(2), node->input(3)},
                       steps.fields("rotary_embedding"));
  if (is_flat) {
    y = steps.reshape(steps.transpose(y, kSwap), std::array<int64_t, 3>{0, 0, -1});
  }
  return steps.finish({y});
}

}  // namespace bp::onnx
