// SPDX-License-Identifier: Apache-2.0
//
// Reading a pooling operator. See pool_shape.hpp.
#include "pool_shape.hpp"

#include <string>

namespace bp::cpu {

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
