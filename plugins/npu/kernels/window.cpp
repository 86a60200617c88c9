// SPDX-License-Identifier: Apache-2.0
//
// What convolution and pools read of their attributes. See window.hpp.
#include "kernels/window.hpp"

#include <algorithm>

namespace bp::npu {

Spatial spatial_sizes(const Tensor& tensor) {
  Spatial sizes{1, 1, 1};
  std::copy(tensor.sizes.begin() + 2, tensor.sizes.begin() + tensor.rank,
            sizes.end() - (tensor.rank - 2));
  return sizes;
}

int64_t Window::first_tap_at(size_t d, int64_t out, int64_t place_in_x) const {
  const int64_t start = place(d, out, 0);
  if (place_in_x <= start) return 0;
  return std::min(kernel[d], (place_in_x - start - 1) / dilations[d] + 1);
}

void SpatialAttribute::read(uint32_t first, uint32_t count, Spatial* out) const {
  if (values.count == 0) return;
  if (values.count != expected_count) {
    refuse(op, ": ", name, " has ", values.count, " values; expected ", expected_count);
  }
  std::copy_n(values.ptr + first, count, out->end() - count);
}

void check_window(std::string_view op, const Window& window) {
  for (const Spatial& values : {window.kernel, window.strides, window.dilations}) {
    if (*std::min_element(values.begin(), values.end()) < 1) {
      refuse(op, ": a kernel, stride or dilation below 1");
    }
  }
}

uint32_t spatial_rank(std::string_view op, uint32_t rank) {
  if (rank < 3 || rank > 2 + kMaxSpatial) refuse(op, ": an input of rank ", rank);
  return rank - 2;
}

const char* refuse_spatial_rank(const bp_kernel_query& query) {
  const uint32_t rank = sdk::arg_info(query, 0).rank;
  return rank >= 3 && rank <= 2 + kMaxSpatial ? nullptr : "only 1 to 3 spatial dimensions";
}

}  // namespace bp::npu
