// SPDX-License-Identifier: Apache-2.0
//
// Operators of the oracle that move elements: they copy bytes, so every bit arrives.
#include <algorithm>
#include <cstring>
#include <vector>

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

void evaluate_expand(const OracleCall& call) {
  const OracleTensor& x = call.inputs[0];
  OracleTensor& y = call.outputs[0];
  int64_t index = 0;
  for (Positions at(y.sizes); !at.done(); at.next(), ++index) {
    copy_element(x, broadcast_index(x.sizes, at.at()), &y, index);
  }
}

/// Walks from the first place of each dimension, as long as places are inside and before the end.
void evaluate_slice(const OracleCall& call) {
  const OracleTensor& x = call.inputs[0];
  OracleTensor& y = call.outputs[0];
  const auto starts = numbers<int64_t>(call.inputs[1]);
  const auto ends = numbers<int64_t>(call.inputs[2]);
  std::vector<std::vector<int64_t>> places(x.sizes.size());
  for (size_t dim = 0; dim < x.sizes.size(); ++dim) {
    for (int64_t place = 0; place < x.sizes[dim]; ++place) places[dim].push_back(place);
  }
  for (size_t i = 0; i < starts.size(); ++i) {
    const auto rank = static_cast<int64_t>(x.sizes.size());
    const int64_t axis =
        call.has_input(3) ? numbers<int64_t>(call.inputs[3])[i] : static_cast<int64_t>(i);
    const auto dim = static_cast<size_t>(axis < 0 ? axis + rank : axis);
    const auto size = static_cast<__int128>(x.sizes[dim]);
    const __int128 step = call.has_input(4) ? numbers<int64_t>(call.inputs[4])[i] : 1;
    __int128 place = starts[i] < 0 ? starts[i] + size : starts[i];
    __int128 end = ends[i] < 0 ? ends[i] + size : ends[i];
    // What begins outside begins at the edge, and an end before the first place is no place.
    place = step > 0 ? std::max<__int128>(place, 0) : std::min(place, size - 1);
    end = std::max<__int128>(end, step > 0 ? 0 : -1);
    places[dim].clear();
    for (; place >= 0 && place < size && (step > 0 ? place < end : place > end); place += step) {
      places[dim].push_back(static_cast<int64_t>(place));
    }
  }
  int64_t index = 0;
  for (Positions at(y.sizes); !at.done(); at.next(), ++index) {
    Dims from;
    for (size_t dim = 0; dim < places.size(); ++dim) {
      from.push_back(places[dim][static_cast<size_t>(at.at()[dim])]);
    }
    copy_element(x, broadcast_index(x.sizes, from), &y, index);
  }
}

void evaluate_concat(const OracleCall& call) {
  OracleTensor& y = call.outputs[0];
  const auto rank = static_cast<int64_t>(y.sizes.size());
  const int64_t given = attrs<bp_attrs_concat>(call.attributes).axis;
  const auto axis = static_cast<size_t>(given < 0 ? given + rank : given);
  int64_t index = 0;
  for (Positions at(y.sizes); !at.done(); at.next(), ++index) {
    Dims from = at.at();
    size_t part = 0;
    for (; from[axis] >= call.inputs[part].sizes[axis]; ++part) {
      from[axis] -= call.inputs[part].sizes[axis];
    }
    copy_element(call.inputs[part], broadcast_index(call.inputs[part].sizes, from), &y, index);
  }
}

}  // namespace bp::ops
