// SPDX-License-Identifier: Apache-2.0
//
// Aligned operator new and delete: unlike aligned_alloc they exist on every platform.
#include "core/emulation/host_buffer.hpp"

#include <algorithm>
#include <limits>
#include <new>

namespace bp {

void* aligned_host_alloc(uint64_t bytes) {
  // Objects above half the address space cannot exist, and some allocators abort when asked.
  if (bytes > static_cast<uint64_t>(std::numeric_limits<ptrdiff_t>::max())) return nullptr;
  return ::operator new (std::max<size_t>(bytes, 1), std::align_val_t{kHostAlignmentBytes},
                         std::nothrow);
}

void aligned_host_free(void* ptr) {
  ::operator delete (ptr, std::align_val_t{kHostAlignmentBytes}, std::nothrow);
}

}  // namespace bp
