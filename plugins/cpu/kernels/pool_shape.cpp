// SPDX-License-Identifier: Apache-2.0
//
// Reading a pooling operator. See pool_shape.hpp.
#include "pool_shape.hpp"

#include <algorithm>
#include <string>

namespace bp::cpu {

int64_t counted(const Window& window, bool counts_padding, int dimension, int64_t out) {
  const int64_t start = out * window.stride[dimension];
  const auto inside = [&](int64_t end) {
    const int64_t room = end - start;
    if (room <= 0) return int64_t{0};
    return std::min(window.kernel[dimension], (room - 1) / window.dilation[dimension] + 1);
  };
  const int64_t begin = window.pad_begin[dimension];
  const int64_t end = begin + window.in[dimension];
  if (counts_padding) return inside(end + window.pad_end[dimension]);
  return std::max<int64_t>(0, inside(end) - inside(begin));
}

PoolShape make_pool_shape(const bp_kernel_query& query, std::string_view op,
                          bp_i64_span kernel_shape, const WindowAttributes& attributes) {
  const std::span<const int64_t> x = sizes_of(arg_info(query, 0));
  const std::span<const int64_t> y = sizes_of(output_info(query));
  if (x.size() < 2 || y.size() != x.size()) {
    throw sdk::Failure{BP_INVALID_ARGUMENT, std::string(op) +
                                                ": expected an input of rank 3 to 5 and an "
                                                "output of the same rank"};
  }
  return {make_window(x.subspan(2), y.subspan(2), values_of(kernel_shape), attributes),
          y[0] * y[1]};
}

}  // namespace bp::cpu
