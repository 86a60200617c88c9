// SPDX-License-Identifier: Apache-2.0
//
// Operators of the oracle that read or make indices.
#include <algorithm>

#include "backplane/ops/indexing.h"
#include "ops/indexing/reduction.hpp"
#include "ops/oracle/evaluators.hpp"

namespace bp::ops {
namespace {

/// From the front and within the extent, which is at least 1.
int64_t clamped(int64_t index, int64_t extent) {
  return std::clamp<int64_t>(index < 0 ? index + extent : index, 0, extent - 1);
}

/// How many elements there are along the dimensions from `first` on.
int64_t slice_count(const Dims& sizes, size_t first) {
  return element_count(std::span(sizes.data() + first, sizes.size() - first));
}

size_t axis_of(int64_t axis, const Dims& sizes) {
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(sizes.size()) : axis);
}

/// The position in x that row `row` of indices names, behind `batch`, the first dimensions'; those
/// behind what it names are 0.
Dims point_of(const std::vector<int64_t>& indices, int64_t row, int64_t count, const Dims& batch,
              const Dims& x_sizes) {
  Dims point = batch;
  for (int64_t i = 0; i < count; ++i) {
    point.push_back(clamped(indices[static_cast<size_t>(row * count + i)], x_sizes[point.size()]));
  }
  while (point.size() < x_sizes.size()) point.push_back(0);
  return point;
}

template <class N>
N combined(ScatterReduction reduction, N held, N update) {
  switch (reduction) {
    case ScatterReduction::kAdd:
      return plus(held, update);
    case ScatterReduction::kMul:
      return times(held, update);
    case ScatterReduction::kMax:
      return larger(held, update);
    case ScatterReduction::kMin:
      if (held != held) return held;
      return update != update || update < held ? update : held;
    default:
      return update;
  }
}

/// Copies x, and then brings each update to its place, which `place_of` gives for the number of the
/// update in row-major order. Rounded once, at the end.
template <class PlaceOf>
void scatter(const OracleCall& call, bp_str name, const PlaceOf& place_of) {
  const OracleTensor& updates = call.inputs[2];
  OracleTensor& y = call.outputs[0];
  y.bytes = call.inputs[0].bytes;
  const ScatterReduction reduction = *scatter_reduction({name.ptr, name.len});
  if (reduction == ScatterReduction::kNone) {
    for (int64_t i = 0; i < updates.count(); ++i) copy_element(updates, i, &y, place_of(i));
    return;
  }
  with_number(y.dtype, [&]<class N>(N) {
    auto held = numbers<N>(y);
    const auto values = numbers<N>(updates);
    std::vector<bool> met(held.size(), false);
    for (int64_t i = 0; i < updates.count(); ++i) {
      const auto place = static_cast<size_t>(place_of(i));
      held[place] = combined(reduction, held[place], values[static_cast<size_t>(i)]);
      met[place] = true;
    }
    // What no update met keeps its bits.
    for (size_t place = 0; place < held.size(); ++place) {
      if (met[place]) put<N>(y, static_cast<int64_t>(place), held[place]);
    }
  });
}

}  // namespace

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

void evaluate_gather_elements(const OracleCall& call) {
  const OracleTensor& x = call.inputs[0];
  const OracleTensor& indices = call.inputs[1];
  const size_t axis = axis_of(attrs<bp_attrs_gather_elements>(call.attributes).axis, x.sizes);
  const auto picks = numbers<int64_t>(indices);
  int64_t index = 0;
  for (Positions at(indices.sizes); !at.done(); at.next(), ++index) {
    Dims from = at.at();
    from[axis] = clamped(picks[static_cast<size_t>(index)], x.sizes[axis]);
    copy_element(x, broadcast_index(x.sizes, from), &call.outputs[0], index);
  }
}

void evaluate_gather_nd(const OracleCall& call) {
  const OracleTensor& x = call.inputs[0];
  const OracleTensor& indices = call.inputs[1];
  const auto batch_dims =
      static_cast<size_t>(attrs<bp_attrs_gather_nd>(call.attributes).batch_dims);
  const auto picks = numbers<int64_t>(indices);
  const int64_t count = indices.sizes.back();
  Dims rows = indices.sizes;
  rows.resize(rows.size() - 1);
  const int64_t slice = slice_count(x.sizes, batch_dims + static_cast<size_t>(count));
  int64_t row = 0;
  for (Positions at(rows); !at.done(); at.next(), ++row) {
    const Dims batch(std::span(at.at().data(), batch_dims));
    const int64_t from = broadcast_index(x.sizes, point_of(picks, row, count, batch, x.sizes));
    for (int64_t i = 0; i < slice; ++i) {
      copy_element(x, from + i, &call.outputs[0], row * slice + i);
    }
  }
}

void evaluate_scatter_elements(const OracleCall& call) {
  const Dims& sizes = call.inputs[0].sizes;
  const OracleTensor& indices = call.inputs[1];
  const auto& attributes = attrs<bp_attrs_scatter_elements>(call.attributes);
  const size_t axis = axis_of(attributes.axis, sizes);
  const auto picks = numbers<int64_t>(indices);
  std::vector<int64_t> places;
  for (Positions at(indices.sizes); !at.done(); at.next()) {
    Dims to = at.at();
    to[axis] = clamped(picks[places.size()], sizes[axis]);
    places.push_back(broadcast_index(sizes, to));
  }
  scatter(call, attributes.reduction, [&](int64_t i) { return places[static_cast<size_t>(i)]; });
}

void evaluate_scatter_nd(const OracleCall& call) {
  const Dims& sizes = call.inputs[0].sizes;
  const OracleTensor& indices = call.inputs[1];
  const auto picks = numbers<int64_t>(indices);
  const int64_t count = indices.sizes.back();
  const int64_t slice = slice_count(sizes, static_cast<size_t>(count));
  scatter(call, attrs<bp_attrs_scatter_nd>(call.attributes).reduction, [&](int64_t i) {
    return broadcast_index(sizes, point_of(picks, i / slice, count, {}, sizes)) + i % slice;
  });
}

void evaluate_compress(const OracleCall& call) {
  const OracleTensor& x = call.inputs[0];
  const size_t axis = axis_of(attrs<bp_attrs_compress>(call.attributes).axis, x.sizes);
  std::vector<int64_t> kept;
  const auto condition = numbers<int64_t>(call.inputs[1]);
  for (size_t i = 0; i < condition.size(); ++i) {
    if (condition[i] != 0) kept.push_back(static_cast<int64_t>(i));
  }
  Dims sizes = x.sizes;
  sizes[axis] = static_cast<int64_t>(kept.size());
  OracleTensor& y = call.outputs[0];
  y = OracleTensor::zeros(y.dtype, sizes);
  int64_t index = 0;
  for (Positions at(sizes); !at.done(); at.next(), ++index) {
    Dims from = at.at();
    from[axis] = kept[static_cast<size_t>(from[axis])];
    copy_element(x, broadcast_index(x.sizes, from), &y, index);
  }
}

void evaluate_one_hot(const OracleCall& call) {
  const OracleTensor& indices = call.inputs[0];
  OracleTensor& y = call.outputs[0];
  const size_t axis = axis_of(attrs<bp_attrs_one_hot>(call.attributes).axis, y.sizes);
  const int64_t depth = y.sizes[axis];
  const auto picks = numbers<int64_t>(indices);
  int64_t index = 0;
  for (Positions at(y.sizes); !at.done(); at.next(), ++index) {
    Dims of_pick;
    for (size_t i = 0; i < at.at().size(); ++i) {
      if (i != axis) of_pick.push_back(at.at()[i]);
    }
    const int64_t pick = picks[static_cast<size_t>(broadcast_index(indices.sizes, of_pick))];
    const bool is_on = at.at()[axis] == (pick < 0 ? pick + depth : pick);
    copy_element(call.inputs[2], is_on ? 1 : 0, &y, index);
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
