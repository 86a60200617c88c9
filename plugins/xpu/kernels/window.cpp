// SPDX-License-Identifier: Apache-2.0
//
// Reading and checking windows.
#include "kernels/window.hpp"

#include <algorithm>

namespace bp::xpu {
namespace {

constexpr uint32_t kMostDimensions = 3;

/// Writes `list` to the last entries of `out`.
void read_list(const char* name, const int64_t* list, uint64_t count, uint32_t rank, int64_t least,
               BP_XPU_I64* out) {
  if (count == 0) return;
  if (count != rank) sdk::refuse("plan: ", name, " has ", count, " values, expected ", rank);
  for (uint32_t i = 0; i < rank; ++i) {
    if (list[i] < least)
      sdk::refuse("plan: ", name, " of ", list[i], ", expected ", least, " at least");
    out[kMostDimensions - rank + i] = list[i];
  }
}

}  // namespace

Window make_window(const bp_arg_info& x, const bp_arg_info& y, bp_i64_span extents,
                   const WindowLists& lists) {
  if (x.rank < 3 || x.rank > 2 + kMostDimensions) {
    throw sdk::Refusal{"only one to three spatial dimensions"};
  }
  if (y.rank != x.rank) sdk::refuse("plan: a window from rank ", x.rank, " to rank ", y.rank);
  const uint32_t rank = x.rank - 2;
  Window window{};
  for (uint32_t d = 0; d < kMostDimensions; ++d) {
    window.in[d] = window.out[d] = window.extent[d] = window.stride[d] = window.dilation[d] = 1;
  }
  if (extents.count == 0) sdk::refuse("plan: a window without sizes");
  read_list("kernel_shape", extents.ptr, extents.count, rank, 1, window.extent);
  read_list("x", x.sizes + 2, rank, rank, 0, window.in);
  read_list("y", y.sizes + 2, rank, rank, 0, window.out);
  read_list("strides", lists.strides.ptr, lists.strides.count, rank, 1, window.stride);
  read_list("dilations", lists.dilations.ptr, lists.dilations.count, rank, 1, window.dilation);
  // A negative pad crops.
  const uint64_t half = lists.pads.count / 2;
  if (lists.pads.count % 2 != 0) sdk::refuse("plan: pads has ", lists.pads.count, " values");
  read_list("pads", lists.pads.ptr, half, rank, INT64_MIN, window.pad_begin);
  read_list("pads", lists.pads.ptr + half, half, rank, INT64_MIN, window.pad_end);
  return window;
}

void copy_strides(const bp_arg_info& info, BP_XPU_I64 (&out)[5]) {
  std::fill(out, out + 5, 0);
  std::copy_n(info.strides, 2, out);
  std::copy(info.strides + 2, info.strides + info.rank, out + 7 - info.rank);
}

}  // namespace bp::xpu
