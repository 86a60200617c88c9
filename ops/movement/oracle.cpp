// SPDX-License-Identifier: Apache-2.0
//
// Operators of the oracle that move elements: they copy bytes, so every bit arrives.
#include <algorithm>
#include <cstring>
#include <vector>

#include "backplane/ops/movement.h"
#include "ops/oracle/evaluators.hpp"

namespace bp::ops {
namespace {

/// Each element of output 0 is that of input 0 at from(position).
template <class From>
void move_elements(const OracleCall& call, From from) {
  const OracleTensor& x = call.inputs[0];
  OracleTensor& y = call.outputs[0];
  int64_t index = 0;
  for (Positions at(y.sizes); !at.done(); at.next(), ++index) {
    copy_element(x, broadcast_index(x.sizes, from(at.at())), &y, index);
  }
}

}  // namespace

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
  const auto perm = values(attrs<bp_attrs_transpose>(call.attributes).perm);
  move_elements(call, [&](const Dims& to) {
    Dims from;
    from.resize(to.size(), 0);
    for (size_t i = 0; i < to.size(); ++i) {
      from[perm.empty() ? to.size() - 1 - i : static_cast<size_t>(perm[i])] = to[i];
    }
    return from;
  });
}

void evaluate_expand(const OracleCall& call) {
  move_elements(call, [](const Dims& to) -> const Dims& { return to; });
}

/// Walks from the first place of each dimension, as long as places are inside and before the end.
void evaluate_slice(const OracleCall& call) {
  const OracleTensor& x = call.inputs[0];
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
    place = std::max<__int128>(step > 0 ? place : std::min(place, size - 1), 0);
    end = std::max<__int128>(end, step > 0 ? 0 : -1);
    places[dim].clear();
    for (; place >= 0 && place < size && (step > 0 ? place < end : place > end); place += step) {
      places[dim].push_back(static_cast<int64_t>(place));
    }
  }
  move_elements(call, [&](const Dims& to) {
    Dims from;
    for (size_t dim = 0; dim < places.size(); ++dim) {
      from.push_back(places[dim][static_cast<size_t>(to[dim])]);
    }
    return from;
  });
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

void evaluate_split(const OracleCall& call) {
  const OracleTensor& x = call.inputs[0];
  const auto rank = static_cast<int64_t>(x.sizes.size());
  const int64_t given = attrs<bp_attrs_split>(call.attributes).axis;
  const auto axis = static_cast<size_t>(given < 0 ? given + rank : given);
  int64_t start = 0;
  for (OracleTensor& y : call.outputs) {
    int64_t index = 0;
    for (Positions at(y.sizes); !at.done(); at.next(), ++index) {
      Dims from = at.at();
      from[axis] += start;
      copy_element(x, broadcast_index(x.sizes, from), &y, index);
    }
    start += y.sizes[axis];
  }
}

void evaluate_tile(const OracleCall& call) {
  const OracleTensor& x = call.inputs[0];
  int64_t index = 0;
  for (Positions at(call.outputs[0].sizes); !at.done(); at.next(), ++index) {
    Dims from = at.at();
    for (size_t i = 0; i < from.size(); ++i) from[i] %= x.sizes[i];
    copy_element(x, broadcast_index(x.sizes, from), &call.outputs[0], index);
  }
}

namespace {

/// Steps from where an element outside would be to the one that stands for it.
int64_t mirrored(int64_t place, int64_t extent) {
  while (place < 0 || place >= extent) {
    if (extent == 1) return 0;
    place = place < 0 ? -place : 2 * (extent - 1) - place;
  }
  return place;
}

int64_t place_in(std::string_view mode, int64_t place, int64_t extent) {
  if (mode == "reflect") return mirrored(place, extent);
  if (mode == "edge") return place < 0 ? 0 : std::min(place, extent - 1);
  while (place < 0) place += extent;
  return place % extent;
}

}  // namespace

void evaluate_pad(const OracleCall& call) {
  const OracleTensor& x = call.inputs[0];
  OracleTensor& y = call.outputs[0];
  const auto pads = numbers<int64_t>(call.inputs[1]);
  const std::string_view mode = text(attrs<bp_attrs_pad>(call.attributes).mode);
  const size_t rank = x.sizes.size();
  const size_t half = pads.size() / 2;
  Dims first;  // of x, in y; and the begin and the end of what is left of x
  Dims low;
  Dims high = x.sizes;
  first.resize(rank, 0);
  low.resize(rank, 0);
  for (size_t i = 0; i < half; ++i) {
    const int64_t axis =
        call.has_input(3) ? numbers<int64_t>(call.inputs[3])[i] : static_cast<int64_t>(i);
    const auto dim = static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis);
    first[dim] = pads[i];
    if (pads[i] < 0) low[dim] = -pads[i];
    if (pads[half + i] < 0) high[dim] += pads[half + i];
  }
  int64_t index = 0;
  for (Positions at(y.sizes); !at.done(); at.next(), ++index) {
    Dims from = at.at();
    bool inside = true;
    for (size_t i = 0; i < rank; ++i) {
      from[i] -= first[i];
      if (from[i] >= low[i] && from[i] < high[i]) continue;
      inside = false;
      if (mode != "constant") from[i] = low[i] + place_in(mode, from[i] - low[i], high[i] - low[i]);
    }
    if (inside || mode != "constant") {
      copy_element(x, broadcast_index(x.sizes, from), &y, index);
    } else if (call.has_input(2)) {
      copy_element(call.inputs[2], 0, &y, index);
    }
  }
}

void evaluate_depth_to_space(const OracleCall& call) {
  const auto& attributes = attrs<bp_attrs_depth_to_space>(call.attributes);
  const int64_t channels = call.outputs[0].sizes[1];
  const int64_t b = attributes.block_size;
  const bool depth_last = text(attributes.mode) == "DCR";
  move_elements(call, [&](const Dims& to) {
    const int64_t block = to[2] % b * b + to[3] % b;
    const int64_t channel = depth_last ? block * channels + to[1] : to[1] * b * b + block;
    return Dims{to[0], channel, to[2] / b, to[3] / b};
  });
}

void evaluate_space_to_depth(const OracleCall& call) {
  const auto& attributes = attrs<bp_attrs_space_to_depth>(call.attributes);
  const int64_t channels = call.inputs[0].sizes[1];
  const int64_t b = attributes.block_size;
  const bool depth_last = text(attributes.mode) == "DCR";
  move_elements(call, [&](const Dims& to) {
    const int64_t channel = depth_last ? to[1] % channels : to[1] / (b * b);
    const int64_t block = depth_last ? to[1] / channels : to[1] % (b * b);
    return Dims{to[0], channel, to[2] * b + block / b, to[3] * b + block % b};
  });
}

void evaluate_trilu(const OracleCall& call) {
  const OracleTensor& x = call.inputs[0];
  const bool upper = attrs<bp_attrs_trilu>(call.attributes).upper != 0;
  const int64_t k = call.has_input(1) ? numbers<int64_t>(call.inputs[1])[0] : 0;
  int64_t index = 0;
  for (Positions at(x.sizes); !at.done(); at.next(), ++index) {
    const int64_t column = at.at().back();
    const int64_t over = column - at.at()[at.at().size() - 2];
    if (upper ? over >= k : over <= k) copy_element(x, index, &call.outputs[0], index);
  }
}

}  // namespace bp::ops
