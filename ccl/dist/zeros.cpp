// SPDX-License-Identifier: Apache-2.0
//
// See zeros.hpp. Not every device can fill memory, and all can copy from the host.
#include "ccl/dist/zeros.hpp"

#include <algorithm>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/transfer/transfer.hpp"

namespace bp::ccl {

Status write_zeros(const Tensor& target, Stream& stream) {
  constexpr int64_t kMostBytes = 1 << 20;  // at once
  const int64_t element_bytes = dtype_bits(target.dtype()) / 8;
  const int64_t count = target.element_count();
  const int64_t most = std::min(count, kMostBytes / element_bytes);
  const std::vector<std::byte> zeros(static_cast<size_t>(most * element_bytes));
  for (int64_t begin = 0; begin < count; begin += most) {
    const Ref<Tensor> piece = target.view({std::min(most, count - begin)}, {1}, begin);
    BP_TRY(write_from_host(stream, *piece, zeros.data()));
  }
  return {};
}

}  // namespace bp::ccl
