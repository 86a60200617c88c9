// SPDX-License-Identifier: Apache-2.0
//
// Which outputs can alias their input's memory, and with which strides.
#include <algorithm>

#include "backplane/ops/movement.h"
#include "ops/infer/common.hpp"

namespace bp::ops {

/// The same elements in row-major order in other sizes. Dimensions of x that lie evenly behind each
/// other form a chunk; each chunk must be the product of whole dimensions of y.
ViewResult view_row_major(const InferContext& call, const Dims& x_strides, const Dims& out_sizes) {
  const Dims& x_sizes = call.inputs[0].sizes;
  if (x_sizes.empty() || std::find(x_sizes.begin(), x_sizes.end(), 0) != x_sizes.end()) {
    return {.possible = true, .strides = contiguous_strides(out_sizes), .offset = 0};
  }
  ViewResult view;
  view.strides.resize(out_sizes.size());
  size_t out_dim = out_sizes.size();  // those from here on are done
  int64_t chunk_stride = x_strides.back();
  int64_t x_count = 1;  // elements of the chunk, and how many of them y's dimensions cover
  int64_t out_count = 1;
  for (size_t dim = x_sizes.size(); dim-- > 0;) {
    x_count *= x_sizes[dim];
    const bool chunk_goes_on =
        dim > 0 && (x_sizes[dim - 1] == 1 || x_strides[dim - 1] == x_count * chunk_stride);
    if (chunk_goes_on) continue;
    while (out_dim > 0 && (out_count < x_count || out_sizes[out_dim - 1] == 1)) {
      --out_dim;
      view.strides[out_dim] = out_count * chunk_stride;
      out_count *= out_sizes[out_dim];
    }
    if (out_count != x_count) return view;
    if (dim > 0) chunk_stride = x_strides[dim - 1];
    x_count = 1;
    out_count = 1;
  }
  view.possible = true;
  return view;
}

ViewResult view_transpose(const InferContext& call, const Dims& x_strides, const Dims& out_sizes) {
  const auto perm = values(attrs<bp_attrs_transpose>(call.attributes).perm);
  ViewResult view{.possible = true, .strides = {}, .offset = 0};
  const size_t rank = out_sizes.size();
  for (size_t i = 0; i < rank; ++i) {
    view.strides.push_back(x_strides[perm.empty() ? rank - 1 - i : static_cast<size_t>(perm[i])]);
  }
  return view;
}

/// Dimensions that repeat have the stride 0.
ViewResult view_expand(const InferContext& call, const Dims& x_strides, const Dims& out_sizes) {
  const Dims& x_sizes = call.inputs[0].sizes;
  const size_t added = out_sizes.size() - x_sizes.size();
  ViewResult view{.possible = true, .strides = {}, .offset = 0};
  for (size_t i = 0; i < out_sizes.size(); ++i) {
    const bool repeats = i < added || (x_sizes[i - added] == 1 && out_sizes[i] != 1);
    view.strides.push_back(repeats ? 0 : x_strides[i - added]);
  }
  return view;
}

ViewResult view_same(const InferContext&, const Dims& x_strides, const Dims&) {
  return {.possible = true, .strides = x_strides, .offset = 0};
}

}  // namespace bp::ops
