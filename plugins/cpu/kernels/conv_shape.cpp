// SPDX-License-Identifier: Apache-2.0
//
// Reading and checking a convolution. See conv_shape.hpp.
#include "conv_shape.hpp"

#include <algorithm>
#include <string>

#include "backplane/ops/nn.h"

namespace bp::cpu {
namespace {

[[noreturn]] void fail(const std::string& message) {
  throw sdk::Failure{BP_INVALID_ARGUMENT, "conv: " + message};
}

void require_equal(const char* what, int64_t expected, int64_t found) {
  if (expected == found) return;
  fail(std::string(what) + ": expected " + std::to_string(expected) + ", found " +
       std::to_string(found));
}

void check_channels(const ConvShape& shape, std::span<const int64_t> w,
                    std::span<const int64_t> y) {
  const int64_t groups = shape.groups;
  if (groups < 1 || shape.in_channels % groups != 0 || shape.out_channels % groups != 0) {
    fail("group " + std::to_string(groups) + " does not divide " +
         std::to_string(shape.in_channels) + " input and " + std::to_string(shape.out_channels) +
         " output channels");
  }
  require_equal("channels of w", shape.group_in(), w[1]);
  require_equal("batch of y", shape.batch, y[0]);
  require_equal("channels of y", shape.out_channels, y[1]);
}

}  // namespace

const char* refused_conv(const bp_kernel_query& query) {
  const auto attrs = read_attributes(query.attributes, bp_attrs_conv_defaults());
  if (sdk::view(attrs.auto_pad) != "NOTSET") return "leaves auto_pad to the operator";
  return refused_spatial_rank(query);
}

ConvShape make_conv_shape(const bp_kernel_query& query) {
  const auto attrs = read_attributes(query.attributes, bp_attrs_conv_defaults());
  const std::span<const int64_t> x = sizes_of(arg_info(query, 0));
  const std::span<const int64_t> w = sizes_of(arg_info(query, 1));
  const std::span<const int64_t> y = sizes_of(output_info(query));
  if (x.size() < 2 || w.size() != x.size() || y.size() != x.size()) {
    fail("x, w and y must have the same rank of at least 3");
  }
  ConvShape shape{.window = {},
                  .batch = x[0],
                  .groups = attrs.group,
                  .in_channels = x[1],
                  .out_channels = w[0],
                  .has_bias = has_input(query, 2),
                  .has_addend = has_input(query, 3)};
  check_channels(shape, w, y);
  if (shape.has_bias) {
    const bp_arg_info& bias = arg_info(query, 2);
    require_equal("rank of b", 1, bias.rank);
    require_equal("size of b", shape.out_channels, bias.sizes[0]);
  }
  if (shape.has_addend) {
    const std::span<const int64_t> addend = sizes_of(arg_info(query, 3));
    if (!std::ranges::equal(addend, y)) fail("addend and y must have the same sizes");
  }
  shape.window = make_window(x.subspan(2), y.subspan(2), w.subspan(2),
                             {.strides = values_of(attrs.strides),
                              .pads = values_of(attrs.pads),
                              .dilations = values_of(attrs.dilations)});
  return shape;
}

}  // namespace bp::cpu
