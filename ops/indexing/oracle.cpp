// SPDX-License-Identifier: Apache-2.0
//
// Operators of the oracle that read or make indices.
#include <algorithm>

#include "backplane/ops/indexing.h"
#include "ops/oracle/evaluators.hpp"

namespace bp::ops {

void evaluate_gather(const OracleCall& call) {
  const OracleTensor& x = call.inputs[0];
  const OracleTensor& indices = call.inputs[1];
  OracleTensor& y = call.outputs[0];
  int64_t axis_value = attrs<bp_attrs_gather>(call.attributes).axis;
  if (axis_value < 0) axis_value += static_cast<int64_t>(x.sizes.size());
  const auto axis = static_cast<size_t>(axis_value);
  const int64_t extent = x.sizes[axis];
  const auto picks = numbers<int64_t>(indices);
  int64_t index = 0;
  for (Positions at(y.sizes); !at.done(); at.next(), ++index) {
    Dims pick_at;
    for (size_t i = 0; i < indices.sizes.size(); ++i) pick_at.push_back(at.at()[axis + i]);
    int64_t pick = picks[static_cast<size_t>(broadcast_index(indices.sizes, pick_at))];
    if (pick < 0) pick += extent;
    Dims from;
    for (size_t i = 0; i < axis; ++i) from.push_back(at.at()[i]);
    from.push_back(std::clamp<int64_t>(pick, 0, extent - 1));
    for (size_t i = axis + indices.sizes.size(); i < at.at().size(); ++i) {
      from.push_back(at.at()[i]);
    }
    copy_element(x, broadcast_index(x.sizes, from), &y, index);
  }
}

void evaluate_non_zero(const OracleCall& call) {
  const OracleTensor& x = call.inputs[0];
  std::vector<Dims> found;
  with_number(x.dtype, [&]<class N>(N) {
    const auto numbers_of_x = numbers<N>(x);
    size_t index = 0;
    for (Positions at(x.sizes); !at.done(); at.next(), ++index) {
      if (numbers_of_x[index] != 0) found.push_back(at.at());
    }
  });
  const auto count = static_cast<int64_t>(found.size());
  const auto rank = static_cast<int64_t>(x.sizes.size());
  OracleTensor& y = call.outputs[0];
  y = OracleTensor::zeros(y.dtype, Dims{rank, count});
  for (int64_t dim = 0; dim < rank; ++dim) {
    for (int64_t i = 0; i < count; ++i) {
      put<int64_t>(y, dim * count + i, found[static_cast<size_t>(i)][static_cast<size_t>(dim)]);
    }
  }
}

}  // namespace bp::ops
