// SPDX-License-Identifier: Apache-2.0
//
// Sliding windows; see window.hpp.
#include "ops/nn/window.hpp"

#include <limits>

namespace bp::ops {
namespace {

// With every entry below this and inputs as infer_types limits them, no sum or product of the
// window arithmetic overflows 64 bits.
constexpr int64_t kMaxEntry = std::numeric_limits<int32_t>::max();

Result<Dims> resolve_list(std::string_view attribute, bp_i64_span list, size_t count, int64_t least,
                          int64_t filler) {
  Dims result;
  if (list.count == 0) {
    result.resize(count, filler);
    return result;
  }
  if (list.count != count) {
    return attribute_error(
        attribute, expected_found(std::to_string(count) + " values", std::to_string(list.count)));
  }
  for (int64_t value : values(list)) {
    if (value < least || value > kMaxEntry) {
      return attribute_error(attribute, expected_found("values from " + std::to_string(least) +
                                                           " to " + std::to_string(kMaxEntry),
                                                       value));
    }
    result.push_back(value);
  }
  return result;
}

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && a < 0 ? 1 : 0); }
int64_t ceil_div(int64_t a, int64_t b) { return -floor_div(-a, b); }

}  // namespace

Result<Window> resolve_window(const Dims& kernel, std::string_view kernel_name, bp_i64_span strides,
                              bp_i64_span pads, bp_i64_span dilations) {
  const size_t rank = kernel.size();
  for (int64_t size : kernel) {
    if (!is_known(size) || (size >= 1 && size <= kMaxEntry)) continue;
    return Status(
        BP_INVALID_ARGUMENT,
        std::string(kernel_name) + ": " +
            expected_found("kernel sizes from 1 to " + std::to_string(kMaxEntry), kernel));
  }
  Window window;
  window.kernel = kernel;
  BP_TRY_ASSIGN(window.strides, resolve_list("strides", strides, rank, 1, 1));
  BP_TRY_ASSIGN(window.dilations, resolve_list("dilations", dilations, rank, 1, 1));
  // Both ends in one list, which may be longer than a tensor's rank can be.
  if (pads.count != 0 && pads.count != 2 * rank) {
    return attribute_error(
        "pads", expected_found(std::to_string(2 * rank) + " values", std::to_string(pads.count)));
  }
  const bp_i64_span begins{pads.ptr, pads.count / 2};
  const bp_i64_span ends{pads.count == 0 ? nullptr : pads.ptr + rank, pads.count / 2};
  BP_TRY_ASSIGN(window.pads_begin, resolve_list("pads", begins, rank, 0, 0));
  BP_TRY_ASSIGN(window.pads_end, resolve_list("pads", ends, rank, 0, 0));
  return window;
}

Result<int64_t> window_count(const Window& window, size_t dim, int64_t input_size) {
  if (!is_known(window.kernel[dim])) return kUnknownDim;
  const int64_t extent = window.extent(dim);
  const int64_t padding = window.pads_begin[dim] + window.pads_end[dim];
  const int64_t stride = window.strides[dim];
  if (!is_known(input_size)) {
    // "Same" padding keeps a size, so a symbol survives it.
    return stride == 1 && padding == extent - 1 ? input_size : kUnknownDim;
  }
  const int64_t room = input_size + padding - extent;
  int64_t count = floor_div(room, stride) + 1;
  if (window.ceil_mode) {
    count = ceil_div(room, stride) + 1;
    // A window that would start in the end padding is left out.
    if ((count - 1) * stride >= input_size + window.pads_begin[dim]) --count;
  }
  if (count > 0) return count;
  return input_error("x", "spatial dimension " + std::to_string(dim) + " of size " +
                              std::to_string(input_size) + " plus padding " +
                              std::to_string(padding) + " has no room for a window of " +
                              std::to_string(extent));
}

}  // namespace bp::ops
