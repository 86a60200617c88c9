// SPDX-License-Identifier: Apache-2.0
//
// Building and merging loop nests. See nest.hpp.
#include "nest.hpp"

namespace bp::cpu {
namespace {

// Whether dimension `outer` continues `inner` in the memory of every operand.
bool can_merge(const Nest& nest, int operand_count, int outer, int inner) {
  for (int k = 0; k < operand_count; ++k) {
    if (nest.strides[k][outer] != nest.strides[k][inner] * nest.sizes[inner]) return false;
  }
  return true;
}

}  // namespace

void simplify(Nest* nest, int operand_count) {
  nest->count = 1;
  int kept = 0;
  for (int d = 0; d < nest->rank; ++d) {
    nest->count *= nest->sizes[d];
    if (nest->sizes[d] == 1) continue;
    const bool merged = kept > 0 && can_merge(*nest, operand_count, kept - 1, d);
    const int to = merged ? kept - 1 : kept;
    nest->sizes[to] = merged ? nest->sizes[to] * nest->sizes[d] : nest->sizes[d];
    for (int k = 0; k < operand_count; ++k) nest->strides[k][to] = nest->strides[k][d];
    kept = to + 1;
  }
  if (kept == 0) {
    nest->sizes[0] = 1;
    for (int k = 0; k < operand_count; ++k) nest->strides[k][0] = 0;
    kept = 1;
  }
  nest->rank = kept;
}

int crossing_dimension(const Nest& nest, int operand) {
  const int64_t* const strides = nest.strides[operand];
  const int last = nest.rank - 1;
  if (strides[last] == 1) return -1;
  for (int d = 0; d < last; ++d) {
    if (strides[d] == 1) return d;
  }
  return -1;
}

void add_place(const Nest& nest, int operand_count, uint32_t left_out, int64_t index,
               int64_t* offsets) {
  for (int d = nest.rank - 2; d >= 0; --d) {
    if ((left_out >> d & 1u) != 0) continue;
    for (int k = 0; k < operand_count; ++k) {
      offsets[k] += index % nest.sizes[d] * nest.strides[k][d];
    }
    index /= nest.sizes[d];
  }
}

Nest broadcast_nest(const bp_tensor& output, const bp_tensor* const* inputs, int input_count) {
  Nest nest;
  const int rank = static_cast<int>(output.rank);
  int order[BP_MAX_RANK];
  for (int d = 0; d < rank; ++d) {
    int at = d;
    for (; at > 0 && output.strides[order[at - 1]] < output.strides[d]; --at) {
      order[at] = order[at - 1];
    }
    order[at] = d;
  }
  for (int at = 0; at < rank; ++at) {
    nest.add_dimension(output.sizes[order[at]]);
    nest.strides[0][at] = output.strides[order[at]];
  }
  for (int i = 0; i < input_count; ++i) {
    const bp_tensor& input = *inputs[i];
    const int missing = rank - static_cast<int>(input.rank);
    for (int at = 0; at < rank; ++at) {
      const int d = order[at] - missing;
      if (d >= 0 && input.sizes[d] != 1) nest.strides[i + 1][at] = input.strides[d];
    }
  }
  simplify(&nest, input_count + 1);
  return nest;
}

}  // namespace bp::cpu
