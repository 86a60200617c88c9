// SPDX-License-Identifier: Apache-2.0
//
// Memory for host constants, and what foreign ones must hold.
#include "core/op/host_tensor.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>

#include "core/base/dtype.hpp"

namespace bp {

Result<HostTensor> HostTensor::allocate(uint32_t dtype, const Dims& sizes, void** out_data) {
  // Enough for any vector load, and a cache line.
  constexpr size_t kAlignment = 64;
  const auto count = checked_element_count(sizes);
  const int64_t limit = std::numeric_limits<int64_t>::max() / 128;
  if (!is_dtype(dtype) || !count || *count > limit) {
    return Status(BP_INVALID_ARGUMENT, "a host tensor of " + std::string(dtype_name(dtype)) +
                                           numbers_text(sizes) + " has no size in bytes");
  }
  HostTensor tensor;
  tensor.dtype = dtype;
  tensor.sizes = sizes;
  tensor.bytes = dtype_storage_bytes(dtype, *count);
  // Never zero bytes: data of an empty tensor is not null either.
  const size_t rounded = (tensor.bytes / kAlignment + 1) * kAlignment;
  void* memory = std::aligned_alloc(kAlignment, rounded);
  if (memory == nullptr) {
    return Status(BP_OUT_OF_MEMORY, "no host memory for " + std::to_string(tensor.bytes) +
                                        " bytes of " + std::string(dtype_name(dtype)) +
                                        bp::to_string(sizes));
  }
  std::memset(memory, 0, rounded);
  tensor.data = memory;
  tensor.owner =
      std::shared_ptr<const void>(memory, [](const void* p) { std::free(const_cast<void*>(p)); });
  *out_data = memory;
  return tensor;
}

bool HostTensor::is_aligned() const {
  const uint64_t element_bytes = std::max<uint64_t>(dtype_bits(dtype) / 8, 1);
  return reinterpret_cast<uintptr_t>(data) % element_bytes == 0;
}

Result<HostTensor> HostTensor::aligned() const {
  if (is_aligned()) return *this;
  void* copy = nullptr;
  BP_TRY_ASSIGN(HostTensor result, allocate(dtype, sizes, &copy));
  std::memcpy(copy, data, bytes);
  return result;
}

Status check_bools(const uint8_t* values, int64_t count, int64_t index) {
  // Bits that any of a block has: vector code, unlike a search.
  constexpr int64_t kBlock = 4096;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, count);
    uint8_t bits = 0;
    for (int64_t i = begin; i < end; ++i) bits |= values[i];
    if (bits <= 1) [[likely]]
      continue;
    const auto* bad =
        std::find_if(values + begin, values + end, [](uint8_t value) { return value > 1; });
    return {BP_INVALID_ARGUMENT, "element " + std::to_string(index + (bad - values)) +
                                     " of dtype bool: expected 0 or 1, found " +
                                     std::to_string(*bad)};
  }
  return {};
}

Status HostTensor::check_values() const {
  if (dtype != BP_DTYPE_BOOL) return {};
  return check_bools(static_cast<const uint8_t*>(data), static_cast<int64_t>(bytes), 0);
}

}  // namespace bp
