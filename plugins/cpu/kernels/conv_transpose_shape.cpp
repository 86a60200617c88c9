// SPDX-License-Identifier: Apache-2.0
//
// Reading and checking a transposed convolution. See conv_transpose_shape.hpp.
#include "conv_transpose_shape.hpp"

#include <algorithm>
#include <string_view>

#include "backplane/ops/nn.h"

namespace bp::cpu {
namespace {

constexpr int64_t kMostSteps = int64_t{1} << 60;  // sums of some of them do not overflow

// From the first element of the full output to the last that x reaches.
int64_t reach_of(const Window& w, uint32_t d) {
  const int64_t steps = sdk::saturating_product({std::max<int64_t>(w.in[d] - 1, 0), w.stride[d]});
  const int64_t window = sdk::saturating_product({w.kernel[d] - 1, w.dilation[d]});
  if (std::max({steps, window, w.pad_begin[d], w.pad_end[d]}) > kMostSteps ||
      std::min(w.pad_begin[d], w.pad_end[d]) < -kMostSteps) {
    throw sdk::Failure{BP_INVALID_ARGUMENT, "conv_transpose: an output that is too large"};
  }
  return steps + window;
}

// Pads that follow from the output's size, as the operator says.
int64_t pad_begin(const Window& w, uint32_t d, int64_t output_padding, bool upper) {
  if (output_padding < 0 || output_padding > kMostSteps) {
    throw sdk::Failure{BP_INVALID_ARGUMENT, "conv_transpose: an output_padding that is no size"};
  }
  const int64_t total = std::max<int64_t>(0, reach_of(w, d) + output_padding + 1 - w.out[d]);
  return upper ? total / 2 : total - total / 2;
}

void settle_pads(const bp_attrs_conv_transpose& attrs, Window* window) {
  const std::string_view mode(attrs.auto_pad.ptr, attrs.auto_pad.len);
  const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  if (!same && attrs.output_shape.count == 0) return;
  const auto paddings = values_of(attrs.output_padding);
  for (uint32_t i = 0; i < window->spatial_rank; ++i) {
    const uint32_t d = kMaxSpatialRank - window->spatial_rank + i;
    window->pad_begin[d] =
        pad_begin(*window, d, paddings.empty() ? 0 : paddings[i], mode == "SAME_UPPER");
  }
}

}  // namespace

TransposeShape make_transpose_shape(const bp_kernel_query& query) {
  const auto attrs = read_attributes(query.attributes, bp_attrs_conv_transpose_defaults());
  const std::span<const int64_t> x = sizes_of(arg_info(query, 0));
  const std::span<const int64_t> w = sizes_of(arg_info(query, 1));
  const std::span<const int64_t> y = sizes_of(output_info(query));
  const bool fits = x.size() >= 3 && w.size() == x.size() && y.size() == x.size() &&
                    attrs.group >= 1 && w[0] == x[1] && x[1] % attrs.group == 0 &&
                    y[1] / attrs.group == w[1];
  if (!fits) {
    throw sdk::Failure{BP_INVALID_ARGUMENT, "conv_transpose: x, w, y and group do not fit"};
  }
  TransposeShape shape{.window = make_window(x.subspan(2), y.subspan(2), w.subspan(2),
                                             {.strides = values_of(attrs.strides),
                                              .pads = values_of(attrs.pads),
                                              .dilations = values_of(attrs.dilations)}),
                       .batch = x[0],
                       .groups = attrs.group,
                       .group_in = x[1] / attrs.group,
                       .group_out = w[1],
                       .has_bias = has_input(query, 2)};
  settle_pads(attrs, &shape.window);
  for (uint32_t d = 0; d < kMaxSpatialRank; ++d) {
    Window& window = shape.window;
    window.pad_end[d] = reach_of(window, d) + 1 - window.pad_begin[d] - window.out[d];
  }
  return shape;
}

}  // namespace bp::cpu
