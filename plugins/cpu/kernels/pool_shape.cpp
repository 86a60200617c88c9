// SPDX-License-Identifier: Apache-2.0
//
// Reading a max_pool. See pool_shape.hpp.
#include "pool_shape.hpp"

#include "backplane/ops/nn.h"

namespace bp::cpu {

PoolShape make_pool_shape(const bp_kernel_query& query) {
  const auto attrs = read_attributes(query.attributes, bp_attrs_max_pool_defaults());
  const std::span<const int64_t> x = sizes_of(arg_info(query, 0));
  const std::span<const int64_t> y = sizes_of(output_info(query));
  if (x.size() < 2 || y.size() != x.size()) {
    throw sdk::Failure{BP_INVALID_ARGUMENT,
                       "max_pool: expected an input of rank 3 to 5 and an "
                       "output of the same rank"};
  }
  return {make_window(x.subspan(2), y.subspan(2), values_of(attrs.kernel_shape),
                      {.strides = values_of(attrs.strides),
                       .pads = values_of(attrs.pads),
                       .dilations = values_of(attrs.dilations)}),
          y[0] * y[1]};
}

}  // namespace bp::cpu
