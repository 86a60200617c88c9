// SPDX-License-Identifier: Apache-2.0
//
// Reading and checking the geometry, and which positions fall on padding. See window.hpp.
#include "window.hpp"

#include <algorithm>
#include <string>

#include "kernel_support.hpp"

namespace bp::cpu {
namespace {

constexpr const char* kRankReason = "only one to three spatial dimensions";

void fill(const char* what, std::span<const int64_t> values, uint32_t rank, int64_t least,
          int64_t (&out)[kMaxSpatialRank]) {
  if (values.empty()) return;
  if (values.size() != rank) {
    throw sdk::Failure{BP_INVALID_ARGUMENT, std::string(what) + ": expected " +
                                                std::to_string(rank) + " values, found " +
                                                std::to_string(values.size())};
  }
  for (uint32_t i = 0; i < rank; ++i) {
    if (values[i] < least) {
      throw sdk::Failure{BP_INVALID_ARGUMENT, std::string(what) + ": expected at least " +
                                                  std::to_string(least) + ", found " +
                                                  std::to_string(values[i])};
    }
    out[kMaxSpatialRank - rank + i] = values[i];
  }
}

// For a divisor above 0.
int64_t divide_up(int64_t value, int64_t divisor) {
  return value > 0 ? (value - 1) / divisor + 1 : -(-value / divisor);
}

}  // namespace

bool Window::crops() const {
  const auto is_negative = [](int64_t pad) { return pad < 0; };
  return std::any_of(pad_begin, pad_begin + kMaxSpatialRank, is_negative) ||
         std::any_of(pad_end, pad_end + kMaxSpatialRank, is_negative);
}

bool Window::has_padding() const {
  const auto is_padded = [](int64_t pad) { return pad != 0; };
  return std::ranges::any_of(pad_begin, is_padded) || std::ranges::any_of(pad_end, is_padded);
}

Window make_window(std::span<const int64_t> in, std::span<const int64_t> out,
                   std::span<const int64_t> kernel, const WindowAttributes& attributes) {
  if (in.empty() || in.size() > kMaxSpatialRank) {
    throw Refusal{kRankReason};
  }
  Window window;
  const uint32_t rank = static_cast<uint32_t>(in.size());
  window.spatial_rank = rank;
  const std::span<const int64_t> pads = attributes.pads;
  if (!pads.empty() && pads.size() != size_t{2} * rank) {
    throw sdk::Failure{BP_INVALID_ARGUMENT, "pads: expected " + std::to_string(2 * rank) +
                                                " values, found " + std::to_string(pads.size())};
  }
  if (kernel.empty()) throw sdk::Failure{BP_INVALID_ARGUMENT, "kernel_shape is missing"};
  fill("input", in, rank, 0, window.in);
  fill("output", out, rank, 0, window.out);
  fill("kernel_shape", kernel, rank, 1, window.kernel);
  fill("strides", attributes.strides, rank, 1, window.stride);
  fill("dilations", attributes.dilations, rank, 1, window.dilation);
  // A negative pad crops.
  fill("pads", pads.first(pads.size() / 2), rank, INT64_MIN, window.pad_begin);
  fill("pads", pads.last(pads.size() / 2), rank, INT64_MIN, window.pad_end);
  return window;
}

// The output positions whose input position, at this offset into the window, lies inside the input.
Range WindowRanges::valid_outputs(const Window& window, int dimension, int64_t kernel_position) {
  const int64_t shift = window.pad_begin[dimension] - kernel_position * window.dilation[dimension];
  const int64_t stride = window.stride[dimension];
  return {std::max<int64_t>(0, divide_up(shift, stride)),
          std::min(window.out[dimension], divide_up(window.in[dimension] + shift, stride))};
}

// The offsets into the window whose input position, for this output position, lies inside the
// input.
Range WindowRanges::valid_kernel(const Window& window, int dimension, int64_t out_position) {
  const int64_t start = out_position * window.stride[dimension] - window.pad_begin[dimension];
  const int64_t dilation = window.dilation[dimension];
  return {std::max<int64_t>(0, divide_up(-start, dilation)),
          std::min(window.kernel[dimension], divide_up(window.in[dimension] - start, dilation))};
}

WindowRanges::WindowRanges(const Window& window) : window_(window) {
  const auto keep = [this](std::vector<Range>* out, int64_t count, Find find, int dimension) {
    for (int64_t i = 0; i < std::min(count, kMostKept); ++i) {
      out->push_back(find(window_, dimension, i));
    }
  };
  keep(&columns_, window_.kernel[2], valid_outputs, 2);
  keep(&depths_, window_.out[0], valid_kernel, 0);
  keep(&rows_, window_.out[1], valid_kernel, 1);
  keep(&out_columns_, window_.out[2], valid_kernel, 2);
}

const char* refused_spatial_rank(const bp_kernel_query& query) {
  const uint32_t rank = arg_info(query, 0).rank;
  return rank < 3 || rank > 2 + kMaxSpatialRank ? kRankReason : nullptr;
}

}  // namespace bp::cpu
