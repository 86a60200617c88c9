// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/memory_range.hpp"

#include "core/base/dtype.hpp"
#include "core/runtime/device.hpp"

namespace bp {

MemoryRange memory_range(const Tensor& tensor) {
  const Storage& storage = tensor.storage();
  const Device* device = tensor.device();
  const bool is_address =
      device == nullptr || (device->table().props.flags & BP_DEVICE_ADDRESS_BIT) != 0;
  const ElementRange elements = element_range(tensor.sizes(), tensor.strides());
  MemoryRange range;
  range.handle = is_address ? 0 : storage.handle();
  // Modulo 2^64, so that a step back is one.
  const uint64_t base = storage.offset_bytes() + (is_address ? storage.handle() : 0);
  const int64_t back = dtype_step_bytes(tensor.dtype(), elements.lowest);
  range.begin = base + tensor.offset_bytes() + static_cast<uint64_t>(back);
  range.end = range.begin + dtype_storage_bytes(tensor.dtype(), elements.count);
  return range;
}

bool may_overlap(const Tensor& a, const Tensor& b) {
  if (a.element_count() == 0 || b.element_count() == 0) return false;
  const bool is_host_a = a.device() == nullptr || a.device()->has_host_memory();
  const bool is_host_b = b.device() == nullptr || b.device()->has_host_memory();
  if (a.device() != b.device() && !(is_host_a && is_host_b)) return false;
  const MemoryRange x = memory_range(a);
  const MemoryRange y = memory_range(b);
  return x.handle == y.handle && x.begin < y.end && y.begin < x.end;
}

}  // namespace bp
